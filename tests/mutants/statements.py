"""One statement with another number, index, order or operand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from lowering.ground.expr import Const, Expr
from lowering.kernel.nodes import (
    Atom,
    BulkWait,
    CounterRef,
    CounterWait,
    For,
    GmemRef,
    MBarrierArrive,
    MBarrierExpectTx,
    MBarrierInit,
    MBarrierRef,
    MBarrierWait,
    NamedBarrierRef,
    PartialRef,
    SetMaxNReg,
    SmemRef,
    Stmt,
    StWord,
    Tcgen05Alloc,
    Tcgen05Commit,
    Tcgen05Dealloc,
    Tcgen05Fence,
    Tcgen05Mma,
    TmaLoad,
    TmemRef,
    Wgmma,
    WgmmaWait,
)
from lowering.kernel.visit import bodies

__all__ = ["changed"]


def changed(stmt: Stmt) -> Iterator[tuple[str, Stmt]]:
    """The statement as each edit leaves it, with the class of the edit."""
    match stmt:
        case MBarrierInit(arrivals=n):
            yield "count", replace(stmt, arrivals=n + 1)
            yield "count", replace(stmt, arrivals=n - 1)
        case MBarrierExpectTx(bytes=Expr() as n):
            yield "bytes", replace(stmt, bytes=n + 16)
            yield "bytes", replace(stmt, bytes=n - 16)
        case MBarrierWait(parity=parity):
            yield "parity", replace(stmt, parity=parity ^ 1)
        case WgmmaWait(pending=n):
            yield "pending", replace(stmt, pending=n + 1)
        case BulkWait(pending=n, read=read):
            yield "pending", replace(stmt, pending=n + 1)
            yield "order", replace(stmt, read=not read)
        case SetMaxNReg(count=n, action=action):
            yield "registers", replace(stmt, count=n + 8)
            yield "registers", replace(stmt, action="inc" if action == "dec" else "dec")
        case TmaLoad(multicast=Expr() as mask):
            yield "target", replace(stmt, multicast=Const(1))
            yield "target", replace(stmt, multicast=mask << 1)
        case TmaLoad(cta_group=2):
            yield "target", replace(stmt, cta_group=1)
        case Tcgen05Commit(multicast=Expr() as mask):
            yield "target", replace(stmt, multicast=None)
            yield "target", replace(stmt, multicast=mask << 1)
        case Tcgen05Fence(when=when):
            yield "order", replace(stmt, when="after" if when == "before" else "before")
        case Tcgen05Alloc(columns=n) | Tcgen05Dealloc(columns=n):
            yield "count", replace(stmt, columns=2 * n)
            yield "count", replace(stmt, columns=n // 2)
        case MBarrierArrive(cta=Expr() as cta):
            yield "target", replace(stmt, cta=cta ^ 1)
        case (Wgmma() | Tcgen05Mma()) as product:
            accumulate, a, b = product.accumulate, product.trans_a, product.trans_b
            yield "descriptor", replace(stmt, trans_a=not a)
            yield "descriptor", replace(stmt, trans_b=not b)
            if isinstance(accumulate, Const):
                yield "value", replace(stmt, accumulate=Const(1 - accumulate.value))
        case Atom(value=value):
            yield "count", replace(stmt, value=value + 1)
        case CounterWait(value=value):
            yield "count", replace(stmt, value=value + 1)
            yield "count", replace(stmt, value=value - 1)
        case StWord(value=value):
            yield "value", replace(stmt, value=value + 1)
        case For():
            yield from _loop(stmt)
    if not bodies(stmt):
        yield from _reordered(stmt)
        yield from _reindexed(stmt)


def _loop(stmt: For) -> Iterator[tuple[str, Stmt]]:
    """A loop that begins, ends or goes on elsewhere."""
    carries, yields = stmt.carries, stmt.yields
    for n, carry in enumerate(carries):
        if isinstance(carry.init, Expr):
            new = replace(carry, init=carry.init + 1)
            yield "carry", replace(stmt, carries=(*carries[:n], new, *carries[n + 1 :]))
            y = yields[n]
            assert isinstance(y, Expr)
            yield "carry", replace(stmt, yields=(*yields[:n], y + 1, *yields[n + 1 :]))
    if not stmt.unroll:
        yield "trips", replace(stmt, stop=stmt.stop + 1)
        yield "trips", replace(stmt, start=stmt.start + 1)


def _reordered(stmt: Stmt) -> Iterator[tuple[str, Stmt]]:
    """A statement with a weaker order: relaxed, or of the CTA alone."""
    match stmt:
        case MBarrierArrive(order="release.cluster") | MBarrierWait(order="acquire.cluster"):
            yield "order", replace(stmt, order="relaxed.cluster")
            yield "order", replace(stmt, order=stmt.order.replace("cluster", "cta"))
        case MBarrierWait(order="relaxed.cluster"):
            yield "order", replace(stmt, order="acquire.cta")
        case Atom(order=order) if not order.startswith("relaxed"):
            yield "order", replace(stmt, order="relaxed.gpu")


def _reindexed(stmt: Stmt) -> Iterator[tuple[str, Stmt]]:
    """A statement at the next stage, barrier, slot, or place."""
    for f in fields(stmt):
        match getattr(stmt, f.name):
            case MBarrierRef(index=index) as ref if not isinstance(index, Const):
                yield "stage", replace(stmt, **{f.name: replace(ref, index=index + 1)})
                yield "stage", replace(stmt, **{f.name: replace(ref, index=Const(0))})
            case NamedBarrierRef(index=index) as ref:
                yield "barrier", replace(stmt, **{f.name: replace(ref, index=index ^ 1)})
            case (SmemRef() | TmemRef()) as ref:
                stage, coords = ref.stage, ref.coords
                yield "stage", replace(stmt, **{f.name: replace(ref, stage=stage + 1)})
                for n, by in ((-1, 16), (-2, 8))[: len(coords)]:
                    moved = list(coords)
                    moved[n] = moved[n] + by
                    kind = "descriptor" if isinstance(stmt, Wgmma | Tcgen05Mma) else "index"
                    yield kind, replace(stmt, **{f.name: replace(ref, coords=tuple(moved))})
            case GmemRef(coords=coords) as ref:
                moved = list(coords)
                moved[-1] = moved[-1] + 8
                yield "index", replace(stmt, **{f.name: replace(ref, coords=tuple(moved))})
            case CounterRef(index=index) | PartialRef(index=index) as ref:
                yield "index", replace(stmt, **{f.name: replace(ref, index=index + 1)})
