// Loop nests beside each other: what loads on the left, what computes on the right.

import type { Nest, Page } from "./model";
import { links, selection } from "./state";

export function Nests({ page }: { readonly page: Page }) {
  const sides = [true, false].map((loads) =>
    page.nests.map((nest, at) => ({ nest, at })).filter(({ nest }) => page.graph.parts[nest.part]?.loads === loads),
  );
  return (
    <div class="nests" id="nests">
      {sides.map((side) => (
        <div>{side.map(({ nest, at }) => <OneNest page={page} nest={nest} at={at} />)}</div>
      ))}
    </div>
  );
}

function OneNest({ page, nest, at }: { readonly page: Page; readonly nest: Nest; readonly at: number }) {
  return (
    <div class="nest">
      <h3>{page.graph.parts[nest.part]?.title}</h3>
      {nest.lines.map((line, number) => (
        <button
          type="button"
          class={line.loop ? "line loop" : "line"}
          aria-pressed={selection.value.nests.has(`${at}:${number}`)}
          style={{ paddingLeft: `${0.5 + 1.1 * line.depth}rem` }}
          onClick={() => (selection.value = links.value!.ofNest(at, number))}
        >
          {line.text}
        </button>
      ))}
    </div>
  );
}
