// What a definition is cut into: parts in the order in which they run, what flows between them.

import { Facts } from "./facts";
import type { Program, Step } from "./model";
import { kernel, tab, turnTo } from "./state";

const [WIDTH, HEIGHT, WIDE, HIGH, EDGE] = [320, 74, 350, 120, 16];

const x = (step: Step) => EDGE + step.column * WIDE;
const y = (step: Step) => EDGE + step.row * HIGH;

const widthOf = (program: Program) => Math.max(...program.steps.map((step) => x(step) + WIDTH + EDGE));

export function ProgramTab({ program }: { readonly program: Program }) {
  return (
    <div class="overview">
      <section style={{ flexBasis: `${widthOf(program)}px` }}>
        <h2>Parts</h2>
        <p class="about">
          The definition is no single kernel, so it is cut: each part runs when those above it have run. A part with a
          kernel of wsched's leads to it.
        </p>
        <Drawing program={program} />
      </section>
      <div>
        <section>
          <h2>Cut</h2>
          <Facts facts={program.facts} />
        </section>
        <section>
          <h2>In the order in which they run</h2>
          <ol class="steps">
            {program.steps.map((step) => (
              <li>
                {step.runs}: {step.reads.join(", ")} → {step.writes.join(", ")}: {step.title}
                {step.lines.map((line) => (
                  <p class="about">{line}</p>
                ))}
              </li>
            ))}
          </ol>
        </section>
        <section>
          <h2>Definition</h2>
          <pre>{program.definition}</pre>
        </section>
      </div>
    </div>
  );
}

function Drawing({ program }: { readonly program: Program }) {
  const width = widthOf(program);
  const height = Math.max(...program.steps.map((step) => y(step) + HEIGHT + EDGE));
  return (
    <svg id="program" class="graph" viewBox={`0 0 ${width} ${height}`} width={width} role="group" aria-label="Parts">
      <defs>
        <marker id="flow" viewBox="0 0 8 8" refX="7" refY="4" markerUnits="userSpaceOnUse" markerWidth="10" markerHeight="10" orient="auto">
          <path d="M0 0L8 4L0 8z" class="edge" />
        </marker>
      </defs>
      {program.flows.map(({ source, target, tensor }) => (
        <Flow from={program.steps[source]} to={program.steps[target]} tensor={tensor} />
      ))}
      {program.steps.map((step, at) => (
        <Box step={step} number={at + 1} />
      ))}
    </svg>
  );
}

function Flow({ from, to, tensor }: { from: Step | undefined; to: Step | undefined; tensor: string }) {
  if (from === undefined || to === undefined) return null;
  const [x1, y1, x2, y2] = [x(from) + WIDTH / 2, y(from) + HEIGHT, x(to) + WIDTH / 2, y(to)];
  const middle = (y1 + y2) / 2;
  return (
    <g class="arrow">
      <path d={`M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`} marker-end="url(#flow)" />
      <text x={(x1 + x2) / 2 + 6} y={middle}>
        {tensor}
      </text>
    </g>
  );
}

function Box({ step, number }: { readonly step: Step; readonly number: number }) {
  const own = step.kernel >= 0;
  const show = () => {
    if (!own) return;
    turnTo(step.kernel);
    tab.value = "Overview";
  };
  const lines = [`${number}. ${step.runs}: ${step.title}`, ...step.lines, `makes ${step.writes.join(", ")}`];
  const act = own ? { role: "button" as const, tabindex: 0, "aria-pressed": step.kernel === kernel.value } : {};
  return (
    <g
      class={own ? "tensor step registers" : "tensor step"}
      {...act}
      aria-label={lines.join("; ")}
      transform={`translate(${x(step)} ${y(step)})`}
      onClick={show}
      onKeyDown={(event) => event.key === "Enter" && show()}
    >
      <title>{lines.join("\n")}</title>
      <rect width={WIDTH} height={HEIGHT} rx="6" />
      {[...lines.slice(0, -1).slice(0, 3), lines.at(-1)!].map((line, at) => (
        <text x="10" y={16 + 16 * at} class={at ? "made" : ""}>
          {line.length > 44 ? `${line.slice(0, 43)}…` : line}
        </text>
      ))}
    </g>
  );
}
