"""Tensors in global memory that threads read themselves."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from lowering.errors import UnsupportedError
from lowering.ir.kernel import GlobalTensor
from lowering.ir.nodes import FragLoadGlobal
from lowering.ir.types import DType, FragmentType
from lowering.machine.errors import FaultError
from lowering.machine.fragment import Array
from lowering.machine.program import Program, Run
from lowering.machine.state import Registers, Warp

__all__ = ["element_index", "frag_load_global", "global_array"]

_DTYPES = {
    DType.BF16: ("bfloat16", "uint16"),
    DType.F16: ("float16", "uint16"),
    DType.F32: ("float32",),
}


def global_array(tensor: GlobalTensor, array: Array, rows: int, cols: int) -> Array:
    """The array behind a plain tensor: ``[rows, cols]``, 16-bit elements as raw bits.

    Args:
        tensor: its declaration.
        array: elements of its type or, of a 16-bit type, their raw bits; rows may be strided.
        rows: extent by the kernel's parameters.
        cols: likewise.

    Raises:
        UnsupportedError: another type, shape, stride between columns or alignment.
    """
    name, size = tensor.name, tensor.dtype.bytes
    if array.ndim != 2 or array.dtype.name not in _DTYPES[tensor.dtype]:
        found = f"tensor {name} of {array.dtype.name} and {array.ndim} dimensions"
        raise UnsupportedError(found, f"2-D arrays of {' or '.join(_DTYPES[tensor.dtype])}")
    if array.shape != (rows, cols):
        found = f"tensor {name} of shape {'x'.join(str(n) for n in array.shape)}"
        raise UnsupportedError(found, f"{rows}x{cols}, as the parameters say")
    if array.size and cols > 1 and array.strides[1] != size:
        found = f"tensor {name} with {array.strides[1]} bytes from column to column"
        raise UnsupportedError(found, f"contiguous columns, {size} bytes apart")
    where = {"an address": array.ctypes.data, "a row length": cols * size}
    if rows > 1:
        where["a stride"] = array.strides[0]
    for what, value in where.items():
        if array.size and value % tensor.align:
            found = f"tensor {name} with {what} of {value} bytes"
            raise UnsupportedError(found, f"multiples of {tensor.align} bytes")
    return array if size == 4 else array.view(np.uint16)


@lru_cache(maxsize=256)
def element_index(type_: FragmentType, warp: int) -> tuple[Array, Array]:
    """Row and column of a warp's elements, each broadcasting to ``[32, blocks, groups, 2, 2]``.

    Lane ``l`` holds row ``l // 4`` of its warp's 16, and the columns from ``l % 4 * 2`` on.
    ``warp`` is 0..3. Of a row or column that all share, the index is 0.
    """
    lane = np.arange(32).reshape(32, 1, 1, 1, 1)
    block = 64 * np.arange(type_.blocks).reshape(1, -1, 1, 1, 1)
    group = 8 * np.arange(type_.groups).reshape(1, 1, -1, 1, 1)
    half = 8 * np.arange(2).reshape(1, 1, 1, 2, 1)
    pair = np.arange(2).reshape(1, 1, 1, 1, 2)
    zero = np.zeros((32, 1, 1, 1, 1), int)
    rows = 16 * warp + lane // 4 + block + half if type_.rows > 1 else zero
    cols = lane % 4 * 2 + group + pair if type_.cols > 1 else zero
    return rows, cols


def frag_load_global(stmt: FragLoadGlobal, program: Program) -> Run:
    """``frag.load_global``: each thread loads its elements; zero where they are out of bounds."""
    name, type_ = stmt.src.map, stmt.out.type
    pairs = program.kernel.global_tensor(name).pairs and type_.cols > 1
    row, col = program.scalar(stmt.src.row), program.scalar(stmt.src.col)

    def run(warp: Warp) -> None:
        warp.whole(stmt.OP)
        warp.touches_global()
        at = row(warp.env), col(warp.env)
        if pairs and at[1] % 2:
            raise FaultError(f"two columns at once of {name} from column {at[1]} on, which is odd")
        warp.record(stmt.OP, name, -1, row=at[0], col=at[1])
        rows, cols = element_index(type_, warp.index % 4)
        data = _gather(warp.cta.cluster.globals[name], rows + at[0], cols + at[1])
        warp.define(stmt.out, Registers(data, warp.epoch))

    return run


def _gather(array: Array, rows: Array, cols: Array) -> Array:
    shape = np.broadcast_shapes(rows.shape, cols.shape)
    inside = (rows >= 0) & (rows < array.shape[0]) & (cols >= 0) & (cols < array.shape[1])
    if not array.size:
        return np.zeros(shape, array.dtype)
    found = array[rows.clip(0, array.shape[0] - 1), cols.clip(0, array.shape[1] - 1)]
    data: Array = np.where(inside, found, array.dtype.type(0))
    return data
