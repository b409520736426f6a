"""Tensors in global memory that threads access themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Expr
from lowering.ground.types import FragmentType
from lowering.kernel.kernel import GlobalTensor
from lowering.kernel.nodes import Frag, FragLoadGlobal, FragRedGlobal, FragStoreGlobal, GmemRef
from lowering.machine.errors import FaultError
from lowering.machine.fragment import (
    Array,
    element_index,
    from_float32,
    greater,
    held_type,
    less,
    to_float32,
)
from lowering.machine.program import Program, Run
from lowering.machine.state import Registers, Warp

__all__ = [
    "frag_load_global", "frag_red_global", "frag_store_global", "gather", "global_array",
    "rows_of", "tensor_place",
]  # fmt: skip


def _add_ftz(a: Array, b: Array) -> Array:
    """``red.global.add.f32``: subnormal numbers are zeros of their sign, in and out."""

    def flushed(x: Array) -> Array:
        tiny: Array = np.abs(x) < np.finfo(np.float32).tiny
        return np.where(tiny, np.copysign(np.float32(0), x), x)

    return flushed(flushed(a) + flushed(b))


_RED = {"max": greater, "min": less}


def _red(op: str, dtype: DType) -> Callable[[Array, Array], Array]:
    """An operation ``red`` on elements as memory has them.

    ``red.add.noftz`` of 16 bits rounds once; fp32 has more than twice their bits, so that rounding
    to it on the way changes nothing.
    """
    if op != "add":
        return _RED[op]
    if dtype is DType.F32:
        return _add_ftz
    return lambda a, b: from_float32(to_float32(a, dtype) + to_float32(b, dtype), dtype)


def global_array(tensor: GlobalTensor, array: Array, sizes: tuple[int, ...]) -> Array:
    """The array behind a plain tensor, narrow elements as raw bits.

    Args:
        tensor: its declaration.
        array: elements of its type or, of fewer than 32 bits, their raw bits; all dimensions but
            the last may be strided.
        sizes: extents by the kernel's parameters.

    Raises:
        UnsupportedError: another type, shape, stride between columns or alignment.
    """
    name, size, held = tensor.name, tensor.dtype.bytes, held_type(tensor.dtype)
    legal = dict.fromkeys((tensor.dtype.numpy, held))
    if array.ndim != tensor.rank or array.dtype.name not in legal:
        found = f"tensor {name} of {array.dtype.name} and {array.ndim} dimensions"
        raise UnsupportedError(found, f"{tensor.rank}-D arrays of {' or '.join(legal)}")
    if array.shape != sizes:
        found = f"tensor {name} of shape {'x'.join(str(n) for n in array.shape)}"
        wanted = "x".join(str(n) for n in sizes)
        raise UnsupportedError(found, f"{wanted}, as the parameters say")
    *outer, cols = sizes
    if array.size and cols > 1 and array.strides[-1] != size:
        found = f"tensor {name} with {array.strides[-1]} bytes from column to column"
        raise UnsupportedError(found, f"contiguous columns, {size} bytes apart")
    where = [("an address", array.ctypes.data), ("a row length", cols * size)]
    where += [
        ("a stride", n) for n, extent in zip(array.strides, outer, strict=False) if extent > 1
    ]
    for what, value in where:
        if array.size and value % tensor.align:
            found = f"tensor {name} with {what} of {value} bytes"
            raise UnsupportedError(found, f"multiples of {tensor.align} bytes")
    return array.view(held)


def frag_load_global(stmt: FragLoadGlobal, program: Program) -> Run:
    """``frag.load_global``: each thread loads its elements; zero where they are out of bounds."""
    where = _place(stmt, stmt.src, stmt.out.type, program)
    predicate = stmt.out.type.dtype is DType.PRED

    def run(warp: Warp) -> None:
        array, rows, cols = where(warp)
        data = gather(array, rows, cols)
        data = data != 0 if predicate else data
        warp.define(stmt.out, Registers(data, warp.epoch))

    return run


def frag_store_global(stmt: FragStoreGlobal, program: Program) -> Run:
    """``frag.store_global``: each thread stores those of its elements that are in bounds."""
    where = _place(stmt, stmt.dst, stmt.value.type, program)
    wide = None if stmt.limit_cols is None else program.scalar(stmt.limit_cols)

    def run(warp: Warp) -> None:
        array, rows, cols = where(warp)
        data = warp.read(stmt.value)
        inside = _stored(stmt.value.type, warp, array, rows, cols)
        if wide is not None:
            inside = inside & (element_index(stmt.value.type, warp.index % 4)[1] < wide(warp.env))
        at = (np.broadcast_to(index, data.shape)[inside] for index in (rows, cols))
        array[tuple(at)] = data[inside]
        warp.cta.cluster.counts["store bytes"] += int(inside.sum()) * array.itemsize

    return run


def frag_red_global(stmt: FragRedGlobal, program: Program) -> Run:
    """``frag.red_global``: warps in the order of the scheduler, a warp's elements in any order."""
    where = _place(stmt, stmt.dst, stmt.value.type, program)
    op = _red(stmt.op, stmt.value.type.dtype)

    def run(warp: Warp) -> None:
        array, rows, cols = where(warp)
        data = warp.read(stmt.value)
        inside = _stored(stmt.value.type, warp, array, rows, cols)
        down, right = (np.broadcast_to(index, data.shape)[inside] for index in (rows, cols))
        values, left = data[inside], np.arange(inside.sum())
        while left.size:  # rows by index may name a place more than once
            _, first = np.unique(down[left] * array.shape[1] + right[left], return_index=True)
            now = left[first]
            at = down[now], right[now]
            array[at] = op(array[at], values[now])
            left = np.delete(left, first)
        warp.record(stmt.OP, stmt.dst.map, -1)

    return run


