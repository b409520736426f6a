// The player: the machine's warps, rings and barriers, frame by frame.

import { useEffect, useMemo } from "preact/hooks";
import { Barriers, Rings } from "./barriers";
import { Lanes } from "./lanes";
import type { Page } from "./model";
import { Pane } from "./pane";
import type { WarpState } from "./player";
import { film, frame, kernelText, player, playing, seek, seekTile, speed, warp } from "./state";

const ORDERS: Record<string, string> = {
  random: "at any time (random)",
  fair: "at once, warps in turn (fair)",
  lazy: "as late as can be (lazy)",
  eager: "at once (eager)",
};

export function Machine({ page }: { readonly page: Page }) {
  const shown = player.value;
  if (shown === null) return <p class="missing">{page.unfilmed}</p>;
  const state = shown.state(frame.value);
  const warps = shown.warps(state);
  const barriers = shown.barriers(state);
  const event = shown.event(frame.value);
  const actor = warps[event.warp];
  const chosen = warps[warp.value];
  return (
    <div class="machine">
      <Controls page={page} length={shown.length} />
      <p class="event" aria-live="polite">
        <strong>{actor ? name(actor) : ""}</strong> <code>{event.text || "goes on"}</code>
      </p>
      <Lanes player={shown} />
      <div class="columns">
        <div>
          <Warps warps={warps} actor={event.warp} />
          <Rings page={page} barriers={barriers} />
          <Barriers barriers={barriers} />
        </div>
        <Kernel page={page} line={chosen?.line ?? 0} of={chosen} />
      </div>
      <p class="hint">
        The machine executes the kernel on the CPU. Here runs the first cluster of a grid of {shown.film.grid} CTAs, few
        enough for a CTA to have several tiles; a frame is a step of one warp or a copy that lands, its length says
        nothing of time.{shown.film.cut ? " The film ends before the run does." : ""}
      </p>
    </div>
  );
}

function name(state: WarpState): string {
  const { cta, warp: number, role, group } = state.warp;
  return `CTA ${cta} warp ${number}${role ? ` ${role}[${group}]` : ""}`;
}

function Controls({ page, length }: { readonly page: Page; readonly length: number }) {
  useEffect(() => {
    if (!playing.value) return;
    const timer = setInterval(() => {
      if (frame.value >= length - 1) playing.value = false;
      else seek(frame.value + Math.max(1, Math.round(speed.value / 30)));
    }, 1000 / Math.min(speed.value, 30));
    return () => clearInterval(timer);
  }, [playing.value, speed.value, length]);
  return (
    <div class="bar">
      <button type="button" onClick={() => seekTile(-1)} title="A tile back (,)">« tile</button>
      <button type="button" onClick={() => seek(frame.value - 1)} title="A step back (←)">◂</button>
      <button type="button" class="play" onClick={() => (playing.value = !playing.value)} title="Play or stop (space)">
        {playing.value ? "stop" : "play"}
      </button>
      <button type="button" onClick={() => seek(frame.value + 1)} title="A step on (→)">▸</button>
      <button type="button" onClick={() => seekTile(1)} title="A tile on (.)">tile »</button>
      <input
        type="range"
        id="frame"
        aria-label="Frame"
        min={0}
        max={length - 1}
        value={frame.value}
        onInput={(event) => seek(event.currentTarget.valueAsNumber)}
      />
      <output for="frame">
        {frame.value + 1} of {length}
      </output>
      <label>
        copies land{" "}
        <select
          value={film.value}
          onChange={(event) => {
            film.value = Number(event.currentTarget.value);
            seek(0);
          }}
        >
          {page.films.map((each, i) => (
            <option value={i}>{ORDERS[each.adversary] ?? each.adversary}</option>
          ))}
        </select>
      </label>
      <label>
        speed{" "}
        <select value={speed.value} onChange={(event) => (speed.value = Number(event.currentTarget.value))}>
          {[5, 20, 100, 400].map((each) => (
            <option value={each}>{each}/s</option>
          ))}
        </select>
      </label>
    </div>
  );
}

function Warps({ warps, actor }: { readonly warps: readonly WarpState[]; readonly actor: number }) {
  return (
    <table class="warps">
      <thead>
        <tr>
          <th style={{ width: "3.6rem" }}>warp</th>
          <th style={{ width: "6rem" }}>role</th>
          <th style={{ width: "7rem" }}>loops</th>
          <th style={{ width: "9rem" }} title="wgmmas that have not finished, and how many it has waited for">accumulators</th>
          <th style={{ width: "3.2rem" }} title="TMA stores of which it has not seen the end">stores</th>
          <th>waits for</th>
        </tr>
      </thead>
      <tbody>
        {warps.map((state, i) => (
          <tr class={`${state.over ? "over" : state.wait ? "waits" : ""}${i === actor ? " actor" : ""}`}>
            <td>
              <button type="button" aria-pressed={i === warp.value} onClick={() => (warp.value = i)}>
                {state.warp.cta}.{state.warp.warp}
              </button>
            </td>
            <td>{state.warp.role ? `${state.warp.role}[${state.warp.group}]` : ""}</td>
            <td>{state.at}</td>
            <td>{state.issued ? `${state.issued - state.done} in flight, ${state.seen} seen` : ""}</td>
            <td>{state.stores || ""}</td>
            <td title={state.wait}>{state.over ? "at its end" : state.wait}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Kernel({ page, line, of }: { readonly page: Page; readonly line: number; readonly of: WarpState | undefined }) {
  const lines = useMemo(() => kernelText(page, page.texts.length - 1), [page]);
  const marked = useMemo(() => new Set([line]), [line]);
  return (
    <section aria-label="Kernel">
      <h3>{of ? `Where ${name(of)} is` : ""}</h3>
      <Pane label="Kernel" lines={lines} marked={marked} />
    </section>
  );
}
