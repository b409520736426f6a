"""Declarations of what references point into: tensors in global memory, buffers in shared memory.

Dimensions are written outermost first and numbered so; the last one is contiguous. The last two
are the *rows* and *columns* of matrices, those in front (a batch, a group) count the matrices. What
has one dimension is a matrix of one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import ClassVar, TypeVar

from lowering.ground.dtypes import DType
from lowering.ground.expr import ONE, Const, Expr, Var, minimum, substitute
from lowering.ground.frozen import quick, replaced
from lowering.ground.types import Swizzle
from lowering.kernel.traits import PLACED, Filled
from lowering.target.ptx import SWIZZLE_ATOM

__all__ = [
    "ENTRY", "PROMOTIONS", "Declared", "GlobalTensor", "Ragged", "SharedBuffer", "TensorMap",
]  # fmt: skip

PROMOTIONS = (0, 64, 128, 256)
"""Bytes that a tensor map may make the L2 fetch at once (PTX ISA, CUtensorMapL2promotion)."""

WIDEST_PROMOTION = PROMOTIONS[-1]

ENTRY = Var("entry")
"""In the sizes of an array of tensor maps: which of them."""

WIDEST_ACCESS = 16
"""Bytes that a thread loads or stores at once at most (PTX ISA, ld.global.v4.b32)."""

Index = TypeVar("Index", int, Expr)


class Declared:
    """A declaration of a kernel; ``FILLED`` are the fields that passes fill."""

    __slots__ = ()
    FILLED: ClassVar[Filled] = ()


class _InMemory(Declared):
    """A declaration whose ``sizes`` are those of a tensor in global memory, outermost first."""

    __slots__ = ()
    sizes: tuple[Expr, ...]

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.sizes)

    @property
    def rows(self) -> Expr:
        """Rows of each matrix."""
        return self.sizes[-2] if self.rank > 1 else ONE

    @property
    def cols(self) -> Expr:
        """Columns of each matrix."""
        return self.sizes[-1]


class Ragged(Enum):
    """Which runs of a matrix's rows a tensor map makes matrices of their own; see ``TensorMap``."""

    NONE = ""
    END = "ragged"
    BEGIN = "ragged begin"

    def __bool__(self) -> bool:
        return self is not Ragged.NONE


