"""What a CTA does by what is reduced: which tiles it reads, and how its warpgroups meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lowering.ground.dtypes import DType
from lowering.ground.expr import ONE, ZERO, Const, Expr, Special, Var, ceildiv
from lowering.ground.layouts import BLOCK_ROWS
from lowering.kernel.nodes import (
    Carry,
    For,
    Frag,
    FragReduce,
    FragReduceFromShared,
    FragReduceToShared,
    FragUpdate,
    If,
    LdShared,
    SmemRef,
    StShared,
)
from lowering.kernel.reduction import NEUTRAL, WARP_ROWS
from lowering.summary.builder import Builder
from lowering.summary.tile import Tile
from wsched.fusion.summary import Axis, Extent

__all__ = [
    "BEHIND", "FRONT", "GROUP", "MEETING", "REDUCED", "Form", "Totals", "form_of",
    "trips",
]  # fmt: skip

FRONT, REDUCED, BEHIND = (Var(name) for name in ("front", "reduced", "behind"))
"""Parameters: elements in front of what is reduced, reduced, and behind it."""

GROUP = Var("group")
"""The executing warpgroup of the CTA."""

MEETING = "meeting"
"""Shared memory in which warps meet."""

_CTA = Special("ctaid.x")

_TOGETHER = {"sum": "add", "max": "maximum", "min": "minimum"}
"""What two parts of a reduction come to, element by element."""

_PAIR = 2
"""Columns of shared memory for one that is needed: a row is of whole pairs."""

Totals = list[Frag]
"""What each reduction has come to, in the order of the summary."""


@dataclass(frozen=True, slots=True)
class Form:
    """A kernel by what it reduces.

    Args:
        tensor: sizes of what is read.
        kept: sizes of what is left.
        grid: CTAs along x, and along y.
        kept_at: where the results of a CTA lie.
        tensor_at: where a tile lies, by the first element that is reduced.
        masked: rows and columns of the mask of what there is.
        carried: rows and columns of what a warpgroup carries from trip to trip.
        result: rows and columns of what it comes to.
        meeting: rows and columns in shared memory for each reduction; 0 where nobody meets.
        share: what each warpgroup leaves there.
        join: what the first makes of it.
    """

    tensor: tuple[Expr, ...]
    kept: tuple[Expr, Expr]
    grid: tuple[Expr, Expr]
    kept_at: tuple[Expr, Expr]
    tensor_at: Callable[[Expr], tuple[Expr, ...]]
    masked: tuple[int, int]
    carried: tuple[int, int]
    result: tuple[int, int]
    meeting: tuple[int, int]
    share: Callable[[Builder, Tile, Totals], None]
    join: Callable[[Builder, Tile, Totals], Totals]


def form_of(axis: Axis, tile: Tile, block: Expr = _CTA) -> Form:
    """How a summary of this kind is computed with that tile.

    Args:
        axis: what is reduced.
        tile: of a warpgroup.
        block: which rows, where columns are reduced.
    """
    first = block * tile.rows
    left, outer = Special("ctaid.x") * tile.columns, Special("ctaid.y")
    match axis:
        case Axis.COLUMNS:
            return Form(
                tensor=(FRONT, REDUCED), kept=(FRONT, ONE), grid=(ceildiv(FRONT, tile.rows), ONE),
                kept_at=(first, ZERO), tensor_at=lambda c: (first, c), masked=(1, tile.columns),
                carried=(tile.rows, tile.layout.columns), result=(tile.rows, 1),
                meeting=((tile.groups - 1) * tile.rows, tile.layout.columns),
                share=_share_columns, join=_join_columns,
            )  # fmt: skip
        case Axis.ROWS:
            return Form(
                tensor=(FRONT, REDUCED, BEHIND), kept=(FRONT, BEHIND),
                grid=(ceildiv(BEHIND, tile.columns), FRONT), kept_at=(outer, left),
                tensor_at=lambda r: (outer, r, left), masked=(tile.rows, 1),
                carried=(BLOCK_ROWS, tile.columns), result=(1, tile.columns),
                meeting=(tile.groups * WARP_ROWS, tile.columns),
                share=_share_rows, join=_join_rows,
            )  # fmt: skip
    return Form(
        tensor=(REDUCED, ONE), kept=(ONE, ONE), grid=(ONE, ONE), kept_at=(ZERO, ZERO),
        tensor_at=lambda r: (r, ZERO), masked=(tile.rows, 1), carried=(BLOCK_ROWS, 1),
        result=(1, 1), meeting=(tile.groups * WARP_ROWS, _PAIR), share=_share_rows, join=_join_rows,
    )  # fmt: skip


def trips(b: Builder, form: Form, tile: Tile) -> Totals:
    """The loop over a warpgroup's tiles, and what each reduction has come to in it."""
    found = b.summary.reductions
    starts = [b.filled(f"{r.name}_start", NEUTRAL[r.op], *form.carried) for r in found]
    so_far = [b.new(f"{r.name}_so_far", DType.F32, *form.carried) for r in found]
    totals = [b.new(f"{r.name}_own", DType.F32, *form.carried) for r in found]
    at, step = Var(b.name("at")), tile.rows if form.masked[1] == 1 else tile.columns
    nexts = Totals()
    with b.inside() as body:
        below = b.below(REDUCED - at, *form.masked)
        for v in b.summary.values:
            if v.extent is Extent.TENSOR and v.op == "input":
                b.load(v, form.tensor_at(at), tile.rows, tile.columns)
            elif v.extent is Extent.TENSOR:
                b.compute(v)
        for r, acc in zip(found, so_far, strict=True):
            nexts.append(b.new(f"{r.name}_next", DType.F32, *form.carried))
            b.emit(FragReduce(nexts[-1], r.op, acc, b.wide(str(r.inputs[0])), below))
    carries = tuple(Carry(*c) for c in zip(so_far, starts, totals, strict=True))
    stride = Const(tile.groups * step)
    b.emit(For(at, GROUP * step, REDUCED, tuple(body), stride, carries, tuple(nexts)))
    return totals


