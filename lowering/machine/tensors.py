"""Tensors in global memory behind tensor maps, and the boxes that TMA moves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np

from lowering.ground.errors import UnsupportedError
from lowering.ground.types import Swizzle
from lowering.kernel.kernel import TensorMap
from lowering.kernel.tensors import Ragged
from lowering.machine.errors import FaultError
from lowering.machine.fragment import Array, rounded_to_tf32
from lowering.machine.memory import swizzled
from lowering.target.ptx import TMA_BOX_MAX, TMA_STRIDE_ALIGN, TMA_WRITES

__all__ = ["MappedArray", "box_chunks"]

TMA_SHARED_ALIGN = 128
"""Alignment of a box in shared memory in bytes (PTX ISA, cp.async.bulk.tensor)."""


@lru_cache(maxsize=1024)
def box_chunks(address: int, lines: int, line: int, swizzle: Swizzle) -> Array:
    """Where the 16-byte chunks of a box go: ``[lines, line / 16]`` addresses / 16.

    Args:
        address: absolute shared address of the box.
        lines: lines of the box.
        line: bytes of one of them; they lie one after the other before swizzling.
        swizzle: by absolute address bits, so a box that is not aligned to it lands permuted.
    """
    if address % TMA_SHARED_ALIGN:
        raise FaultError(
            f"a box at shared address {address} is not aligned to {TMA_SHARED_ALIGN} bytes"
        )
    linear = address + np.arange(0, lines * line, 16).reshape(lines, line // 16)
    chunks: Array = swizzled(linear, swizzle) >> 4
    chunks.setflags(write=False)
    return chunks


class MappedArray:
    """The array behind a tensor map.

    Args:
        map: the tensor map.
        array: elements of the map's type or their raw bits; written in place by stores.
        sizes: the extents that the map gives to the array, of a ragged one without the first.

    Raises:
        UnsupportedError: the array is none that TMA can address as the map says.
    """

    def __init__(self, map: TensorMap, array: Array, sizes: Sequence[int]) -> None:
        self.packed, map = map.dtype.packed, map.in_bytes
        self.map, sizes = map, (*sizes[:-1], sizes[-1] // self.packed)
        if self.packed > 1:
            array = array.view(map.dtype.raw)
        legal = (map.dtype.numpy, map.dtype.raw)
        if array.ndim != len(map.behind) or array.dtype.name not in legal:
            found = f"tensor {map.name} of {array.dtype.name} and {array.ndim} dimensions"
            raise UnsupportedError(found, f"{len(map.behind)}-D arrays of {' or '.join(legal)}")
        if array.shape != tuple(sizes):
            found = f"tensor {map.name} of shape {_by(array.shape)}"
            raise UnsupportedError(found, f"{_by(sizes)}, as the parameters say")
        size = map.dtype.bytes
        outer = [n if extent > 1 else 0 for n, extent in zip(array.strides, sizes, strict=True)]
        col_stride = outer.pop() or size
        if array.size and (col_stride != size or any(n % TMA_STRIDE_ALIGN for n in outer)):
            strides = f"{', '.join(str(n) for n in outer)} and {col_stride}"
            found = f"tensor {map.name} with strides of {strides} bytes"
            raise UnsupportedError(found, f"rows a multiple of {TMA_STRIDE_ALIGN} bytes apart")
        self.raw: Array = array.view(map.dtype.raw)
        self._check_extents()
        self.box = map.box_of((0, *sizes) if map.ragged else sizes)
        self.lines, self.line = prod(self.box[:-1]), self.box[-1] * size
        self._check_line()

    def _check_extents(self) -> None:
        box, rank = self.map.box, self.map.rank
        if len(box) != rank or not all(0 < extent <= TMA_BOX_MAX for extent in box):
            found = f"a box of {_by(box)} for tensor map {self.map.name}"
            raise UnsupportedError(found, f"1 to {TMA_BOX_MAX} elements in each dimension")

    def _check_line(self) -> None:
        name, span = self.map.name, self.map.swizzle.value
        if self.line % 16 or (span and self.line != span):
            found = f"a box line of {self.line} bytes for tensor map {name}"
            raise UnsupportedError(found, f"{span} bytes" if span else "multiples of 16 bytes")

    @property
    def box_bytes(self) -> int:
        """Bytes of a whole box."""
        return self.lines * self.line

    def load(self, at: Sequence[int]) -> Array:
        """The box at ``at`` as chunks ``[lines, line / 16, 2]``; zero out of bounds, and rounded
        where TMA rounds elements of the map's type.

        Raises FaultError for a ragged map: its address may lie in front of mapped memory, which TMA
        takes of maps that it stores through only.
        """
        if self.map.ragged is Ragged.END:
            raise FaultError(f"a load through {self.map.name}, which begins in front of its tensor")
        box = np.zeros(self.box, self.raw.dtype)
        inside, source = self._clip(at)
        found = self.raw[source]
        box[inside] = rounded_to_tf32(found) if self.map.dtype.rounded_by_tma else found
        return box.view(np.uint64).reshape(self.lines, self.line // 16, 2)

    def store(self, at: Sequence[int], chunks: Array) -> None:
        """Write chunks ``[lines, line / 16, 2]`` at ``at``; what is out of bounds is dropped, but
        for the zeros that end a clipped line.
        """
        inside, target = self._clip(at)
        box = np.ascontiguousarray(chunks).view(self.raw.dtype).reshape(self.box)
        self.raw[target] = box[inside]
        if self.raw.ndim > 1 and inside[-1].stop < self.box[-1]:
            self._end_lines(target)

    def _end_lines(self, target: tuple[slice, ...]) -> None:
        """Zeros behind rows that are no multiple of :data:`TMA_WRITES`. Not behind a matrix's last
        one: whose memory that is nobody says here.
        """
        rows, cols = self.raw.shape[-2:]
        behind = -cols % (TMA_WRITES // self.raw.itemsize)
        whole = self.raw.strides[-2] >= (cols + behind) * self.raw.itemsize
        run = slice(target[-2].start, min(target[-2].stop, rows - 1))
        if behind and whole and run.start < run.stop:
            last = self.raw[(*target[:-2], run, slice(cols - 1, None))]
            shape = *last.shape[:-1], 1 + behind
            np.lib.stride_tricks.as_strided(last, shape, last.strides)[..., 1:] = 0

    def _clip(self, at: Sequence[int]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """Slices of the box and of the tensor where the box at ``at`` lies in bounds.

        Raises FaultError for a box whose lines do not begin at 16 bytes: an illegal instruction.
        """
        at = (*at[:-1], at[-1] // self.packed)
        unit = TMA_STRIDE_ALIGN // self.map.dtype.bytes
        if at[-1] % unit:
            name = self.map.name
            raise FaultError(f"column {at[-1]} of {name} is no multiple of {unit}, 16 bytes")
        if self.map.ragged:
            return self._clip_ragged(at)
        box, tensor = [], []
        for first, extent, size in zip(at, self.box, self.raw.shape, strict=True):
            inside, run = _overlap(first, extent, size)
            box.append(inside)
            tensor.append(run)
        return tuple(box), tuple(tensor)

    def _clip_ragged(self, at: Sequence[int]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """The same of a ragged map, whose rows end in front of row ``where`` of the tensor, or
        begin there.

        Raises FaultError for rows in front of the tensor or behind it: nothing keeps TMA from them.
        """
        (where, row, col), (rows, cols), (_, high, wide) = at, self.raw.shape, self.box
        inside, run = _overlap(row, high, rows if 0 <= where <= rows else 0)
        across, columns = _overlap(col, wide, cols)
        front = where - rows if self.map.ragged is Ragged.END else where
        if run.start == run.stop:
            return (slice(1), inside, across), (slice(0), columns)
        if (first := run.start + front) < 0:
            raise FaultError(f"row {first} of {self.map.name} lies in front of it")
        if (stop := run.stop + front) > rows:
            raise FaultError(f"row {stop - 1} of {self.map.name} lies behind it")
        return (slice(1), inside, across), (slice(first, stop), columns)

    def chunks(self, address: int) -> Array:
        """``box_chunks`` of this map's box at a shared address."""
        return box_chunks(address, self.lines, self.line, self.map.swizzle)


def _overlap(first: int, extent: int, size: int) -> tuple[slice, slice]:
    """Where ``extent`` elements from ``first`` on lie in bounds: among themselves, and there."""
    low, high = max(first, 0), min(first + extent, size)
    high = max(low, high)
    return slice(low - first, high - first), slice(low, high)


def _by(extents: Sequence[int]) -> str:
    return "x".join(str(n) for n in extents)
