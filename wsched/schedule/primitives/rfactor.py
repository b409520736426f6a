"""The primitive ``rfactor``."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from wsched.fusion import (
    CastOp,
    DataType,
    Fusion,
    IterDomain,
    IterType,
    LoadStoreOp,
    LoadStoreOpType,
    MemoryType,
    MmaOp,
    PrimitiveCall,
    ReductionOp,
    Split,
    TensorView,
    Transform,
    roots,
)
from wsched.schedule.primitives.checks import Reasons, axis_reasons, find, refuse

__all__ = ["check_rfactor", "rfactor"]


def rfactor(fusion: Fusion, tv: str, axis: int | Sequence[int]) -> Fusion:
    """Sum or reduce over some loops only: what the other loops of the reduction count, each its own
    result.

    Args:
        fusion: the fusion.
        tv: name of the tensor, a reduction or an mma, or a copy in registers of the parts of a
            reduction.
        axis: position of the loop that is still reduced over, or of several, of those that the
            dimension was split into; nvFuser's ``rFactor`` is called with the same ones.

    Legal if the tensor is a reduction, or sums in fp32, in registers, and is copied to results, or
    cast to them, and read by nothing else, if its reduced dimension is split and nothing is merged
    yet, and if the copies have no loops of their own yet. The results become the partial ones, in
    fp32; reducing them is left to what runs behind the kernel. nvFuser's ``rFactor`` leaves it to
    the rest of its fusion.

    before: ``T7[ rMo, rMi, N ] = reduction(T6, op = sum)``, ``T5[ N ] = Set(T7)``
    after ``rfactor(fusion, "T7", 1)``: ``T7[ Mo, rMi, N ]``, ``T5[ Mo, N ] = Set(T7)``

    What is reduced over several dimensions has all of the others as parts. A copy of these is
    reduced further, over a loop of one of them.

    before: ``T7[ M, No, rNi ] = reduction(T6, op = sum)``, ``T8[ Mo, Mi, No ] = Set(T7)``
    after ``rfactor(fusion, "T8", 1)``: ``T8[ Mo, rMi, No ] = reduction(T7, op = sum)``

    Both say what elements are ``rounded`` to, since each may have results, and neither rounds.

    Of an mma the casts of results wait for what sums the parts.

    before: ``T4[ rpart, M, N, rk, rKi ] = mma(T2, T3)``, ``T5[ M, N ] = cast(T4)``
    after ``rfactor(fusion, "T4", (3, 4))``: ``T4[ part, M, N, rk, rKi ]``,
    ``T5[ part, M, N ] = Set(T4)``

    Raises:
        ScheduleError: rule ``rfactor``, with every reason: it is no such tensor, or is made in
            parts already; a loop is none of those that are reduced over, or all of these are;
            loops are merged; sums are not of fp32; somebody else reads it, or a copy has loops of
            its own.
    """
    call = PrimitiveCall("rfactor", (tv, axis))
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    t = find(fusion, tv, call)
    fusion, t = _further(fusion, t, axes)
    refuse("rfactor", call, check_rfactor(fusion, t, *axes), t)
    return _rfactor(fusion, t, axes).after(call)


def check_rfactor(fusion: Fusion, t: TensorView, *axes: int) -> Reasons:
    """All reasons why ``rfactor`` would be illegal."""
    reasons = axis_reasons(t, *axes)
    e = fusion.definition(t.name)
    if not isinstance(e, ReductionOp | MmaOp):
        return [*reasons, f"{t.name} = {e} is no reduction"]
    if t.root:
        return [*reasons, f"{t.name} is made in parts already"]
    if not axes:
        reasons.append("no loop is given that is reduced over still")
    if not reasons:
        others = (t.loop[a].label for a in axes if t.loop[a].iter_type is not IterType.Reduction)
        reasons += [f"loop {label} is not reduced over" for label in others]
    if sum(d.iter_type is IterType.Reduction for d in t.loop) <= len(set(axes)):
        reasons.append(f"{t.name} has no other loop that is reduced over: split it first")
    if not all(isinstance(s, Split) for s in t.transforms):
        reasons.append(f"loops of {t.name} are merged: its parts are no dimensions of a result")
    if isinstance(e, MmaOp) and t.dtype is not DataType.Float:
        reasons.append(f"{t.name} sums in {t.dtype}: parts are fp32")
    copies = LoadStoreOp if isinstance(e, ReductionOp) else LoadStoreOp | CastOp
    results = {b.tensor for b in fusion.outputs}
    if t.name in results:
        reasons.append(f"{t.name} is a result itself: cache it before")
    for use in fusion.uses(t.name):
        if not isinstance(use, copies) or use.output not in results:
            reasons.append(f"{use.output} = {use} reads it, and a part is not the whole")
        elif fusion.tensor(use.output).transforms:
            reasons.append(f"{use.output} has loops of its own: cut the reduction first")
    return reasons


def _further(fusion: Fusion, t: TensorView, axes: tuple[int, ...]) -> tuple[Fusion, TensorView]:
    """Of a copy of parts, the reduction over the dimensions of loops that it may as well be, as far
    as the whole is reduced over these; of any other tensor, it and its fusion.
    """
    e = fusion.definition(t.name)
    source = fusion.definition(e.input) if isinstance(e, LoadStoreOp) else None
    if not isinstance(source, ReductionOp) or axis_reasons(t, *axes):
        return fusion, t
    of = fusion.tensor(source.output)
    summed = {d.id for d in of.root if d.iter_type is IterType.Reduction}
    left = {d.id for s, d in zip(of.stored, t.logical, strict=True) if s.id in summed}
    found = {d.id for axis in axes for d in roots(t, t.loop[axis])} & left
    if t.memory is not MemoryType.Local or not found:
        return fusion, t
    for s in t.transforms:
        found |= {d.id for d in s.outputs if found & {x.id for x in s.inputs}}
    reduced = replace(
        t,
        logical=tuple(_summed(d, found) for d in t.logical),
        loop=tuple(_summed(d, found) for d in t.loop),
        transforms=tuple(
            replace(s, input=_summed(s.input, found), outer=_summed(s.outer, found),
                    inner=_summed(s.inner, found)) if isinstance(s, Split) else s
            for s in t.transforms
        ),
    )  # fmt: skip
    made = replace(source, output=t.name, input=of.name)
    exprs = tuple(made if x is e else x for x in fusion.exprs)
    return fusion.updated([reduced], exprs), reduced


def _summed(d: IterDomain, among: Container[int]) -> IterDomain:
    """A domain, as one that is reduced over if it is among these."""
    return replace(d, iter_type=IterType.Reduction) if d.id in among else d


def _rfactor(fusion: Fusion, t: TensorView, axes: tuple[int, ...]) -> Fusion:
    kept = {t.loop[axis].id for axis in axes}
    new: dict[int, IterDomain] = {
        d.id: replace(d, iter_type=IterType.Iteration, rfactor_product=True)
        for d in t.loop
        if d.iter_type is IterType.Reduction and d.id not in kept
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
    changed, exprs = [made], list(fusion.exprs)
    for e in fusion.uses(t.name):
        if isinstance(e, CastOp):
            exprs[exprs.index(e)] = LoadStoreOp(e.output, e.input, LoadStoreOpType.Set)
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
    return fusion.updated(changed, exprs)


def _with(s: Transform, new: dict[int, IterDomain]) -> Transform:
    """A split that makes these domains in place of those with their ids."""
    assert isinstance(s, Split)
    outer, inner = (new.get(d.id, d) for d in (s.outer, s.inner))
    return replace(s, outer=outer, inner=inner)
