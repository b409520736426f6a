"""The primitive ``rfactor``."""

from __future__ import annotations

from dataclasses import replace

from wsched.fusion import (
    DataType,
    Fusion,
    IterDomain,
    IterType,
    LoadStoreOp,
    PrimitiveCall,
    ReductionOp,
    Split,
    TensorView,
    Transform,
)
from wsched.schedule.primitives.checks import Reasons, axis_reasons, find, refuse

__all__ = ["check_rfactor", "rfactor"]


def rfactor(fusion: Fusion, tv: str, axis: int) -> Fusion:
    """Reduce over one loop only: what the other loops of the reduction count, each its own result.

    Args:
        fusion: the fusion.
        tv: name of the tensor, a reduction.
        axis: position of the loop that is still reduced over, one of those that the dimension was
            split into.

    Legal if the tensor is a reduction in registers that is copied to results and read by nothing
    else, if its reduced dimension is split and nothing is merged yet, and if the copies have no
    loops of their own yet. The results become the partial ones, in fp32; reducing them is left to
    what runs behind the kernel. nvFuser's ``rFactor`` leaves it to the rest of its fusion.

    before: ``T7[ rMo, rMi, N ] = reduction(T6, op = sum)``, ``T5[ N ] = Set(T7)``
    after ``rfactor(fusion, "T7", 1)``: ``T7[ Mo, rMi, N ]``, ``T5[ Mo, N ] = Set(T7)``
    """
    call = PrimitiveCall("rfactor", (tv, axis))
    t = find(fusion, tv, call)
    refuse("rfactor", call, check_rfactor(fusion, t, axis), t)
    return _rfactor(fusion, t, axis).after(call)


def check_rfactor(fusion: Fusion, t: TensorView, axis: int) -> Reasons:
    """All reasons why ``rfactor`` would be illegal."""
    reasons = axis_reasons(t, axis)
    if not isinstance(fusion.definition(t.name), ReductionOp):
        return [*reasons, f"{t.name} = {fusion.definition(t.name)} is no reduction"]
    if t.root:
        return [*reasons, f"{t.name} is made in parts already"]
    if not reasons and t.loop[axis].iter_type is not IterType.Reduction:
        reasons.append(f"loop {t.loop[axis].label} is not reduced over")
    if sum(d.iter_type is IterType.Reduction for d in t.loop) < 2:
        reasons.append(f"{t.name} has no other loop that is reduced over: split it first")
    if not all(isinstance(s, Split) for s in t.transforms):
        reasons.append(f"loops of {t.name} are merged: its parts are no dimensions of a result")
    results = {b.tensor for b in fusion.outputs}
    for e in fusion.uses(t.name):
        if not isinstance(e, LoadStoreOp) or e.output not in results:
            reasons.append(f"{e.output} = {e} reads it, and a part is not the whole")
        elif fusion.tensor(e.output).transforms:
            reasons.append(f"{e.output} has loops of its own: cut the reduction first")
    return reasons


def _rfactor(fusion: Fusion, t: TensorView, axis: int) -> Fusion:
    kept = t.loop[axis]
    new: dict[int, IterDomain] = {
        d.id: replace(d, iter_type=IterType.Iteration)
        for d in t.loop
        if d.iter_type is IterType.Reduction and d is not kept
    }
    loop = tuple(new.get(d.id, d) for d in t.loop)
    parts = new.keys() - {d.id for d in t.logical}
    made = replace(
        t,
        dtype=DataType.Float,
        root=t.logical,
        logical=loop,
        loop=loop,
        transforms=tuple(_with(s, new) for s in t.transforms),
    )
    changed = [made]
    for e in fusion.uses(t.name):
        stored, next_id = fusion.fresh(made.stored)
        fusion = replace(fusion, next_id=next_id)
        copy = fusion.tensor(e.output)
        # Parts outermost: what a warpgroup stores of a result lies side by side.
        pairs = zip(made.stored, stored, strict=True)
        order = [d for _, d in sorted(pairs, key=lambda pair: pair[0].id not in parts)]
        allocation = () if order == list(stored) else tuple(order)
        changed.append(
            replace(copy, dtype=DataType.Float, logical=stored, loop=stored, allocation=allocation)
        )
    return fusion.updated(changed)


def _with(s: Transform, new: dict[int, IterDomain]) -> Transform:
    """A split that makes these domains in place of those with their ids."""
    assert isinstance(s, Split)
    outer, inner = (new.get(d.id, d) for d in (s.outer, s.inner))
    return replace(s, outer=outer, inner=inner)
