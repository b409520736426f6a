// The fusion, cut into sub-DAGs: tensors at the places that the model gives them.

import type { Edge, Graph as Model, Node } from "./model";
import { links, selection, tab } from "./state";

const [WIDTH, HEIGHT, WIDE, HIGH, EDGE, TITLE] = [168, 40, 184, 66, 22, 22];

const x = (node: Node) => EDGE + node.column * WIDE + node.part * EDGE;
const y = (node: Node) => EDGE + TITLE + node.row * HIGH;

export const widthOf = (graph: Model) => Math.max(...graph.nodes.map((node) => x(node) + WIDTH + EDGE));

export function Graph({ graph }: { readonly graph: Model }) {
  const by = new Map(graph.nodes.map((node) => [node.name, node]));
  const width = widthOf(graph);
  const height = Math.max(...graph.nodes.map((node) => y(node) + HEIGHT + EDGE));
  return (
    <svg id="graph" class="graph" viewBox={`0 0 ${width} ${height}`} width={width} role="group" aria-label="Sub-DAGs">
      <defs>
        {["edge", "cut"].map((kind) => (
          <marker id={kind} viewBox="0 0 8 8" refX="7" refY="4" markerUnits="userSpaceOnUse" markerWidth="10" markerHeight="10" orient="auto">
            <path d="M0 0L8 4L0 8z" class={kind} />
          </marker>
        ))}
      </defs>
      {graph.parts.map((part, at) => (
        <PartBox nodes={graph.nodes.filter((node) => node.part === at)} title={part.title} loads={part.loads} />
      ))}
      {graph.edges.map((edge) => (
        <Arrow edge={edge} from={by.get(edge.source)} to={by.get(edge.target)} />
      ))}
      {graph.nodes.map((node) => (
        <Tensor node={node} />
      ))}
    </svg>
  );
}

function PartBox({ nodes, title, loads }: { nodes: readonly Node[]; title: string; loads: boolean }) {
  if (nodes.length === 0) return null;
  const left = Math.min(...nodes.map(x)) - 12;
  const top = Math.min(...nodes.map(y)) - 12;
  const right = Math.max(...nodes.map(x)) + WIDTH + 12;
  const bottom = Math.max(...nodes.map(y)) + HEIGHT + 12;
  return (
    <g class={loads ? "part loads" : "part"}>
      <rect x={left} y={top - 14} width={right - left} height={bottom - top + 14} rx="10" />
      <text x={left + 10} y={top + 2}>
        {title}
      </text>
    </g>
  );
}

function Arrow({ edge, from, to }: { edge: Edge; from: Node | undefined; to: Node | undefined }) {
  if (from === undefined || to === undefined) return null;
  const [x1, y1] = [x(from) + WIDTH / 2, y(from) + HEIGHT];
  const [x2, y2] = [x(to) + WIDTH / 2, y(to)];
  const middle = (y1 + y2) / 2;
  return (
    <g class={edge.ring ? "arrow cut" : "arrow"}>
      <path
        d={`M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`}
        marker-end={`url(#${edge.ring ? "cut" : "edge"})`}
      />
      {edge.ring ? (
        <text x={x1 - 6} y={y1 + 30} text-anchor="end">
          {edge.ring}
        </text>
      ) : null}
    </g>
  );
}

function Tensor({ node }: { readonly node: Node }) {
  const show = () => {
    selection.value = links.value!.ofTensor(node.name);
    tab.value = "Code";
  };
  return (
    <g
      class={`tensor ${node.memory}`}
      role="button"
      tabindex={0}
      aria-label={`${node.text} = ${node.made}`}
      transform={`translate(${x(node)} ${y(node)})`}
      onClick={show}
      onKeyDown={(event) => event.key === "Enter" && show()}
    >
      <title>{`${node.text} = ${node.made}\nloops: ${node.loops.join(", ")}`}</title>
      <rect width={WIDTH} height={HEIGHT} rx="6" />
      <text x="10" y="17">{node.text}</text>
      <text x="10" y="32" class="made">{short(node.made)}</text>
    </g>
  );
}

/** An expression without what makes it long. */
function short(made: string): string {
  const text = made.replace(/, flags = .*\)/, ")").replace("CpAsyncBulkTensorTile", "TMA");
  return text.length > 23 ? `${text.slice(0, 22)}…` : text;
}
