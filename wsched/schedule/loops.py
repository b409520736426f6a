"""The loop nests of all parts as text: ``dump("loops")``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest

from lowering.ground.expr import Binary, Expr, Var
from wsched.fusion import (
    Fusion,
    IterDomain,
    IterType,
    Merge,
    ParallelType,
    Split,
    TensorView,
    loop_text,
)
from wsched.schedule.graph import TransformGraph
from wsched.schedule.parts import Part, find_parts, titles
from wsched.schedule.primitives.circular_buffer import stepping_loops
from wsched.schedule.proof.nest import BOX, Loop, Node, leaves, nest

__all__ = ["extent_lines", "loops_text", "nest_lines", "side_by_side"]


def loops_text(fusion: Fusion, graph: TransformGraph | None = None) -> str:
    """A nest for each part, one line a loop, one line an expression with the box or fragment that
    it moves.

    Loops that tensors share (inlining; those around a stage of a ring) are printed once. Extents of
    merged dimensions that no tensor loops over as a whole are given a name first. ``graph`` is the
    fusion's, if it is known.
    """
    parts, graph = find_parts(fusion), graph or TransformGraph(fusion)
    words = _words(graph)
    lines = [f"{word.name} = {extent}" for extent, word in words.items()]
    lines += _dealt(fusion, graph)
    for title, part in zip(titles(fusion, parts, who=True), parts, strict=True):
        lines.append(title)
        for depth, node in _lines(nest(fusion, graph, part.tensors)):
            t = node.tensor
            text = f"{t.head} = {fusion.definition(t.name)}{_box(t)}"
            if isinstance(node, Loop):
                d = node.domain
                short = replace(d, extent=_in_words(d.extent, words))
                text = loop_text(short, _note(t, d, ", circular buffer"))
            lines.append("  " * (depth + 1) + text)
    return "\n".join([*lines, *_assumed(fusion)]) + "\n"


def side_by_side(fusion: Fusion, width: int = 100) -> str:
    """The nests of what loads and of what computes beside each other, loops by their labels; the
    extents of all loops below.

    Nests on one side stand one below the other, and all of them where two columns would be too
    wide. A loop without a mark is serial, an expression ends with the box or fragment that it
    moves. Where loops of one label have several extents, each is given with the tensors in its
    loops.

    Args:
        fusion: any schedule.
        width: columns of a page.
    """
    parts, graph = find_parts(fusion), TransformGraph(fusion)
    sides: tuple[list[str], list[str]] = [], []
    for title, part in zip(titles(fusion, parts), parts, strict=True):
        column = sides[not part.loads]
        column += ["", title] if column else [title]
        column.append("-" * len(title))
        column += ["  " * depth + text for depth, _, text in nest_lines(fusion, graph, part)]
    return "\n".join([*_columns(*sides, width), "", "extents", *extent_lines(fusion, graph)]) + "\n"


def nest_lines(
    fusion: Fusion, graph: TransformGraph, part: Part
) -> Iterator[tuple[int, Node, str]]:
    """The loops and expressions of a part, each with its depth and what is printed of it."""
    for depth, node in _lines(nest(fusion, graph, part.tensors)):
        t = node.tensor
        if isinstance(node, Loop):
            yield depth, node, f"for {node.domain.label}{_mark(t, node.domain)}"
        else:
            yield depth, node, f"{t.name} = {fusion.definition(t.name)}  {_size(t)}".rstrip()


def extent_lines(fusion: Fusion, graph: TransformGraph) -> list[str]:
    """The extents of all loops, what is dealt out at run time, and what only the device knows."""
    words = _words(graph)
    found: _Extents = {word.name: {str(extent): {}} for extent, word in words.items()}
    for part in find_parts(fusion):
        for _, node in _lines(nest(fusion, graph, part.tensors)):
            if isinstance(node, Loop):
                d = node.domain
                inside = found.setdefault(d.label, {}).setdefault(
                    str(_in_words(d.extent, words)), {}
                )
                inside.update((x.name, None) for x in leaves(node))
    return [*_table(found), *_dealt(fusion, graph), *_assumed(fusion)]


def _columns(left: list[str], right: list[str], width: int) -> list[str]:
    """Two columns, or one where they do not fit beside each other."""
    wide = max(map(len, left), default=0)
    if not left or not right or wide + len(_GAP) + max(map(len, right)) > width:
        return [*left, *([""] if left and right else []), *right]
    rows = zip_longest(left, right, fillvalue="")
    return [f"{a:{wide}}{_GAP}{b}".rstrip() for a, b in rows]


_GAP = "   "

_Extents = dict[str, dict[str, dict[str, None]]]
"""The extents of the loops of each label, and the tensors that are computed in them."""


def _table(found: _Extents) -> list[str]:
    """A line for each label and extent; tensors are named where the label has several."""
    rows = [
        (f"{label} of {', '.join(names)}" if len(extents) > 1 and names else label, extent)
        for label, extents in found.items()
        for extent, names in extents.items()
    ]
    wide = max((len(label) for label, _ in rows), default=0)
    return [f"  {label:{wide}} = {extent}" for label, extent in rows]


def _dealt(fusion: Fusion, graph: TransformGraph) -> list[str]:
    """A line for what is dealt out at run time: the extents are those of equal shares."""
    groups, how = fusion.groups, "takes the next one"
    if groups is not None:
        how = f"has every n-th of those that groups have, whose ends are in {groups.ends}"
    return [
        f"{step.inputs[0].label} are dealt out at run time: each {step.outputs[1].label} {how}, "
        f"{step.outputs[0].label} counts its own"
        for step in graph.dealt
    ]


def _assumed(fusion: Fusion) -> list[str]:
    """A line for each value that only the device knows."""
    return [f"assumed: {u}" for u in fusion.unknowns]


def _words(graph: TransformGraph) -> dict[Expr, Var]:
    """Labels of merged groups that are split again, by their extents; no label of two of them."""
    split = {s.inputs[0] for s in graph.steps if isinstance(s.transform, Split)}
    made = [s.outputs[0] for s in graph.steps if isinstance(s.transform, Merge)]
    merged = {g.extent: g.label for g in made if g in split}
    labels = list(merged.values())
    return {e: Var(label) for e, label in merged.items() if labels.count(label) == 1}


def _in_words(e: Expr, words: Mapping[Expr, Var]) -> Expr:
    """``e`` with the extents in ``words`` replaced by their labels."""
    if e in words:
        return words[e]
    if isinstance(e, Binary):
        return Binary(e.op, _in_words(e.lhs, words), _in_words(e.rhs, words))
    return e


def _lines(nodes: tuple[Node, ...], depth: int = 0) -> Iterator[tuple[int, Node]]:
    """Each loop and leaf with its depth, as they are printed."""
    for node in nodes:
        yield depth, node
        if isinstance(node, Loop):
            yield from _lines(node.body, depth + 1)


def _boxed(t: TensorView) -> list[IterDomain]:
    """Dimensions of the box or fragment of one execution; broadcasts are none of it."""
    return [d for d in t.loop if d.parallel in BOX and d.iter_type is not IterType.Broadcast]


def _size(t: TensorView) -> str:
    """The box or fragment that one execution moves, e.g. ``128 x 64``."""
    return " x ".join(str(d.extent) for d in _boxed(t))


def _box(t: TensorView) -> str:
    """The same with who moves it."""
    kinds = " and ".join(dict.fromkeys(str(d.parallel) for d in _boxed(t)))
    return f"  {_size(t)} [{kinds}]" if kinds else ""


def _mark(t: TensorView, d: IterDomain) -> str:
    """Parallel type of a loop if it is not serial, and the stages of a circular buffer."""
    word = "" if d.parallel is ParallelType.Serial else f" [{d.parallel}]"
    stages = _note(t, d, "")
    return f"{word} [{stages.lstrip()}]" if stages else word


def _note(t: TensorView, d: IterDomain, what: str) -> str:
    """``what`` and the number of stages, at the loop that steps through them."""
    if t.circular_buffer is None or d not in stepping_loops(t)[-1:]:
        return ""
    return f"{what} {t.circular_buffer.stages} stages"
