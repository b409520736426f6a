// Time lines: predicted, and measured where there is a trace.

import { signal } from "@preact/signals";
import type { Lane, Page, TimeLine } from "./model";

const zoom = signal(1);
const HIGH = 30;

const COLOURS: Record<string, string> = {
  start: "--t-start",
  load: "--t-start",
  cta: "--t-start",
  transform: "--t-memory",
  turn: "--t-turn",
  "k loops": "--t-main",
  main_loop: "--t-main",
  epilogues: "--t-epilogue",
  epilogue: "--t-epilogue",
  store_wait: "--t-wait",
  drain: "--t-wait",
  "adding parts": "--t-turn",
  memory: "--t-memory",
  power: "--t-power",
};

export function Time({ page }: { readonly page: Page }) {
  if (page.times.length === 0) {
    return <p class="missing">The cost model does not describe this schedule, and no trace was given.</p>;
  }
  return (
    <div class="time">
      <div class="bar">
        <button type="button" onClick={() => (zoom.value = Math.max(1, zoom.value / 2))} title="Less (-)">−</button>
        <button type="button" onClick={() => (zoom.value = Math.min(64, zoom.value * 2))} title="More (+)">+</button>
        <output>{zoom.value}×</output>
        <span class="hint">Lines of one unit have one scale.</span>
      </div>
      <TimeLines page={page} />
      {page.times.length === 1 ? (
        <p class="hint">
          A measured line stands here with <code>--trace FILE.json</code>, as <code>wsched trace --json</code> writes it
          on a GPU.
        </p>
      ) : null}
    </div>
  );
}

/** All lines, those of one unit on one scale. */
export function TimeLines({ page }: { readonly page: Page }) {
  const units = new Set(page.times.map((line) => line.unit));
  const ends = new Map([...units].map((unit) => [unit, end(page.times.filter((line) => line.unit === unit))]));
  return (
    <>
      {page.times.map((line) => (
        <One line={line} until={ends.get(line.unit) ?? 1} />
      ))}
    </>
  );
}

export function zoomBy(factor: number): void {
  zoom.value = Math.max(1, Math.min(64, zoom.value * factor));
}

const end = (lines: readonly TimeLine[]) =>
  Math.max(...lines.flatMap((line) => line.lanes.flatMap((lane) => lane.bars.map((bar) => bar.end))), 1e-9);

function One({ line, until }: { readonly line: TimeLine; readonly until: number }) {
  const names = [...new Set(line.lanes.flatMap((lane) => lane.bars.map((bar) => bar.name)))];
  return (
    <section class="timeline">
      <h2>
        {line.title} <small>{line.about}</small>
      </h2>
      <div class="legend">
        {names.map((name) => (
          <span>
            <i style={{ background: `var(${COLOURS[name] ?? "--t-start"})` }} /> {name}
          </span>
        ))}
      </div>
      <div class="scroll" tabindex={0} aria-label={`Time line: ${line.title}`}>
        <div style={{ width: `${100 * zoom.value}%` }}>
          {line.lanes.map((lane) => (
            <Row lane={lane} until={until} unit={line.unit} />
          ))}
          <Axis until={until} unit={line.unit} />
        </div>
      </div>
    </section>
  );
}

function Row({ lane, until, unit }: { readonly lane: Lane; readonly until: number; readonly unit: string }) {
  return (
    <div class="row" style={{ height: `${HIGH}px` }}>
      <span class="title">{lane.title}</span>
      {lane.bars.map((bar) => (
        <i
          style={{
            left: `${(100 * bar.begin) / until}%`,
            width: `${(100 * (bar.end - bar.begin)) / until}%`,
            background: `var(${COLOURS[bar.name] ?? "--t-start"})`,
          }}
          title={`${bar.name}${bar.tile < 0 ? "" : `, tile ${bar.tile}`}: ${number(bar.begin)} to ${number(bar.end)} ${unit} (${number(bar.end - bar.begin)})`}
        />
      ))}
    </div>
  );
}

function Axis({ until, unit }: { readonly until: number; readonly unit: string }) {
  const step = 10 ** Math.floor(Math.log10(until / zoom.value)) / 2;
  const count = Math.floor(until / step);
  return (
    <div class="axis">
      {Array.from({ length: count + 1 }, (_, i) => (
        <span style={{ left: `${(100 * i * step) / until}%` }}>
          {number(i * step)}
          {i === 0 ? ` ${unit}` : ""}
        </span>
      ))}
    </div>
  );
}

const number = (value: number) => String(Number(value.toPrecision(4)));
