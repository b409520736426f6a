import { Facts } from "./facts";
import { Graph, widthOf } from "./graph";
import type { Page } from "./model";
import { Nests } from "./nests";
import { TimeLines } from "./time";

export function Overview({ page }: { readonly page: Page }) {
  return (
    <div class="overview">
      <section style={{ flexBasis: `${widthOf(page.graph)}px` }}>
        <h2>Sub-DAGs</h2>
        <p class="about">
          At each dashed edge the fusion is cut: what is on either side has warps and loops of its own, and a ring
          between them. A tensor leads to the lines that make it.
        </p>
        <Graph graph={page.graph} />
        <TimeLines page={page} />
      </section>
      <div>
        <section>
          <h2>Kernel</h2>
          <Facts facts={page.facts} />
        </section>
        <section>
          <h2>Loops</h2>
          <Nests page={page} />
          <details>
            <summary>Extents of the loops</summary>
            <pre>{page.extents.join("\n")}</pre>
          </details>
        </section>
        <section>
          <h2>Legal, because the index of the load loop follows from compute's loops</h2>
          <pre>{page.graph.relation.join("\n")}</pre>
        </section>
        <section>
          <h2>Definition</h2>
          <pre>{page.definition}</pre>
        </section>
      </div>
    </div>
  );
}
