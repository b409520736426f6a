// Rings as rows of stages, and the other barriers.

import type { Page } from "./model";
import type { BarrierState } from "./player";

export function Rings({ barriers }: { readonly page: Page; readonly barriers: readonly BarrierState[] }) {
  const rings = new Map<string, BarrierState[]>();
  for (const state of barriers) {
    if (!state.barrier.ring) continue;
    const key = `CTA ${state.barrier.cta} ${state.barrier.ring}`;
    rings.set(key, [...(rings.get(key) ?? []), state]);
  }
  return (
    <>
      {[...rings].map(([title, states]) => (
        <section class="ring">
          <h3>{title}</h3>
          <div class="stages">
            {states
              .filter((state) => state.barrier.end === "full")
              .map((full) => (
                <StageCell full={full} empty={states.find((s) => isEmptyOf(s, full))} />
              ))}
          </div>
        </section>
      ))}
    </>
  );
}

const isEmptyOf = (state: BarrierState, full: BarrierState) =>
  state.barrier.end === "empty" && state.barrier.index === full.barrier.index;

function StageCell({ full, empty }: { readonly full: BarrierState; readonly empty: BarrierState | undefined }) {
  const landed = full.announced - full.missing;
  const filling = full.missing !== 0 || full.announced > 0;
  const kept = empty !== undefined && full.phase >= empty.phase && full.phase > 0;
  const word = filling ? "filling" : kept ? "full" : "empty";
  const share = filling ? (full.announced > 0 ? landed / full.announced : 0) : kept ? 1 : 0;
  return (
    <div class={`stage ${word}`} title={`full: phase ${full.phase}, empty: phase ${empty?.phase ?? "-"}`}>
      <div class="level" style={{ height: `${100 * share}%` }} />
      <b>{full.barrier.index}</b>
      <span>{word === "empty" ? "" : full.what}</span>
      <span>{filling ? `${landed} of ${full.announced} B` : word}</span>
      <small title="completed phases of the full and of the empty barrier, and arrivals that the latter awaits">
        phases {full.phase} · {empty?.phase ?? "-"}
        {empty && empty.pending > 0 ? `, awaits ${empty.pending}` : ""}
      </small>
    </div>
  );
}

/** Barriers that are no ring's: those in memory, and the hardware's. */
export function Barriers({ barriers }: { readonly barriers: readonly BarrierState[] }) {
  const others = barriers.filter((state) => !state.barrier.ring);
  if (others.length === 0) return null;
  return (
    <section>
      <h3>Other barriers</h3>
      <table class="barriers">
        <thead>
          <tr>
            <th>barrier</th>
            <th>completed</th>
            <th>state</th>
          </tr>
        </thead>
        <tbody>
          {others.map(({ barrier, phase, pending, missing }) => (
            <tr class={barrier.named && pending > 0 ? "waits" : ""}>
              <td>
                CTA {barrier.cta} {barrier.array}[{barrier.index}] <small>{barrier.named ? "named" : "mbarrier"}</small>
              </td>
              <td>{phase}</td>
              <td>
                {barrier.named
                  ? pending > 0
                    ? `${pending} threads have arrived`
                    : ""
                  : `awaits ${pending} arrivals${missing ? ` and ${missing} bytes` : ""}`}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
