// What keys do, and what is said of them.

import { frame, help, playing, seek, seekChange, seekTile, tab, tabs, theme, type Tab } from "./state";
import { zoomBy } from "./time";

interface Key {
  readonly keys: readonly string[];
  readonly shown: string;
  readonly does: string;
  /** Where it does so; everywhere if left out. */
  readonly on?: Tab;
  readonly run: (key: string) => void;
}

/** Those that this page has; a tab's number is its place. */
export const keysOf = (shown: readonly Tab[]): readonly Key[] => [
  {
    keys: shown.map((_, i) => String(i + 1)),
    shown: `1 to ${shown.length}`,
    does: shown.join(", "),
    run: (key) => (tab.value = shown[Number(key) - 1]!),
  },
  { keys: ["t"], shown: "t", does: "light or dark", run: () => (theme.value = theme.value === "dark" ? "light" : "dark") },
  { keys: ["?"], shown: "?", does: "these keys", run: () => (help.value = !help.value) },
  { keys: ["Escape"], shown: "Esc", does: "close them", run: () => (help.value = false) },
  { keys: ["n"], shown: "n", does: "the next pass that changed something", on: "Passes", run: () => seekChange(1) },
  { keys: ["p"], shown: "p", does: "the one before", on: "Passes", run: () => seekChange(-1) },
  { keys: [" "], shown: "space", does: "play or stop", on: "Machine", run: () => (playing.value = !playing.value) },
  { keys: ["ArrowRight"], shown: "→", does: "a step on", on: "Machine", run: () => seek(frame.value + 1) },
  { keys: ["ArrowLeft"], shown: "←", does: "a step back", on: "Machine", run: () => seek(frame.value - 1) },
  { keys: ["."], shown: ".", does: "a tile on", on: "Machine", run: () => seekTile(1) },
  { keys: [","], shown: ",", does: "a tile back", on: "Machine", run: () => seekTile(-1) },
  { keys: ["Home"], shown: "Home", does: "the beginning", on: "Machine", run: () => seek(0) },
  { keys: ["End"], shown: "End", does: "the end", on: "Machine", run: () => seek(Infinity) },
  { keys: ["+", "="], shown: "+", does: "more", on: "Time", run: () => zoomBy(2) },
  { keys: ["-"], shown: "-", does: "less", on: "Time", run: () => zoomBy(0.5) },
];

/** Keys that an element of the page has a meaning of its own for. */
function taken(target: EventTarget | null, key: string): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.closest(".cm-editor, select, input[type=search]")) return key !== "Escape";
  if (target.closest("input[type=range]")) return key.startsWith("Arrow") || key === "Home" || key === "End";
  return key === " " && target.closest("button, summary, [role=button]") !== null;
}

export function onKey(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || taken(event.target, event.key)) return;
  const found = keysOf(tabs.value).find(({ keys, on }) => keys.includes(event.key) && (on === undefined || on === tab.value));
  if (found === undefined) return;
  event.preventDefault();
  found.run(event.key);
}
