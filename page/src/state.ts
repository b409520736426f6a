// What the reader has chosen to look at.

import { batch, computed, signal } from "@preact/signals";
import { Links, NOTHING, type Selection } from "./links";
import type { Book, Page } from "./model";
import { Player } from "./player";

const TABS = ["Overview", "Code", "Passes", "Machine", "Time", "Parameters"] as const;
export type Tab = "Program" | (typeof TABS)[number];

export const book = signal<Book | null>(null);
export const kernel = signal(0); // which of the book's
export const page = computed<Page | null>(() => book.value?.kernels[kernel.value] ?? null);
export const tabs = computed<readonly Tab[]>(() => (book.value?.program ? ["Program", ...TABS] : TABS));

export const tab = signal<Tab>("Overview");
export const selection = signal<Selection>(NOTHING);
export const stage = signal(0);
export const film = signal(0);
export const frame = signal(0);
export const warp = signal(0);
export const playing = signal(false);
export const speed = signal(20); // frames a second
export const help = signal(false);
export const theme = signal<"light" | "dark">(
  matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light",
);

export const links = computed(() => (page.value === null ? null : new Links(page.value)));
export const player = computed(() => {
  const shown = page.value?.films[film.value];
  return shown === undefined ? null : new Player(shown);
});

/** Opens a book at its first tab. */
export function open(made: Book): void {
  book.value = made;
  tab.value = tabs.value[0]!;
}

/** Turns to a kernel, from its beginning. */
export function turnTo(at: number): void {
  batch(() => {
    kernel.value = at;
    selection.value = NOTHING;
    stage.value = film.value = frame.value = warp.value = 0;
    playing.value = false;
  });
}

/** The lines of a text of the kernel. */
export function kernelText(shown: Page, text: number): readonly string[] {
  return (shown.texts[text] ?? []).map((line) => shown.table[line] ?? "");
}

/** Goes to a frame of the film, if it has one. */
export function seek(to: number): void {
  const last = (player.value?.length ?? 1) - 1;
  frame.value = Math.max(0, Math.min(last, to));
}

/** Goes to the pass in front (-1) or behind (1) that changed something. */
export function seekChange(by: -1 | 1): void {
  const stages = page.value?.stages ?? [];
  for (let i = stage.value + by; i >= 0 && i < stages.length; i += by) {
    if (i === 0 || stages[i]!.text !== stages[i - 1]!.text) {
      stage.value = i;
      return;
    }
  }
}

/** Goes to the next (1) or last (-1) frame in which a warp begins a tile. */
export function seekTile(by: -1 | 1): void {
  const tiles = player.value?.tiles() ?? [];
  const to = by > 0 ? tiles.find((at) => at > frame.value) : tiles.findLast((at) => at < frame.value);
  if (to !== undefined) frame.value = to;
}