def _stored(type_: FragmentType, warp: Warp, array: Array, rows: Array, cols: Array) -> Array:
    """Which of a warp's elements it stores: those in bounds that no other lane stores."""
    lane = np.arange(32).reshape(32, 1, 1, 1, 1)
    mine = (type_.cols > 1) | (lane % type_.layout.lanes == 0)
    if type_.rows == 1:
        mine = mine & (lane < type_.layout.lanes) & (warp.index % 4 == 0)
    inside: Array = np.broadcast_to(_inside(array, rows, cols) & mine, (32, *type_.held))
    return inside


def _place(
    stmt: FragLoadGlobal | FragStoreGlobal | FragRedGlobal, ref: GmemRef, type_: FragmentType,
    program: Program,
) -> Callable[[Warp], tuple[Array, Array, Array]]:  # fmt: skip
    """A function that gives the matrix, the rows and the columns of a warp's elements.

    A row from the limit on or with a negative index is -1. It raises FaultError where columns would
    be accessed at once that do not begin at a multiple of as many.
    """
    trans = not isinstance(stmt, FragRedGlobal) and stmt.trans
    single = type_.cols == 1 or isinstance(stmt, FragRedGlobal) or trans
    tensor = program.kernel.global_tensor(ref.map)
    together = 1 if single else tensor.together(type_.layout.span)
    where = tensor_place(stmt.OP, ref, program)
    behind = rows_of(stmt.limit, stmt.index, type_, program)

    def place(warp: Warp) -> tuple[Array, Array, Array]:
        matrix, row, col = where(warp)
        if col % together:
            what = f"{together} columns at once of {ref.map} from column {col} on"
            raise FaultError(f"{what}, which is no multiple of {together}")
        _, cols = element_index(type_, warp.index % 4)
        rows = behind(warp)
        if trans:
            return matrix, cols + row, np.where(rows < 0, -1, rows + col)
        return matrix, np.where(rows < 0, -1, rows + row), cols + col

    return place


def tensor_place(
    op: str, ref: GmemRef, program: Program
) -> Callable[[Warp], tuple[Array, int, int]]:
    """A function that gives the matrix of a place, its row and its column, for a whole warp.

    A matrix out of bounds is one without elements.
    """
    where = program.coordinates(ref)
    entry = None if ref.entry is None else program.scalar(ref.entry)

    def place(warp: Warp) -> tuple[Array, int, int]:
        warp.touches_global()
        at = where(warp.env)
        *outer, row, col = at if len(at) > 1 else (0, *at)
        warp.record(op, ref.map, -1, at=at)
        name = ref.map if entry is None else f"{ref.map}[{entry(warp.env)}]"
        if name not in warp.cta.cluster.globals:
            raise FaultError(f"{name} lies outside the array of {ref.map}")
        return _matrix(warp.cta.cluster.globals[name], outer), row, col

    return place


def rows_of(
    limit: Expr | None, index: Frag | None, type_: FragmentType, program: Program
) -> Callable[[Warp], Array]:
    """How many rows behind the first one each of a warp's elements lies; negative for nowhere."""
    most = None if limit is None else program.scalar(limit)

    def rows(warp: Warp) -> Array:
        own, _ = element_index(type_, warp.index % 4)
        found = own if index is None else warp.read(index).astype(np.int64)
        return found if most is None else np.where(own < most(warp.env), found, -1)

    return rows


def _matrix(array: Array, at: Sequence[int]) -> Array:
    """The matrix with these coordinates in front of its rows; an empty one out of bounds."""
    if all(0 <= i < n for i, n in zip(at, array.shape, strict=False)):
        found: Array = np.atleast_2d(array[tuple(at)])
        return found
    return np.zeros((0, 0), array.dtype)


def _inside(array: Array, rows: Array, cols: Array) -> Array:
    """Which elements the tensor has, over all rows and columns."""
    down: Array = (rows >= 0) & (rows < array.shape[0])
    right: Array = (cols >= 0) & (cols < array.shape[1])
    return down & right


def gather(array: Array, rows: Array, cols: Array) -> Array:
    """The elements at these rows and columns; zero out of bounds."""
    inside = _inside(array, rows, cols)
    if not array.size:
        return np.zeros(inside.shape, array.dtype)
    found = array[rows.clip(0, array.shape[0] - 1), cols.clip(0, array.shape[1] - 1)]
    data: Array = np.where(inside, found, array.dtype.type(0))
    return data
