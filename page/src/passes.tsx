// A slider over the passes, and the difference that each made.

import { useMemo } from "preact/hooks";
import type { Page } from "./model";
import { Pane } from "./pane";
import { kernelText, seekChange, stage } from "./state";

export function Passes({ page }: { readonly page: Page }) {
  const at = stage.value;
  const here = page.stages[at]!;
  const before = page.stages[at - 1];
  const changed = before === undefined || before.text !== here.text;
  const lines = useMemo(() => kernelText(page, here.text), [page, here.text]);
  const old = useMemo(
    () => (before === undefined || !changed ? null : kernelText(page, before.text)),
    [page, before?.text, changed],
  );
  return (
    <div class="passes">
      <div class="bar">
        <button type="button" title="The change before (p)" onClick={() => seekChange(-1)}>
          ◂
        </button>
        <input
          type="range"
          id="pass"
          aria-label="Pass"
          aria-valuetext={here.name}
          min={0}
          max={page.stages.length - 1}
          value={at}
          onInput={(event) => (stage.value = event.currentTarget.valueAsNumber)}
        />
        <button type="button" title="The next change (n)" onClick={() => seekChange(1)}>
          ▸
        </button>
        <output for="pass">
          {at} of {page.stages.length - 1}: <strong>{here.name}</strong>
          {changed ? "" : " (nothing to do)"}
        </output>
      </div>
      <p class="about">{here.about}.</p>
      <div class="columns">
        <ol class="stages" start={0}>
          {page.stages.map((each, i) => (
            <li>
              <button
                type="button"
                class={i > 0 && page.stages[i - 1]!.text === each.text ? "same" : ""}
                aria-current={i === at ? "step" : undefined}
                title={each.about}
                onClick={() => (stage.value = i)}
              >
                {each.name}
              </button>
            </li>
          ))}
        </ol>
        <Pane label={`The kernel after ${here.name}`} lines={lines} before={old} />
      </div>
    </div>
  );
}
