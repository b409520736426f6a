"""The primitive ``merge``."""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.frozen import replaced
from wsched.fusion import Fusion, IterDomain, IterType, Merge, MmaOp, PrimitiveCall, TensorView
from wsched.schedule.primitives.checks import Reasons, axis_reasons, find, refuse, rewrite_reasons
from wsched.schedule.primitives.factor import check_traversal

__all__ = ["check_merge", "merge"]


def merge(
    fusion: Fusion,
    tv: str,
    axis_o: int,
    axis_i: int | None = None,
    *,
    traversal: int = 0,
    label: str | None = None,
) -> Fusion:
    """Replace two loops by one over all pairs, at the place of the outer one.

    Args:
        fusion: the fusion.
        tv: name of the tensor.
        axis_o: position of the outer loop.
        axis_i: position of the inner loop; by default the one after ``axis_o``.
        traversal: nvFuser's grid traversal factor: 0 is row-major, G walks groups of G outer
            indices, the outer index fastest (see :class:`~wsched.fusion.domain.Merge`); rule
            ``factor`` refuses what is no number of 31 bits.
        label: a word for the new loop; by default ``outer·inner``.

    Legal if both loops are serial and not shared with a consumer, the tensor is not
    circular-buffered, and both or neither are reductions: a result has no loop to be stored in
    that mixes its own dimensions with those summed over.

    before: ``for tile``, ``for k``
    after ``merge(fusion, "T5", 0)``: ``for tile·k``
    """
    inner = axis_o + 1 if axis_i is None else axis_i
    options: tuple[tuple[str, object], ...] = ()
    options += () if not traversal else (("traversal", traversal),)
    options += () if label is None else (("label", label),)
    call = PrimitiveCall("merge", (tv, axis_o, inner), options)
    t = find(fusion, tv, call)
    refuse("merge", call, check_merge(t, axis_o, inner), t, _legal(fusion, t, call))
    check_traversal(call, t, traversal)
    new = _merge(t, axis_o, inner, fusion.next_id, traversal, label)
    return fusion.updated((new,), next_id=fusion.next_id + 1, call=call)


def check_merge(t: TensorView, axis_o: int, axis_i: int) -> Reasons:
    """All reasons why ``merge`` would be illegal."""
    reasons = axis_reasons(t, axis_o, axis_i)
    if axis_o == axis_i:
        reasons.append("a loop cannot be merged with itself")
    if reasons:
        return reasons
    outer, inner = t.loop[axis_o], t.loop[axis_i]
    reasons = rewrite_reasons(t, axis_o, axis_i)
    if (outer.iter_type is IterType.Reduction) is not (inner.iter_type is IterType.Reduction):
        kept, summed = sorted((outer, inner), key=lambda d: d.iter_type is IterType.Reduction)
        reasons.append(
            f"{kept.label} is a dimension of {t.name} and {summed.label} is summed over: "
            f"the result has no {summed.label} to be stored by"
        )
    return reasons


def _legal(fusion: Fusion, t: TensorView, call: PrimitiveCall) -> tuple[str, ...]:
    """The same call on the TMA cacheAfter tensors, whose loops have no reduction."""
    if t.circular_buffer is not None or not isinstance(fusion.definition(t.name), MmaOp):
        return ()
    return tuple(
        str(replace(call, args=(x.name, *call.args[1:])))
        for x in fusion.loads
        if not check_merge(x, call.args[1], call.args[2])
    )


def _merge(
    t: TensorView, axis_o: int, axis_i: int, n: int, traversal: int, label: str | None
) -> TensorView:
    """The tensor with a new loop, of id ``n``."""
    outer, inner = t.loop[axis_o], t.loop[axis_i]
    kind = outer.iter_type if outer.iter_type is inner.iter_type else IterType.Iteration
    word = label or f"{outer.label}·{inner.label}"
    merged = IterDomain(n, outer.extent * inner.extent, word, kind)
    loop = tuple(merged if d is outer else d for d in t.loop if d is not inner)
    step = Merge(outer, inner, merged, traversal)
    return replaced(t, loop=loop, transforms=(*t.transforms, step))
