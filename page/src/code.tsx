// Nests, kernel, CUDA, PTX and SASS beside each other; a line of one marks its like in the others.

import { useMemo } from "preact/hooks";
import { signal } from "@preact/signals";
import type { Language } from "./links";
import { NOTHING } from "./links";
import type { Page } from "./model";
import { Nests } from "./nests";
import { Pane } from "./pane";
import { kernelText, links, selection } from "./state";

const LANGUAGES: readonly Language[] = ["kernel", "CUDA", "PTX", "SASS"];
const shown = signal<ReadonlySet<Language>>(new Set(["kernel", "CUDA", "SASS"]));

function toggle(language: Language): void {
  const next = new Set(shown.value);
  if (!next.delete(language)) next.add(language);
  shown.value = next;
}

export function CodeTab({ page }: { readonly page: Page }) {
  const open = LANGUAGES.filter((language) => shown.value.has(language));
  return (
    <div class="code">
      <div class="bar">
        <span>Show</span>
        {LANGUAGES.map((language) => (
          <button type="button" aria-pressed={shown.value.has(language)} onClick={() => toggle(language)}>
            {language}
          </button>
        ))}
        <button type="button" onClick={() => (selection.value = NOTHING)}>
          clear marks
        </button>
        <span class="hint">A click, or Enter on a line, marks what it was made from and what was made of it.</span>
      </div>
      <Nests page={page} />
      <div class="panes" style={{ gridTemplateColumns: `repeat(${Math.max(open.length, 1)}, minmax(0, 1fr))` }}>
        {open.map((language) => (
          <Text key={language} page={page} language={language} />
        ))}
      </div>
    </div>
  );
}

function Text({ page, language }: { readonly page: Page; readonly language: Language }) {
  const code = page.codes.find((each) => each.language === language);
  const lines = useMemo(() => code?.lines ?? kernelText(page, page.texts.length - 1), [page, language]);
  const lead = code?.origins.findIndex((origin) => origin >= 0) ?? 0;
  return (
    <section aria-label={language}>
      <h3>
        {language} <small>{lines.length > 0 ? `${lines.length} lines` : ""}</small>
      </h3>
      {code?.missing ? (
        <p class="missing">{code.missing}</p>
      ) : (
        <Pane
          label={language}
          lines={lines}
          first={Math.max(lead - 3, 0)}
          marked={selection.value[language]}
          onLine={(line) => (selection.value = links.value!.ofLine(language, line))}
        />
      )}
    </section>
  );
}