def _share_columns(b: Builder, tile: Tile, totals: Totals) -> None:
    """All but the first leave their rows."""
    if tile.groups == 1:
        return
    with b.inside() as body:
        for i, total in enumerate(totals):
            b.emit(StShared(SmemRef(MEETING, Const(i), ((GROUP - 1) * tile.rows, ZERO)), total))
    b.emit(If(ZERO < GROUP, tuple(body)))


def _join_columns(b: Builder, tile: Tile, totals: Totals) -> Totals:
    made = Totals()
    for i, (r, total) in enumerate(zip(b.summary.reductions, totals, strict=True)):
        rows, columns = total.type.rows, total.type.cols
        for other in range(tile.groups - 1):
            theirs = b.new(f"{r.name}_theirs", DType.F32, rows, columns)
            b.emit(LdShared(theirs, SmemRef(MEETING, Const(i), (Const(other * rows), ZERO))))
            both = b.new(f"{r.name}_both", DType.F32, rows, columns)
            b.emit(FragUpdate(both, _TOGETHER[r.op], total, (theirs,)))
            total = both
        start = b.filled(f"{r.name}_none", NEUTRAL[r.op], rows, 1)
        made.append(b.new(f"{r.name}_total", DType.F32, rows, 1))
        b.emit(FragReduce(made[-1], r.op, start, total))
    return made


def _share_rows(b: Builder, tile: Tile, totals: Totals) -> None:
    """Each warp leaves a row."""
    for i, (r, total) in enumerate(zip(b.summary.reductions, totals, strict=True)):
        place = SmemRef(MEETING, Const(i), (GROUP * WARP_ROWS, ZERO))
        b.emit(FragReduceToShared(r.op, place, total))


def _join_rows(b: Builder, tile: Tile, totals: Totals) -> Totals:
    made = Totals()
    for i, (r, total) in enumerate(zip(b.summary.reductions, totals, strict=True)):
        start = b.filled(f"{r.name}_none", NEUTRAL[r.op], 1, total.type.cols)
        made.append(b.new(f"{r.name}_total", DType.F32, 1, total.type.cols))
        place = SmemRef(MEETING, Const(i), (ZERO, ZERO))
        b.emit(FragReduceFromShared(made[-1], r.op, start, place, tile.groups * WARP_ROWS))
    return made
