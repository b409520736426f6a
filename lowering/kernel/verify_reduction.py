"""Which fragments are reduced to which, and through which shared memory. Part of ``verify``."""

from __future__ import annotations

from collections.abc import Iterator

from lowering.ground.dtypes import DType
from lowering.ground.layouts import ACCUMULATOR, BLOCK_ROWS, RegisterLayout
from lowering.ground.types import MOST_STEEP, Swizzle
from lowering.kernel.kernel import GlobalTensor, Kernel
from lowering.kernel.nodes import (
    Frag,
    FragBelow,
    FragRedGlobal,
    FragReduce,
    FragReduceFromShared,
    FragReduceRows,
    FragReduceToShared,
    FragStoreReduced,
    FragUpdate,
    SmemRef,
    Stmt,
)
from lowering.kernel.reduction import HALVES, RED_OPS, REDUCTIONS, WARP_ROWS
from lowering.kernel.rules import about

__all__ = ["RULES"]


def _reduced(kernel: Kernel, stmt: Stmt) -> Iterator[str]:
    match stmt:
        case FragReduce(out, op, acc, value, below, factor):
            yield from _op(stmt.OP, op, REDUCTIONS)
            yield from _mask(value, below)
            yield from _factor(op, value, factor)
            yield from _values(out, acc, value, layout=acc.type.layout)
            yield from _takes_over(out, acc)
            yield from _folds(value, acc)
        case FragReduceRows(out, op, acc, value, below, factor):
            yield from _op(stmt.OP, op, REDUCTIONS)
            yield from _mask(value, below)
            yield from _factor(op, value, factor)
            yield from _values(out, acc, value)
            yield from _takes_over(out, acc)
            if (acc.type.rows, acc.type.cols) != (1, value.type.cols):
                found = f"{acc.type.rows}x{acc.type.cols}"
                yield f"a row of {value.type.cols} takes all rows of {value.name}, not {found}"
            if value.type.rows == 1:
                yield f"{value.name} has one row, {stmt.OP} takes whole groups of {BLOCK_ROWS}"
        case FragReduceToShared(op, dst, value, below, factor):
            yield from _op(stmt.OP, op, REDUCTIONS)
            yield from _mask(value, below)
            yield from _factor(op, value, factor)
            yield from _values(value)
            if value.type.rows == 1:
                yield f"{value.name} has one row, {stmt.OP} takes whole groups of {BLOCK_ROWS}"
            yield from _through(kernel, dst, WARP_ROWS, value.type.cols)
        case FragReduceFromShared(out, op, acc, src, rows):
            yield from _op(stmt.OP, op, REDUCTIONS)
            yield from _values(out, acc)
            yield from _takes_over(out, acc)
            if acc.type.rows != 1:
                yield f"{acc.name} has {acc.type.rows} rows, {stmt.OP} gives one"
            if rows < 1:
                yield f"{stmt.OP} of {rows} rows"
            yield from _through(kernel, src, rows, acc.type.cols)
        case FragStoreReduced(op, dst, src, rows, cols):
            yield from _op(stmt.OP, op, REDUCTIONS)
            if rows < 1 or cols < 1:
                yield f"{stmt.OP} of {rows} rows of {cols}"
            tensor = kernel.find(GlobalTensor, dst.map)
            if tensor is not None and tensor.dtype is not DType.F32:
                yield f"{stmt.OP} to {dst.map} of {tensor.dtype.value}, reductions are f32"
            yield from _through(kernel, src, rows, cols)
        case FragRedGlobal(op, _, value):
            yield from _op(stmt.OP, op, RED_OPS)
            if op != "add" or value.type.dtype not in HALVES:
                yield from _values(value)
            if (op == "add") is not stmt.any_order:
                why = "adds in the order in which CTAs come: any_order=true says that it may"
                yield f"{stmt.OP} {why}" if op == "add" else f"{op} is the same in any order"
        case FragBelow():
            if stmt.out.type.dtype is not DType.PRED:
                yield f"{stmt.OP} gives pred, not {stmt.out.type.dtype.value}"
            for name, steep in (("down", stmt.down), ("right", stmt.right)):
                if abs(steep) > MOST_STEEP:
                    yield f"{name}={steep}, factors are from -{MOST_STEEP} to {MOST_STEEP}"


