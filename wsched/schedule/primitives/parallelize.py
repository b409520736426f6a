"""The primitive ``parallelize``."""

from __future__ import annotations

from lowering.ground.frozen import replaced
from wsched.fusion import (
    Fusion,
    IterType,
    ParallelType,
    PrimitiveCall,
    ReductionOp,
    TensorView,
)
from wsched.schedule.primitives.checks import Reasons, axis_reasons, find, refuse

__all__ = ["check_parallelize", "parallelize"]

_ONCE = frozenset(
    {
        ParallelType.BIDx,
        ParallelType.BIDy,
        ParallelType.BIDz,
        ParallelType.TIDx,
        ParallelType.TIDy,
        ParallelType.TIDz,
    }
)

_COMBINED = ParallelType.BIDz
"""Whose partial sums are combined."""


def parallelize(fusion: Fusion, tv: str, axis: int, parallel: ParallelType) -> Fusion:
    """Have the iterations of a loop run by CTAs, threads, one TMA or one wgmma.

    Args:
        fusion: the fusion.
        tv: name of the tensor.
        axis: position of the loop.
        parallel: what runs it.

    Legal if a CTA or thread dimension is used once in a tensor, and the tensor is not
    circular-buffered. Of a domain that is summed over only BIDz can run the iterations: the CTAs
    then combine their partial sums through global memory (split-K). Of a reduction nobody combines
    parts: :mod:`~wsched.schedule.primitives.rfactor` makes them results.

    before: ``for cta [Serial]``
    after ``parallelize(fusion, "T3", 0, ParallelType.BIDx)``: ``for cta [BIDx]``
    """
    call = PrimitiveCall("parallelize", (tv, axis, parallel))
    t = find(fusion, tv, call)
    if isinstance(fusion.definition(tv), ReductionOp):
        reasons, legal = _check_reduction(t, axis, parallel)
    else:
        reasons, legal = check_parallelize(t, axis, parallel), _combined(t, axis, parallel)
    refuse("parallelize", call, reasons, t, legal)
    loop = (*t.loop[:axis], t.loop[axis].on(parallel), *t.loop[axis + 1 :])
    return fusion.updated((replaced(t, loop=loop),), call=call)


def _combined(t: TensorView, axis: int, parallel: ParallelType) -> tuple[str, ...]:
    """The same on the CTAs whose sums are combined, where these can run it and the others not."""
    if not _reduced(t, axis) or parallel not in _ONCE or check_parallelize(t, axis, _COMBINED):
        return ()
    return (str(PrimitiveCall("parallelize", (t.name, axis, _COMBINED))),)


def _check_reduction(
    t: TensorView, axis: int, parallel: ParallelType
) -> tuple[Reasons, tuple[str, ...]]:
    """Why it would be illegal of a reduction, and what is legal."""
    if not _reduced(t, axis) or parallel not in _ONCE:
        return check_parallelize(t, axis, parallel), ()
    label = t.loop[axis].label
    why = f"{label} is reduced over: each of {parallel} would be left with a part of the result"
    return [why], (f"rfactor of {t.name}: the parts are results, one for each of {label}",)


def _reduced(t: TensorView, axis: int) -> bool:
    return 0 <= axis < len(t.loop) and t.loop[axis].iter_type is IterType.Reduction


def check_parallelize(t: TensorView, axis: int, parallel: ParallelType) -> Reasons:
    """All reasons why ``parallelize`` would be illegal."""
    reasons = axis_reasons(t, axis)
    if reasons:
        return reasons
    d, other = t.loop[axis], t.axis_on(parallel)
    if parallel in _ONCE and other is not None and other is not d:
        reasons.append(f"{parallel} already runs loop {other.label}")
    if parallel in _ONCE and parallel is not _COMBINED and d.iter_type is IterType.Reduction:
        reasons.append(
            f"{d.label} is summed over: each of {parallel} would be left with a partial sum, which "
            f"only {_COMBINED} combines"
        )
    if t.circular_buffer is not None:
        reasons.append(f"{t.name} is circular-buffered: its loops are settled")
    return reasons
