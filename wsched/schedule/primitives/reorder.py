"""The primitive ``reorder``."""

from __future__ import annotations

from collections.abc import Mapping

from lowering.ground.frozen import replaced
from wsched.fusion import Fusion, PrimitiveCall, TensorView
from wsched.schedule.primitives.checks import Reasons, axis_reasons, find, refuse

__all__ = ["check_reorder", "reorder"]


def reorder(fusion: Fusion, tv: str, old2new: Mapping[int, int]) -> Fusion:
    """Move loops to new positions; the others keep their order in the places left over.

    Args:
        fusion: the fusion.
        tv: name of the tensor.
        old2new: new position for each old position that is to move.

    Legal if positions exist, no two loops go to one place, no loop moves into or out of those
    shared with a consumer, and the tensor is not circular-buffered.

    before: ``for Mo``, ``for Mi``, ``for No``, ``for Ni``
    after ``reorder(fusion, "T3", {2: 1})``: ``for Mo``, ``for No``, ``for Mi``, ``for Ni``
    """
    call = PrimitiveCall("reorder", (tv, dict(old2new)))
    t = find(fusion, tv, call)
    refuse("reorder", call, check_reorder(t, old2new), t)
    new = replaced(t, loop=tuple(t.loop[p] for p in _order(t, old2new)))
    return fusion.updated((new,), call=call)


def check_reorder(t: TensorView, old2new: Mapping[int, int]) -> Reasons:
    """All reasons why ``reorder`` would be illegal."""
    reasons = axis_reasons(t, *old2new.keys(), *old2new.values())
    targets = list(old2new.values())
    reasons += [
        f"two loops go to position {p}" for p in sorted(set(targets)) if targets.count(p) > 1
    ]
    if reasons:
        return reasons
    if _order(t, old2new)[: t.compute_at] != tuple(range(t.compute_at)):
        reasons.append(f"{t.name} is inlined at {t.compute_at}: its outer loops are shared")
    if t.circular_buffer is not None:
        reasons.append(f"{t.name} is circular-buffered: its loops are settled")
    return reasons


def _order(t: TensorView, old2new: Mapping[int, int]) -> tuple[int, ...]:
    """Old positions in their new order."""
    new2old = {new: old for old, new in old2new.items()}
    rest = iter([p for p in range(len(t.loop)) if p not in old2new])
    return tuple(new2old[p] if p in new2old else next(rest) for p in range(len(t.loop)))
