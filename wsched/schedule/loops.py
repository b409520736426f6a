"""The loop nests of both sub-DAGs as text: ``dump("loops")``."""

from __future__ import annotations

from wsched.fusion import Fusion, IterDomain, IterType, ParallelType, TensorView, loop_text
from wsched.schedule.circular_buffer import serial_left_of_slice
from wsched.schedule.graph import TransformGraph
from wsched.schedule.subdags import subdags

__all__ = ["loops_text"]

_BOX = (ParallelType.Bulk, ParallelType.Mma)


def loops_text(fusion: Fusion) -> str:
    """Both nests, one line a loop, one line an expression with the box or fragment that it moves.

    Loops that tensors share (inlining; the stage loop of all loads) are printed once.
    """
    parts, graph = subdags(fusion), TransformGraph(fusion)
    lines: list[str] = []
    for title, names in (("load", parts.load), ("compute", parts.compute)):
        lines.append(f"{title} sub-DAG")
        order = [e.output for e in fusion.exprs if e.output in names]
        scheduled = [fusion.tensor(n) for n in order if fusion.tensor(n).transforms]
        lines += _nest(fusion, graph, scheduled)
    return "\n".join(lines) + "\n"


def _nest(fusion: Fusion, graph: TransformGraph, tensors: list[TensorView]) -> list[str]:
    lines: list[str] = []
    previous: TensorView | None = None
    for t in tensors:
        loops = [d for d in t.loop if d.parallel not in _BOX]
        shared = 0 if previous is None else _shared(graph, previous, t)
        for depth, d in enumerate(loops[shared:], shared):
            lines.append("  " * (depth + 1) + loop_text(d, _note(t, d)))
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
