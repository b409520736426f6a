// A text with line numbers, search and lines that are marked.

import { defaultHighlightStyle, HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { unifiedMergeView } from "@codemirror/merge";
import { search, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension, RangeSetBuilder, StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";

const KEYWORDS = new Set(
  ("kernel param tensormap shared mbarrier named_barrier ring global trace counter workspace let for in if else " +
    "role roles section warps groups on elect yield carry unroll once as step tile stages at id box swizzle " +
    "const int unsigned float bool void return asm volatile __global__ __launch_bounds__").split(" "),
);

/** Words, numbers and comments: enough for kernels, CUDA, PTX and SASS alike. */
const language = StreamLanguage.define<null>({
  startState: () => null,
  token(stream) {
    if (stream.match(/\/\/.*|^\s*#.*|\/\*.*?\*\//)) return "comment";
    if (stream.match(/0x[0-9a-fA-F]+|\d+(\.\d+)?f?\b/)) return "number";
    if (stream.match(/"[^"]*"?/)) return "string";
    const word = stream.match(/[A-Za-z_][\w.]*/);
    if (word && typeof word !== "boolean") {
      if (KEYWORDS.has(word[0])) return "keyword";
      return word[0].includes(".") || /^[A-Z]{3,}/.test(word[0]) ? "typeName" : null;
    }
    stream.next();
    return null;
  },
});

const colours = HighlightStyle.define([
  { tag: tags.comment, color: "var(--faint)" },
  { tag: tags.number, color: "var(--number)" },
  { tag: tags.string, color: "var(--number)" },
  { tag: tags.keyword, color: "var(--keyword)" },
  { tag: tags.typeName, color: "var(--operation)" },
]);

const mark = StateEffect.define<ReadonlySet<number>>();
const marked = Decoration.line({ class: "marked" });

const marks = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(value, transaction) {
    for (const effect of transaction.effects) {
      if (effect.is(mark)) value = decorations(transaction.state, effect.value);
    }
    return value;
  },
  provide: (field) => EditorView.decorations.from(field),
});

function decorations(state: EditorState, lines: ReadonlySet<number>): DecorationSet {
  const builder = new RangeSetBuilder<Decoration>();
  for (const line of [...lines].sort((a, b) => a - b)) {
    if (line < state.doc.lines) {
      const { from } = state.doc.line(line + 1);
      builder.add(from, from, marked);
    }
  }
  return builder.finish();
}

interface Props {
  readonly label: string;
  readonly lines: readonly string[];
  readonly marked?: ReadonlySet<number>;
  /** Where to scroll at first. */
  readonly first?: number;
  /** The text to show the difference to; null to show none. */
  readonly before?: readonly string[] | null;
  readonly onLine?: (line: number) => void;
}

const EMPTY: ReadonlySet<number> = new Set();

export function Pane({ label, lines, marked: shown = EMPTY, first = 0, before = null, onLine }: Props) {
  const parent = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const pick = useRef(onLine);
  pick.current = onLine;

  useEffect(() => {
    const made = new EditorView({ parent: parent.current!, state: stateOf(label, lines, before, pick) });
    view.current = made;
    if (first > 0) scrollTo(made, first, "start");
    return () => made.destroy();
  }, [lines, before]);

  useEffect(() => {
    const made = view.current!;
    made.dispatch({ effects: mark.of(shown) });
    const lowest = Math.min(...shown);
    if (Number.isFinite(lowest) && !visible(made, shown)) scrollTo(made, lowest, "center");
  }, [shown, lines, before]);

  return <div class="pane" ref={parent} />;
}

function stateOf(
  label: string,
  lines: readonly string[],
  before: readonly string[] | null,
  pick: { readonly current: ((line: number) => void) | undefined },
): EditorState {
  const extensions: Extension[] = [
    EditorState.readOnly.of(true),
    EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
    lineNumbers(),
    language,
    syntaxHighlighting(colours),
    syntaxHighlighting(defaultHighlightStyle, { fallback: true }),
    search({ top: true }),
    keymap.of([
      { key: "Enter", run: (v) => (pick.current?.(v.state.doc.lineAt(v.state.selection.main.head).number - 1), true) },
      ...searchKeymap,
    ]),
    marks,
    EditorView.domEventHandlers({
      click(event, v) {
        const at = v.posAtCoords({ x: event.clientX, y: event.clientY });
        if (at !== null) pick.current?.(v.state.doc.lineAt(at).number - 1);
      },
    }),
  ];
  if (before !== null) {
    extensions.push(
      unifiedMergeView({ original: before.join("\n"), mergeControls: false, gutter: true, highlightChanges: true }),
    );
  }
  return EditorState.create({ doc: lines.join("\n"), extensions });
}

function scrollTo(view: EditorView, line: number, y: "start" | "center"): void {
  const { from } = view.state.doc.line(Math.min(line + 1, view.state.doc.lines));
  view.dispatch({ effects: EditorView.scrollIntoView(from, { y }) });
}

/** Whether one of the lines can be seen. */
function visible(view: EditorView, lines: ReadonlySet<number>): boolean {
  const { top, bottom } = view.scrollDOM.getBoundingClientRect();
  return [...lines].some((line) => {
    if (line >= view.state.doc.lines) return false;
    const box = view.coordsAtPos(view.state.doc.line(line + 1).from);
    return box !== null && box.top >= top && box.bottom <= bottom;
  });
}