def _op(what: str, op: str, legal: tuple[str, ...]) -> Iterator[str]:
    if op not in legal:
        yield f"no {what} named {op}, but {', '.join(legal)}"


def _mask(value: Frag, below: Frag | None) -> Iterator[str]:
    if below is None:
        return
    kind, of = below.type, value.type
    if kind.dtype is not DType.PRED or (kind.rows, kind.cols) not in ((of.rows, 1), (1, of.cols)):
        yield (
            f"{below.name} is {kind}; of {value.name} a column of {of.rows} or a row of {of.cols} "
            "of pred says what counts"
        )


def _factor(op: str, value: Frag, factor: Frag | None) -> Iterator[str]:
    if factor is None:
        return
    if op != "sum":
        yield f"{op} of products of {value.name} and {factor.name}: only sums have a factor"
    kind, of = factor.type, value.type
    sizes = ((of.rows, of.cols), (of.rows, 1), (1, of.cols))
    if (
        kind.dtype is not DType.F32
        or kind.layout != of.layout
        or (kind.rows, kind.cols) not in sizes
    ):
        yield (
            f"{factor.name} is {kind}; {value.name} is multiplied by f32 in its layout, "
            f"{of.rows}x{of.cols}, or a column or a row of that"
        )


def _values(*values: Frag, layout: RegisterLayout = ACCUMULATOR) -> Iterator[str]:
    where = "an accumulator's layout" if layout == ACCUMULATOR else "one layout"
    for value in values:
        if value.type.dtype is not DType.F32 or value.type.layout != layout:
            yield f"{value.name} is {value.type}, reductions take f32 in {where}"


def _takes_over(out: Frag, acc: Frag) -> Iterator[str]:
    if out.type != acc.type:
        yield f"{out.name} is {out.type}, it takes over {acc.name}, {acc.type}"


def _folds(value: Frag, acc: Frag) -> Iterator[str]:
    """What falls together within a warp: blocks of rows, groups of columns, all columns."""
    of, to = value.type, acc.type
    rows = (of.rows,) if of.rows == 1 else (of.rows, of.layout.rows)
    cols = (of.cols, 1) if of.cols == 1 else (of.cols, of.layout.columns, 1)
    if to.rows not in rows or to.cols not in cols:
        legal = [" or ".join(map(str, dict.fromkeys(n))) for n in (rows, cols)]
        yield (
            f"a tile of {of.rows}x{of.cols} is reduced to {legal[0]} rows and {legal[1]} "
            f"columns, not to {to.rows}x{to.cols}"
        )
    elif (to.rows, to.cols) == (of.rows, of.cols):
        both = f"{value.name} and {acc.name} are both {of.rows}x{of.cols}"
        yield f"{both}: nothing falls together, that is {FragUpdate.OP}"


def _through(kernel: Kernel, ref: SmemRef, rows: int, cols: int) -> Iterator[str]:
    """The rows fit into a plain buffer of f32."""
    b = next((b for b in kernel.shared if b.name == ref.buffer), None)
    if b is None:
        return
    if b.dtype is not DType.F32 or b.swizzle is not Swizzle.NONE:
        kind = f"{b.dtype.value}, swizzle {b.swizzle.value}"
        yield f"{b.name} is {kind}; rows go through f32 without a swizzle"
    if rows > b.rows or cols > b.cols:
        yield f"{rows} rows of {cols} do not fit into {b.name} of {b.rows}x{b.cols}"


RULES = (
    about(
        _reduced, FragReduce, FragReduceRows, FragReduceToShared, FragReduceFromShared,
        FragStoreReduced, FragRedGlobal, FragBelow,
    ),
)  # fmt: skip
"""Of reductions."""
