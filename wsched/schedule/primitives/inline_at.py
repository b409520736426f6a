"""The primitive ``inline_at``."""

from __future__ import annotations

from lowering.ground.frozen import replaced
from wsched.fusion import Fusion, IterType, PrimitiveCall, TensorView, WarpSpecialized
from wsched.schedule.graph import TransformGraph
from wsched.schedule.primitives.checks import Reasons, find, refuse
from wsched.schedule.words import labels, words

__all__ = ["check_inline_at", "deepest_inlining", "inline_at"]


def inline_at(
    fusion: Fusion, tv: str, position: int, graph: TransformGraph | None = None
) -> Fusion:
    """Compute a tensor inside the outer loops of what reads it.

    Args:
        fusion: the fusion.
        tv: name of the tensor.
        position: number of outer loops that it shares with its consumers; 0 shares none.
        graph: the fusion's, if it is known.

    Legal if these loops stand for the same loops as the consumers' (mapped in the transform graph,
    run by the same thing), none of them is summed over by the tensor, and the tensor is not loaded
    by a load warpgroup of its own.

    before: ``for tile: T4 = mma(...)``, ``for tile: T5 = cast(T4)``
    after ``inline_at(fusion, "T4", 1)``: ``for tile: T4 = mma(...); T5 = cast(T4)``
    """
    call = PrimitiveCall("inline_at", (tv, position))
    t = find(fusion, tv, call)
    graph = graph or TransformGraph(fusion)
    reasons = check_inline_at(fusion, t, position, graph)
    deepest = deepest_inlining(fusion, t, graph) if reasons else None
    legal = () if deepest is None else (str(PrimitiveCall("inline_at", (tv, deepest))),)
    refuse("inline", call, reasons, t, legal)
    return fusion.updated((replaced(t, compute_at=position),), call=call)


def check_inline_at(fusion: Fusion, t: TensorView, position: int, graph: TransformGraph) -> Reasons:
    """All reasons why ``inline_at`` would be illegal; ``graph`` is the fusion's."""
    if not 0 <= position <= len(t.loop):
        return [f"{t.name} has positions 0 to {len(t.loop)}, not {position}"]
    reasons: Reasons = []
    readers = ", ".join(c.name for c in fusion.consumers(t.name))
    if not readers:
        return [f"nothing reads {t.name}"]
    buffered = t.circular_buffer
    if buffered is not None and isinstance(buffered.type, WarpSpecialized) and position:
        loaded = t.name in [x.name for x in fusion.loads]
        reasons.append(
            f"{t.name} is loaded by the load warpgroup and {readers} runs in the compute "
            "warpgroups: the two share no loop, the load index ties them"
            if loaded
            else f"{t.name} is computed by warps of its own, {readers} runs in others: the two "
            "share no loop, the ring ties them"
        )
    reasons += [
        f"{t.name} sums over loop {d.label}: {readers} needs the whole sum"
        for d in t.loop[:position]
        if d.iter_type is IterType.Reduction
    ]
    for c in fusion.consumers(t.name):
        reasons += _differences(graph, t, c, position)
    return reasons


def _differences(graph: TransformGraph, t: TensorView, c: TensorView, position: int) -> Reasons:
    """The first loop left of ``position`` that ``c`` does not share."""
    for p, d in enumerate(t.loop[:position]):
        if p >= len(c.loop):
            return [f"{c.name} has only {len(c.loop)} loops"]
        other = c.loop[p]
        if graph.group(d) != graph.group(other):
            (mine,), (theirs,) = words(graph, labels(graph, [d]), labels(graph, [other]))
            return [f"loop {p} of {t.name} is {mine}, that of {c.name} is {theirs}"]
        if d.parallel is not other.parallel:
            return [f"loop {d.label} is {d.parallel} on {t.name} and {other.parallel} on {c.name}"]
    return []


def deepest_inlining(fusion: Fusion, t: TensorView, graph: TransformGraph) -> int | None:
    """The largest legal position, if there is one."""
    positions = range(len(t.loop), -1, -1)
    return next((p for p in positions if not check_inline_at(fusion, t, p, graph)), None)