@quick
@dataclass(frozen=True, slots=True)
class TensorMap(_InMemory):
    """A TMA descriptor over a tensor of 1 to 5 dimensions, a ``__grid_constant__`` parameter; or
    ``count`` of them, whose sizes may differ by ``entry``. In ``device`` memory they are a pointer
    parameter, may change while the kernel runs (see ``lowering.kernel.tensormap``), and ``sizes``
    are those that they have when it starts.

    ``sizes`` are extents in elements (run-time parameters); the strides of all dimensions but the
    last are properties of the argument, not of the kernel. ``box`` is what one copy moves, an
    extent for each dimension; ``()`` until ``swizzle_shared``. In shared memory a box is a list of
    *lines* of its last dimension, in the order of memory, whatever dimensions they come from.

    A ``clipped`` map's box, of one matrix, has no more rows than the tensor of a launch, so what
    lies behind them in shared memory stays as it was, in place of zero.

    A ``ragged`` map of ``[rows + 1, rows, cols]`` is of a matrix of ``rows`` rows of which each run
    is a matrix of its own. By its ``END``: ``[end, row, col]`` is element ``[end - rows + row,
    col]``, so what ends in front of row ``end`` of the tensor ends where the map's rows do, and no
    box reaches beyond. It is stored through only: its address lies in front of the tensor, where a
    load may fault. By its ``BEGIN``: ``[begin, row, col]`` is element ``[begin + row, col]``, so
    that rows in front of the run have negative coordinates and are loaded as zeros. Its address is
    the tensor's; who loads through it asks for no row behind the tensor.

    ``promotion`` is how many bytes the L2 fetches from memory at least where a copy misses it: 64,
    128 or 256 aligned ones, 0 for the sectors that it asks for.

    The grid in front does not write what is behind an ``early`` map: a kernel that is launched
    dependently loads through it before that grid has ended.
    """

    name: str
    dtype: DType
    sizes: tuple[Expr, ...]
    box: tuple[int, ...] = ()
    swizzle: Swizzle = Swizzle.NONE
    clipped: bool = False
    count: Expr | None = None
    device: bool = False
    promotion: int = WIDEST_PROMOTION
    ragged: Ragged = Ragged.NONE
    early: bool = False

    @property
    def behind(self) -> tuple[Expr, ...]:
        """The sizes of the tensor behind it."""
        return self.sizes[1:] if self.ragged else self.sizes

    def arguments(self, count: int) -> Iterator[tuple[str, tuple[Expr, ...]]]:
        """What the tensor behind each of ``count`` descriptors is called, and its sizes."""
        if self.count is None:
            yield self.name, self.behind
            return
        for i in range(count):
            sizes = (substitute(size, {ENTRY: Const(i)}) for size in self.sizes)
            yield f"{self.name}[{i}]", tuple(sizes)

    @property
    def box_lines(self) -> Expr:
        """Lines of the box at run time; 0 for an empty clipped one, of which nothing is copied."""
        if self.clipped:
            return minimum(self.rows, self.box[-2])
        return Const(prod(self.box[:-1]))

    @property
    def in_bytes(self) -> TensorMap:
        """The same of whole bytes, as TMA has it; itself where elements have bytes of their own."""
        packed = self.dtype.packed
        if packed == 1:
            return self
        sizes = (*self.sizes[:-1], self.cols // packed)
        box = (*self.box[:-1], *(n // packed for n in self.box[-1:]))
        return replaced(self, dtype=DType.U8, sizes=sizes, box=box)

    def boxed(self, rows: int, cols: int, swizzle: Swizzle) -> TensorMap:
        """The map with boxes of ``rows x cols`` elements of one matrix."""
        box = (*(1 for _ in self.sizes[:-2]), rows, cols)[-self.rank :]
        return replaced(self, box=box, swizzle=swizzle)

    def box_of(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The box in a launch whose tensor has these extents: at least one row, as TMA wants."""
        if not self.clipped:
            return self.box
        return *self.box[:-2], min(self.box[-2], max(sizes[-2], 1)), self.box[-1]


@dataclass(frozen=True, slots=True)
class GlobalTensor(_InMemory):
    """A tensor that threads access themselves: a pointer parameter.

    A size of 1 repeats it along that dimension. Each dimension but the last has a stride in
    elements, a run-time parameter of its own (i64), see :attr:`strides`; 0 repeats it, too.

    ``align`` is a promise of the launch, a power of two in bytes: the address, the strides and the
    bytes of a row are multiples of it. A thread loads or stores as many columns at once as this and
    its layout allow.

    ``count`` of them are an array, each with an address and strides of its own, whose sizes may
    differ by ``entry``.
    """

    name: str
    dtype: DType
    sizes: tuple[Expr, ...]
    align: int = 1
    count: int | None = None

    @property
    def entries(self) -> tuple[GlobalTensor, ...]:
        """Each tensor of an array, ``T[0]`` first; a tensor alone itself."""
        if self.count is None:
            return (self,)
        return tuple(
            GlobalTensor(
                f"{self.name}[{i}]",
                self.dtype,
                tuple(substitute(size, {ENTRY: Const(i)}) for size in self.sizes),
                self.align,
            )
            for i in range(self.count)
        )

    @property
    def strides(self) -> tuple[str, ...]:
        """Names of the strides' parameters: ``<name>_stride`` from row to row, last, and in front
        of it ``<name>_stride0``, ``<name>_stride1`` ... of the dimensions with these numbers.
        """
        outer = (f"{self.name}_stride{d}" for d in range(self.rank - 2))
        return (*outer, f"{self.name}_stride")[: self.rank - 1]

    @property
    def pairs(self) -> bool:
        """Whether two neighbouring columns, from an even one on, can be accessed at once."""
        return self.align >= 2 * self.dtype.bytes

    def together(self, span: int) -> int:
        """Neighbouring columns, of ``span`` that a thread has, that it accesses at once: as many
        as are aligned, up to 16 bytes.
        """
        return max(min(span, min(self.align, WIDEST_ACCESS) // self.dtype.bytes), 1)


@quick
@dataclass(frozen=True, slots=True)
class SharedBuffer(Declared):
    """``stages`` tiles of ``shape`` in dynamic shared memory.

    A tile is stored as *boxes* of ``box_cols`` columns, one after the other; a box is stored line
    by line, the rows of one matrix behind those of the other, with its 16-byte chunks permuted by
    ``swizzle``. ``offset`` is in bytes from the 1024-byte aligned base, None until
    ``allocate_shared``. It may share bytes with the buffers that it lies ``over``, which nobody
    reads any more when it is written.
    """

    FILLED: ClassVar[Filled] = PLACED
    name: str
    dtype: DType
    stages: int
    shape: tuple[int, ...]
    swizzle: Swizzle = Swizzle.NONE
    offset: int | None = None
    over: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Rows of each matrix of a tile."""
        return self.shape[-2] if len(self.shape) > 1 else 1

    @property
    def cols(self) -> int:
        """Columns of a tile."""
        return self.shape[-1]

    @property
    def lines(self) -> int:
        """Lines of each box: the rows of all matrices of a tile."""
        return prod(self.shape[:-1])

    @property
    def box_cols(self) -> int:
        """Columns of one box: the swizzle span, or all of them without a swizzle."""
        return self.dtype.count(self.swizzle.value) or self.cols

    @property
    def align(self) -> int:
        """Bytes that its place is a multiple of: where the pattern of a swizzle begins, or, of
        tiles below 16 bytes, which threads take word by word, those of an element.
        """
        return SWIZZLE_ATOM if self.stage_bytes >= 16 else self.dtype.bytes

    @property
    def stage_bytes(self) -> int:
        """Bytes of one stage."""
        return self.dtype.size(self.lines * self.cols)

    @property
    def in_bytes(self) -> SharedBuffer:
        """The same of whole bytes; itself where elements have bytes of their own."""
        packed = self.dtype.packed
        if packed == 1:
            return self
        return replaced(self, dtype=DType.U8, shape=(*self.shape[:-1], self.cols // packed))

    def line(self, coords: Sequence[Index]) -> Index:
        """Line of an element in its box; ``coords`` are numbers or expressions, the column last."""
        found, *inner = coords[:-1] or (coords[-1] * 0,)
        for extent, at in zip(self.shape[1:], inner, strict=False):
            found = found * extent + at
        return found

    def byte(self, stage: int, *coords: int) -> int:
        """Byte offset of an element from the start of the buffer, after swizzling."""
        box, inner = divmod(coords[-1], self.box_cols)
        width = self.dtype.size(self.box_cols)
        linear = stage * self.stage_bytes + (box * self.lines + self.line(coords)) * width
        return self.swizzle.apply(linear + self.dtype.size(inner))
