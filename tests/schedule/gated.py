"""Fusions with two matmuls whose products meet, and a schedule for them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lowering.ground.expr import Special
from tests.schedule.fusions import ON_TIDY, TMA, linear
from wsched.fusion import (
    BroadcastOp,
    Fusion,
    IterType,
    LoadStoreOpType,
    MemoryType,
    MmaOp,
    ParallelType,
    PointwiseOp,
    TensorBinding,
    TensorView,
)
from wsched.schedule import Schedule
from wsched.schedule.cursor import Cursor

__all__ = ["chained", "gated", "scheduled", "two_results"]

P = ParallelType
GLOBAL = MemoryType.Global


class Copies:
    """Tensors like others of a fusion, with dimensions of their own."""

    def __init__(self, fusion: Fusion) -> None:
        self.fusion = fusion

    def like(self, name: str, memory: MemoryType | None = None) -> str:
        """A new tensor like ``name``."""
        t, new = self.fusion.tensor(name), f"T{len(self.fusion.tensors)}"
        domains, next_id = self.fusion.fresh(t.logical)
        made = TensorView(new, t.dtype, memory or t.memory, domains, domains)
        self.fusion = self.fusion.updated((made,), next_id=next_id)
        return new


def _two() -> tuple[Fusion, str, str, str]:
    """``linear`` with a second weight: T0 · T1 and T0 · T6; weight, its view and the product."""
    made = Copies(linear())
    weight, view, product = made.like("T1"), made.like("T3"), made.like("T4")
    f = made.fusion
    inputs = (*f.inputs, TensorBinding(weight, ("N", "K"), (None, None), f.inputs[1].dtype))
    first, second, mma, cast = f.exprs
    broadcast = BroadcastOp(view, weight, (True, False, False))
    exprs = (first, second, broadcast, mma, MmaOp(product, "T2", view), cast)
    return replace(f, inputs=inputs, exprs=exprs), weight, view, product


def gated() -> Fusion:
    """The products of both are multiplied: T5 = cast(T4 * T8)."""
    fusion, _, _, product = _two()
    made = Copies(fusion)
    both = made.like("T5", MemoryType.Local)
    *exprs, cast = made.fusion.exprs
    total = replace(made.fusion.tensor(both), dtype=fusion.tensor("T4").dtype)
    times = PointwiseOp(both, "mul", ("T4", product))
    return made.fusion.updated((total,), (*exprs, times, replace(cast, input=both)))


def two_results() -> Fusion:
    """Both products are results, and have nothing to do with each other but A."""
    fusion, _, _, product = _two()
    made = Copies(fusion)
    out = made.like("T5")
    exprs = (*made.fusion.exprs, replace(made.fusion.exprs[-1], output=out, input=product))
    outputs = (*fusion.outputs, replace(fusion.outputs[0], tensor=out))
    return replace(made.fusion, exprs=exprs, outputs=outputs)


def chained() -> Fusion:
    """The second product is one with the first: T8[m, n] = sum over k of A[m, k] * T4[m, n]."""
    fusion = linear()
    made = Copies(fusion)
    repeated, product = made.like("T4"), made.like("T4")
    *exprs, cast = made.fusion.exprs
    t = made.fusion.tensor(repeated)
    *kept, k = t.logical
    dims = (*kept, replace(k, iter_type=IterType.Broadcast))
    first = BroadcastOp(repeated, "T4", (False, False, True))
    second = MmaOp(product, "T2", repeated)
    changed = replace(t, logical=dims, loop=dims)
    return made.fusion.updated((changed,), (*exprs, first, second, replace(cast, input=product)))


def scheduled(
    fusion: Fusion, m: int = 128, n: int = 128, k: int = 64, groups: int = 2, chunk: int = 64,
    stages: int = 4, prefetch: int = 2,
) -> Schedule:  # fmt: skip
    """``groups`` warpgroups share tiles of ``m x n`` of each product, one ring for all operands."""
    s = Schedule(fusion)
    at = partial(Cursor, s)
    mmas = [e for e in fusion.exprs if isinstance(e, MmaOp)]
    views = dict.fromkeys(x for e in mmas for x in (e.a, e.b) if fusion.tensor(x).memory is GLOBAL)
    loads = [s.cache_after(x, TMA) for x in views]
    sums = [e.output for e in mmas]
    stores = []
    for out in s.outputs:
        box = s.cache_before(out, TMA)
        s.cache_before(box, LoadStoreOpType.StMatrix)
        stores += [box, out]
    for t in (*loads, *stores[::2]):
        s.set_memory_type(t, MemoryType.Shared)
    made = [e.output for e in s.fusion.exprs if s.tensor(e.output).memory is not GLOBAL]
    made += s.outputs
    between = [e.b for e in mmas if e.b in made]
    after = [n for n in made if n not in (*loads, *sums, *between)]
    for t in (*loads, *sums, *between, *after):
        at(t).split("M", m).split("N", n).reorder(["Mo", "No"]).merge("Mo", label="tiles")
        at(t).split("tiles", Special("nctaid.x"), labels=("tile", "cta"))
        at(t).reorder(["cta", "tile"]).parallelize("cta", P.BIDx)
    for t in loads:
        at(t).split("K", k).reorder(["cta", "tile", "Ko"]).merge("tile", "Ko", label="tile·k")
        at(t).parallelize(["Mi", "Ni", "Ki"], P.Bulk).circular_buffer(stages, prefetch, ON_TIDY)
    for t in (*sums, *between, *after):
        at(t).split("Mi", m // groups, labels=("group", "Mg")).reorder(["cta", "tile", "group"])
        at(t).parallelize("group", P.TIDy)
    for t in sums:
        at(t).split("K", k).split("Ki", 16, labels=("k16", "k"))
        at(t).split("Mg", 64, labels=("m64", "m"))
        at(t).reorder(["cta", "tile", "group", "Ko", "k16", "m64"])
        at(t).parallelize(["m", "Ni", "k"], P.Mma)
    for t in after:
        at(t).split("Ni", chunk, labels=("chunk", "n")).reorder(["cta", "tile", "group", "chunk"])
        if t not in stores:
            at(t).split("Mg", 64, labels=("m64", "m")).parallelize(["m", "n"], P.Mma)
        else:
            at(t).parallelize(["Mg", "n"], P.Bulk)
    for t in after:
        if t not in s.outputs:
            at(t).inline_at("chunk")
    for t in sums:
        at(t).inline_at("group")
    return s
