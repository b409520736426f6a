"""Two matmuls, one behind the other, in one kernel: (A · Bᵀ) · C with the first one in chunks."""

from __future__ import annotations

from functools import partial

from lowering.ground.expr import Const, Var
from tests.schedule.fusions import ON_TIDY, TMA
from wsched.fusion import (
    BroadcastOp,
    CastOp,
    DataType,
    Fusion,
    FusionExpr,
    IterDomain,
    IterType,
    LoadStoreOp,
    LoadStoreOpType,
    MemoryType,
    MmaOp,
    ParallelType,
    TensorBinding,
    TensorView,
)
from wsched.schedule import Schedule
from wsched.schedule.cursor import Cursor

__all__ = ["chain", "scheduled"]

BF16, FLOAT = DataType.BFloat16, DataType.Float
GLOBAL, SHARED, LOCAL = MemoryType.Global, MemoryType.Shared, MemoryType.Local
P = ParallelType
KINDS = {"b": IterType.Broadcast, "r": IterType.Reduction}


def chain() -> Fusion:
    """T11[m, l] = sum over n of (sum over k of T0[m, k] * T1[n, k]) * T2[l, n], where L is 64."""
    tensors: list[TensorView] = []
    exprs: list[FusionExpr] = []
    next_id = 0

    def add(dims: str, dtype: DataType = BF16, memory: MemoryType = GLOBAL) -> str:
        nonlocal next_id
        logical = []
        for word in dims.split():
            kind = KINDS.get(word[0], IterType.Iteration)
            extent = Const(64) if word[-1] == "L" else Var(word[-1])
            logical.append(IterDomain(next_id, extent, word[-1], kind))
            next_id += 1
        name = f"T{len(tensors)}"
        tensors.append(TensorView(name, dtype, memory, tuple(logical), tuple(logical)))
        return name

    a, b, c = add("M K"), add("N K"), add("L N")
    views = add("M bN K"), add("bM N K"), add("bM L N")
    flags = ((False, True, False), (True, False, False), (True, False, False))
    exprs += [BroadcastOp(v, x, f) for v, x, f in zip(views, (a, b, c), flags, strict=True)]
    first = add("M N rK", FLOAT, LOCAL)
    exprs.append(MmaOp(first, *views[:2]))
    narrow, held, whole = add("M N", BF16, LOCAL), add("M N", BF16, SHARED), add("M bL N")
    tensors[-1] = TensorView(whole, BF16, SHARED, tensors[-1].logical, tensors[-1].logical)
    exprs += [CastOp(narrow, first), LoadStoreOp(held, narrow, LoadStoreOpType.StMatrix)]
    exprs.append(BroadcastOp(whole, held, (False, True, False)))
    total = add("M L rN", FLOAT, LOCAL)
    exprs.append(MmaOp(total, whole, views[2]))
    out = add("M L")
    exprs.append(CastOp(out, total))
    dims = {a: ("M", "K"), b: ("N", "K"), c: ("L", "N")}
    inputs = tuple(TensorBinding(t, x, (None, None), BF16) for t, x in dims.items())
    outputs = (TensorBinding(out, ("M", "L"), (None, None), BF16),)
    return Fusion(inputs, outputs, tuple(tensors), tuple(exprs), next_id)


def scheduled() -> Schedule:
    """A CTA for each 64 rows: for each 64 of N the first product, which the second one adds up."""
    s = Schedule(chain())
    at = partial(Cursor, s)
    loads = a, b, c = tuple(s.cache_after(v, TMA) for v in ("T3", "T4", "T5"))
    result = s.cache_before("T11")
    for t in loads:
        s.set_memory_type(t, MemoryType.Shared)
    inner = ("T6", "T7", "T8", "T9", "T10")
    for t in (*loads, *inner, result, "T11"):
        at(t).split("M", 64, labels=("cta", "m")).parallelize("cta", P.BIDx)
    for t in (*loads, *inner):
        at(t).split("N", 64, labels=("No", "n")).reorder(["cta", "No"])
    for t in (a, b, "T6"):
        at(t).split("K", 64, labels=("Ko", "k")).reorder(["cta", "No", "Ko"])
    for t, box in ((a, "mnk"), (b, "mnk"), (c, "mLn")):
        if t != c:
            at(t).merge("No", "Ko", label="No·k")
        at(t).parallelize(list(box), P.Bulk).circular_buffer(4, 2, ON_TIDY)
    at("T6").split("k", 16, labels=("k16", "k")).reorder(["cta", "No", "Ko", "k16"])
    at("T10").split("n", 16, labels=("n16", "n")).reorder(["cta", "No", "n16"])
    boxes = ("mnk", "mn", "mn", "mLn", "mLn", "mL", "mL")
    for t, box in zip((*inner, result, "T11"), boxes, strict=True):
        at(t).parallelize(list(box), P.Mma)
    for t, inside in (*dict.fromkeys(inner[:4], "No").items(), ("T10", "cta"), (result, "cta")):
        at(t).inline_at(inside)
    return s
