"""The primitive ``accumulate_in``."""

from __future__ import annotations

from dataclasses import replace

from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from wsched.fusion import CastOp, DataType, Fusion, FusionExpr, MemoryType, MmaOp, PrimitiveCall
from wsched.fusion.tensor import TensorView
from wsched.schedule.primitives.checks import Reasons, find, refuse

__all__ = ["accumulate_in", "check_accumulate_in"]


def accumulate_in(
    fusion: Fusion, tv: str, dtype: DataType, target: Target = DEFAULT
) -> tuple[Fusion, str]:
    """Have a matrix product summed in a new tensor of another type, which the old one is cast from.

    What reads the product does not change, but its numbers do: sums of fp16 take half the registers
    of fp32, and are rounded by every instruction. So nobody does this unasked.

    Args:
        fusion: the fusion.
        tv: name of what a matrix product makes.
        dtype: what its products are summed in.
        target: the GPU that has the matrix instruction.

    Returns:
        The fusion and the name of the accumulator, which is local and takes over the reduction.

    Legal if the target's instruction sums products of the operands in that type, if the sums are
    not promoted to a second accumulator, and if the tensor is not transformed yet.

    before: ``T4 = mma(T2, T3)``
    after ``accumulate_in(fusion, "T4", DataType.Half)``:
    ``T6 = mma(T2, T3)``, ``T4 = cast(T6)``
    """
    call = PrimitiveCall("accumulate_in", (tv, dtype))
    t = find(fusion, tv, call)
    refuse("accumulate_in", call, check_accumulate_in(fusion, t, dtype, target), t)
    name = f"T{len(fusion.tensors)}"
    domains, next_id = fusion.fresh(t.logical)
    sums = TensorView(name, dtype, MemoryType.Local, domains, domains)
    exprs: list[FusionExpr] = []
    for e in fusion.exprs:
        mine = e.output == tv
        exprs += [replace(e, output=name), CastOp(tv, name)] if mine else [e]
    stored = replace(t, logical=t.stored, loop=t.stored)
    return fusion.updated((stored, sums), tuple(exprs), next_id, call), name


def check_accumulate_in(fusion: Fusion, t: TensorView, dtype: DataType, target: Target) -> Reasons:
    """All reasons why ``accumulate_in`` would be illegal."""
    e = fusion.definition(t.name)
    if not isinstance(e, MmaOp):
        return [f"{t.name} is no matrix product"]
    reasons: Reasons = []
    a, b = (fusion.tensor(x).dtype.element for x in (e.a, e.b))
    form = target.mma.multiplying(a, b)
    known = () if form is None else form.accumulators
    if not dtype.is_stored or dtype.element not in known:
        words = " or ".join(d.value for d in known) or "nothing"
        reasons.append(
            f"{target.mma.name} sums products of {a.value} by {b.value} in {words}, not in {dtype}"
        )
    if e.promotion:
        reasons.append(
            f"every {e.promotion} of K sums are added to a second accumulator, which is {t.dtype}"
        )
    if t.transforms:
        reasons.append(f"{t.name} is transformed already: say it first")
    return reasons
