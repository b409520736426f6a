// A film at any moment: the state that its frames add up to, and where tiles begin.

import type { Barrier, Film, Warp } from "./model";

const KEY = 128; // frames between states that are kept

export interface WarpState {
  readonly warp: Warp;
  readonly line: number;
  readonly wait: string;
  readonly at: string;
  readonly over: boolean;
  readonly issued: number;
  readonly done: number;
  readonly seen: number;
  readonly stores: number;
}

export interface BarrierState {
  readonly barrier: Barrier;
  readonly phase: number;
  readonly pending: number;
  readonly missing: number;
  readonly announced: number;
  readonly what: string;
}

/** What a warp does in a frame, for the lanes. */
export const enum Does {
  Nothing,
  Runs,
  Waits,
  Over,
}

export class Player {
  readonly length: number;
  private readonly keys: Int32Array[] = [];
  private readonly width: number;

  constructor(readonly film: Film) {
    const { warps, barriers, warp_fields, barrier_fields, frames } = film;
    this.width = warps.length * warp_fields.length + barriers.length * barrier_fields.length;
    this.length = frames.length;
    const state = new Int32Array(this.width);
    frames.forEach((frame, at) => {
      if (at % KEY === 0) this.keys.push(state.slice());
      apply(state, frame);
    });
  }

  /** The state behind frame `at`. */
  state(at: number): Int32Array {
    const key = Math.min(Math.floor(at / KEY), this.keys.length - 1);
    const state = this.keys[key]?.slice() ?? new Int32Array(this.width);
    for (let i = key * KEY; i <= at && i < this.length; i++) apply(state, this.film.frames[i]!);
    return state;
  }

  /** What happened in frame `at`, and to which warp it belongs. */
  event(at: number): { readonly text: string; readonly warp: number } {
    const frame = this.film.frames[at];
    return { text: this.film.texts[frame?.[0] ?? 0] ?? "", warp: frame?.[1] ?? 0 };
  }

  warps(state: Int32Array): readonly WarpState[] {
    const { warps, warp_fields, texts } = this.film;
    return warps.map((warp, i) => {
      const value = (name: string) => state[i * warp_fields.length + warp_fields.indexOf(name)] ?? 0;
      return {
        warp,
        line: value("line"),
        wait: texts[value("wait")] ?? "",
        at: texts[value("at")] ?? "",
        over: value("over") === 1,
        issued: value("issued"),
        done: value("done"),
        seen: value("seen"),
        stores: value("stores"),
      };
    });
  }

  barriers(state: Int32Array): readonly BarrierState[] {
    const { warps, barriers, warp_fields, barrier_fields, texts } = this.film;
    const start = warps.length * warp_fields.length;
    return barriers.map((barrier, i) => {
      const base = start + i * barrier_fields.length;
      const value = (name: string) => state[base + barrier_fields.indexOf(name)] ?? 0;
      return {
        barrier,
        phase: value("phase"),
        pending: value("pending"),
        missing: value("missing"),
        announced: value("announced"),
        what: texts[value("what")] ?? "",
      };
    });
  }

  /** Of each warp what it does in each frame. */
  lanes(): readonly Uint8Array[] {
    const { warps, warp_fields } = this.film;
    const state = new Int32Array(this.width);
    const lanes = warps.map(() => new Uint8Array(this.length));
    const [wait, over] = [warp_fields.indexOf("wait"), warp_fields.indexOf("over")];
    this.film.frames.forEach((frame, at) => {
      apply(state, frame);
      warps.forEach((_, i) => {
        const base = i * warp_fields.length;
        const idle = state[base + over] ? Does.Over : Does.Nothing;
        lanes[i]![at] = state[base + wait] ? Does.Waits : frame[1] === i ? Does.Runs : idle;
      });
    });
    return lanes;
  }

  /** The frames in which some warp comes to another value of its outermost loop. */
  tiles(): readonly number[] {
    const found: number[] = [];
    const { warps, warp_fields, texts } = this.film;
    const state = new Int32Array(this.width);
    const at_ = warp_fields.indexOf("at");
    const tile = (i: number) =>
      /^tile\d* \d+/.exec(texts[state[i * warp_fields.length + at_] ?? 0] ?? "")?.[0] ?? "";
    const last = warps.map(() => "");
    this.film.frames.forEach((frame, at) => {
      apply(state, frame);
      const i = frame[1] ?? 0;
      const now = tile(i);
      if (now && now !== last[i]) found.push(at);
      if (now) last[i] = now;
    });
    return found;
  }
}

function apply(state: Int32Array, frame: readonly number[]): void {
  for (let i = 2; i + 1 < frame.length; i += 2) state[frame[i]!] = frame[i + 1]!;
}
