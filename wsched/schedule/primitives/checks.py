"""What every primitive shares: finding its tensor, and saying no."""

from __future__ import annotations

from lowering.ground.errors import ScheduleError
from wsched.fusion import Fusion, ParallelType, PrimitiveCall, TensorView, nest_text

__all__ = ["Reasons", "axis_reasons", "find", "refuse", "rewrite_reasons"]

Reasons = list[str]


def find(fusion: Fusion, tv: str, call: PrimitiveCall) -> TensorView:
    """The tensor ``tv``; ScheduleError naming those that exist."""
    found = fusion.find(tv)
    if found is None:
        raise ScheduleError("tensor", str(call), f"there is no tensor {tv}", fusion.names)
    return found


def refuse(
    rule: str, call: PrimitiveCall, reasons: Reasons, t: TensorView, legal: tuple[str, ...] = ()
) -> None:
    """Raise ScheduleError with all reasons and the loop nest of ``t``; do nothing without any."""
    if reasons:
        raise ScheduleError(rule, str(call), "; ".join(reasons), legal, nest_text(t))


def axis_reasons(t: TensorView, *axes: int) -> Reasons:
    """Axes that are not axes of the loop nest; negative ones are not accepted."""
    last = len(t.loop) - 1
    return [f"{t.name} has axes 0 to {last}, not {a}" for a in axes if not 0 <= a <= last]


def rewrite_reasons(t: TensorView, *axes: int) -> Reasons:
    """Why the loops at ``axes`` may not be replaced: parallel, shared or circular-buffered."""
    reasons = [
        f"loop {t.loop[a].label} is parallelized on {t.loop[a].parallel}"
        for a in axes
        if t.loop[a].parallel is not ParallelType.Serial
    ]
    if axes and min(axes) < t.compute_at:
        reasons.append(f"{t.name} is inlined at {t.compute_at}: its outer loops are shared")
    if t.circular_buffer is not None:
        reasons.append(f"{t.name} is circular-buffered: its loops are settled")
    return reasons
