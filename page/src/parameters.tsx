// Why each parameter has its value, and what others would cost.

import { signal } from "@preact/signals";
import type { Choice, Page } from "./model";

const filter = signal("");
const SHOWN = 40;

export function Parameters({ page }: { readonly page: Page }) {
  const us = page.us;
  return (
    <div class="parameters">
      <section>
        <h2>Parameters</h2>
        <p class="about">
          {us === null
            ? "The cost model does not describe this schedule."
            : `Beside the ${us.toFixed(2)} us that are predicted: what other values would cost. A tile, whose it is, and exchanged operands are priced by the best schedule that has them, the others changed alone.`}
        </p>
        {page.choices.map((choice) => (
          <Row choice={choice} us={us} />
        ))}
      </section>
      <Ways page={page} />
    </div>
  );
}

function Row({ choice, us }: { readonly choice: Choice; readonly us: number | null }) {
  const head = (
    <>
      <b>{choice.name}</b> {choice.value ? <code>{choice.value}</code> : null} <span>{choice.reason}</span>
    </>
  );
  if (choice.others.length === 0) return <div class="choice">{head}</div>;
  return (
    <details class="choice">
      <summary>{head}</summary>
      <table>
        {choice.others.map((other) => (
          <tr class={other.us === null ? "illegal" : ""}>
            <td>
              <code>{other.value}</code>
            </td>
            <td class="number">{other.us === null ? "illegal" : `${other.us.toFixed(2)} us`}</td>
            <td class="number">{other.us === null || us === null ? "" : `${(other.us / us).toFixed(2)}×`}</td>
            <td class="meter">
              {other.us === null || us === null ? null : <i style={{ width: `${Math.min(100, (50 * other.us) / us)}%` }} />}
            </td>
            <td>{other.why}</td>
          </tr>
        ))}
      </table>
    </details>
  );
}

function Ways({ page }: { readonly page: Page }) {
  const found = page.ways.filter(([name]) => name.includes(filter.value));
  return (
    <section>
      <h2>Schedules that were not taken</h2>
      <label>
        those with{" "}
        <input
          type="search"
          value={filter.value}
          placeholder="ping-pong, 128x, cluster…"
          onInput={(event) => (filter.value = event.currentTarget.value)}
        />
      </label>{" "}
      {found.length} of {page.ways.length}
      <table class="ways">
        {found.slice(0, SHOWN).map(([name, us]) => (
          <tr>
            <td>{name}</td>
            <td class="number">{us.toFixed(2)} us</td>
          </tr>
        ))}
      </table>
      {found.length > SHOWN ? <p class="hint">and {found.length - SHOWN} slower ones</p> : null}
    </section>
  );
}
