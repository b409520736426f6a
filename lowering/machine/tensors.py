"""Tensors in global memory behind tensor maps, and the boxes that TMA moves."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from lowering.ground.errors import UnsupportedError
from lowering.ground.types import Swizzle
from lowering.kernel.kernel import TensorMap
from lowering.machine.errors import FaultError
from lowering.machine.fragment import Array
from lowering.machine.memory import swizzled
from lowering.target.hopper import TMA_BOX_MAX, TMA_STRIDE_ALIGN

__all__ = ["GlobalTensor", "box_chunks"]

TMA_SHARED_ALIGN = 128
"""Alignment of a box in shared memory in bytes (PTX ISA, cp.async.bulk.tensor)."""


@lru_cache(maxsize=1024)
def box_chunks(address: int, rows: int, line: int, swizzle: Swizzle) -> Array:
    """Where the 16-byte chunks of a box go: ``[rows, line / 16]`` addresses / 16.

    Args:
        address: absolute shared address of the box.
        rows: rows of the box.
        line: bytes of a row, which lie one after the other before swizzling.
        swizzle: by absolute address bits, so a box that is not aligned to it lands permuted.
    """
    if address % TMA_SHARED_ALIGN:
        raise FaultError(
            f"a box at shared address {address} is not aligned to {TMA_SHARED_ALIGN} bytes"
        )
    linear = address + np.arange(0, rows * line, 16).reshape(rows, line // 16)
    chunks: Array = swizzled(linear, swizzle) >> 4
    chunks.setflags(write=False)
    return chunks


class GlobalTensor:
    """The array behind a tensor map.

    Args:
        map: the tensor map.
        array: 2-D, elements of the map's type or their raw bits; written in place by stores.
        rows: extent that the map gives to the array.
        cols: likewise.

    Raises:
        UnsupportedError: the array is none that TMA can address as the map says.
    """

    def __init__(self, map: TensorMap, array: Array, rows: int, cols: int) -> None:
        self.map = map
        self.box = self.rows, self.cols = map.box_of(rows)
        self.line = self.cols * map.dtype.bytes
        legal = (map.dtype.numpy, map.dtype.raw)
        if array.ndim != 2 or array.dtype.name not in legal:
            found = f"tensor {map.name} of {array.dtype.name} and {array.ndim} dimensions"
            raise UnsupportedError(found, f"2-D arrays of {' or '.join(legal)}")
        if array.shape != (rows, cols):
            found = f"tensor {map.name} of shape {'x'.join(str(n) for n in array.shape)}"
            raise UnsupportedError(found, f"{rows}x{cols}, as the parameters say")
        size = map.dtype.bytes
        row_stride = array.strides[0] if rows > 1 else 0
        col_stride = array.strides[1] if cols > 1 else size
        if array.size and (col_stride != size or row_stride % TMA_STRIDE_ALIGN):
            found = f"tensor {map.name} with strides of {row_stride} and {col_stride} bytes"
            raise UnsupportedError(found, f"rows a multiple of {TMA_STRIDE_ALIGN} bytes apart")
        self.raw: Array = array.view(map.dtype.raw)
        self._check_box()

    def _check_box(self) -> None:
        name, span = self.map.name, self.map.swizzle.value
        if not all(0 < extent <= TMA_BOX_MAX for extent in self.map.box):
            found = f"a box of {self.map.box[0]}x{self.cols} for tensor map {name}"
            raise UnsupportedError(found, f"1 to {TMA_BOX_MAX} elements in each dimension")
        if self.line % 16 or (span and self.line != span):
            found = f"a box line of {self.line} bytes for tensor map {name}"
            raise UnsupportedError(found, f"{span} bytes" if span else "multiples of 16 bytes")

    @property
    def box_bytes(self) -> int:
        """Bytes of a whole box."""
        return self.rows * self.line

    def load(self, row: int, col: int) -> Array:
        """The box at ``row, col`` as chunks ``[rows, line / 16, 2]``; zero out of bounds."""
        box = np.zeros(self.box, self.raw.dtype)
        inside, source = self._clip(row, col)
        box[inside] = self.raw[source]
        return box.view(np.uint64).reshape(self.rows, self.line // 16, 2)

    def store(self, row: int, col: int, chunks: Array) -> None:
        """Write chunks ``[rows, line / 16, 2]`` at ``row, col``; out of bounds is dropped."""
        inside, target = self._clip(row, col)
        box = np.ascontiguousarray(chunks).view(self.raw.dtype).reshape(self.box)
        self.raw[target] = box[inside]

    def _clip(self, row: int, col: int) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
        """Slices of the box and of the tensor where the box at ``row, col`` lies in bounds."""
        box, tensor = [], []
        for at, extent, size in zip((row, col), self.box, self.raw.shape, strict=True):
            low, high = max(at, 0), min(at + extent, size)
            high = max(low, high)
            box.append(slice(low - at, high - at))
            tensor.append(slice(low, high))
        return (box[0], box[1]), (tensor[0], tensor[1])

    def chunks(self, address: int) -> Array:
        """``box_chunks`` of this map's box at a shared address."""
        return box_chunks(address, self.rows, self.line, self.map.swizzle)
