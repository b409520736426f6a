"""The loop nests of both sub-DAGs as text: ``dump("loops")``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lowering.ir.expr import Binary, Expr, Var
from wsched.fusion import (
    Fusion,
    IterDomain,
    IterType,
    Merge,
    ParallelType,
    Split,
    TensorView,
    loop_text,
    type_text,
)
from wsched.schedule.circular_buffer import serial_left_of_slice
from wsched.schedule.graph import TransformGraph
from wsched.schedule.subdags import subdags

__all__ = ["loops_text"]

_BOX = (ParallelType.Bulk, ParallelType.Mma)


def loops_text(fusion: Fusion) -> str:
    """Both nests, one line a loop, one line an expression with the box or fragment that it moves.

    Loops that tensors share (inlining; the stage loop of all loads) are printed once. Extents of
    merged dimensions that no tensor loops over as a whole are given a name first.
    """
    parts, graph = subdags(fusion), TransformGraph(fusion)
    words = _words(graph)
    lines = [f"{word.name} = {extent}" for extent, word in words.items()]
    how = next((t.circular_buffer for t in fusion.loads if t.circular_buffer is not None), None)
    loaded = "load sub-DAG" if how is None else f"load sub-DAG, {type_text(how.type)}"
    for title, names in ((loaded, parts.load), ("compute sub-DAG", parts.compute)):
        lines.append(title)
        order = [e.output for e in fusion.exprs if e.output in names]
        scheduled = [fusion.tensor(n) for n in order if fusion.tensor(n).transforms]
        lines += _nest(fusion, graph, scheduled, words)
    return "\n".join(lines) + "\n"


def _words(graph: TransformGraph) -> dict[Expr, Var]:
    """Labels of merged groups that are split again, by their extents."""
    split = {s.inputs[0] for s in graph.steps if isinstance(s.transform, Split)}
    merged = [s.outputs[0] for s in graph.steps if isinstance(s.transform, Merge)]
    return {g.extent: Var(g.label) for g in merged if g in split}


def _in_words(e: Expr, words: Mapping[Expr, Var]) -> Expr:
    """``e`` with the extents in ``words`` replaced by their labels."""
    if e in words:
        return words[e]
    if isinstance(e, Binary):
        return Binary(e.op, _in_words(e.lhs, words), _in_words(e.rhs, words))
    return e


def _nest(
    fusion: Fusion,
    graph: TransformGraph,
    tensors: list[TensorView],
    words: Mapping[Expr, Var],
) -> list[str]:
    lines: list[str] = []
    previous: TensorView | None = None
    for t in tensors:
        loops = [d for d in t.loop if d.parallel not in _BOX]
        shared = 0 if previous is None else _shared(graph, previous, t)
        for depth, d in enumerate(loops[shared:], shared):
            short = replace(d, extent=_in_words(d.extent, words))
            lines.append("  " * (depth + 1) + loop_text(short, _note(t, d)))
        lines.append("  " * (len(loops) + 1) + f"{t.head} = {fusion.definition(t.name)}{_box(t)}")
        previous = t
    return lines


def _shared(graph: TransformGraph, a: TensorView, b: TensorView) -> int:
    """Number of outer loops of ``b`` that are open already, after ``a``."""
    together = a.circular_buffer is not None and b.circular_buffer is not None
    limit = a.slice_position if together else a.compute_at
    same = 0
    for x, y in list(zip(a.loop, b.loop, strict=False))[:limit]:
        if graph.group(x) != graph.group(y) or x.parallel is not y.parallel:
            break
        same += 1
    return same


def _box(t: TensorView) -> str:
    """The box or fragment that one execution moves; broadcast dimensions are none of it."""
    dims = [d for d in t.loop if d.parallel in _BOX and d.iter_type is not IterType.Broadcast]
    kinds = " and ".join(dict.fromkeys(str(d.parallel) for d in dims))
    return f"  {' x '.join(str(d.extent) for d in dims)} [{kinds}]" if dims else ""


def _note(t: TensorView, d: IterDomain) -> str:
    """Mark of the loop that steps through stages."""
    if t.circular_buffer is None or d not in [t.loop[p] for p in serial_left_of_slice(t)]:
        return ""
    return f", circular buffer {t.circular_buffer.stages} stages"
