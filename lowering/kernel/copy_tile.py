"""Copies by the threads of a warpgroup, through registers: rows that begin anywhere in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowering.ground.errors import InternalError
from lowering.kernel.operands import GmemRef, SmemRef, Stmt
from lowering.kernel.tensors import GlobalTensor, SharedBuffer
from lowering.kernel.traits import Memory, Threads, Traits
from lowering.target import ptx

__all__ = ["WIDEST_PIECE", "CopyTile", "Pieces", "pieces_of"]

WIDEST_PIECE = 16
"""Bytes that a thread moves with one instruction at most."""


@dataclass(frozen=True, slots=True)
class CopyTile(Stmt):
    """``ld.global`` and ``st.shared``: a tile of ``rows`` rows, all boxes of ``cols`` columns, by
    one warpgroup.

    Elements out of bounds become zero. Of a box that the last columns fill in part all columns are
    written, as TMA does. Writes through the generic proxy: whoever gives the tile to wgmma or TMA
    executes ``fence.proxy.async`` in between. Pieces are as wide as the tensor's ``align`` allows;
    ``src.col`` is a multiple of one, ``dst.col`` the first column of a box. No thread of the kernel
    writes what is read.
    """

    OP: ClassVar[str] = "copy.tile"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.WARPGROUP,
        reads=Memory.GLOBAL,
        writes=Memory.SHARED,
        plain=True,
    )
    dst: SmemRef
    src: GmemRef
    rows: int
    cols: int


@dataclass(frozen=True, slots=True)
class Pieces:
    """How a warpgroup deals out a box among its threads: neighbours have neighbouring pieces.

    Thread t has pieces t, t + 128, ... of the box, counted row by row.

    Args:
        bytes: of a piece.
        elements: of a piece.
        across: pieces of a row of a box; a power of two, at most 128.
        boxes: of the tile.
        rows: of the tile.
    """

    bytes: int
    elements: int
    across: int
    boxes: int
    rows: int

    @property
    def rows_at_once(self) -> int:
        """Rows that the warpgroup moves with one piece for each thread."""
        return ptx.WARPGROUP // self.across

    @property
    def turns(self) -> int:
        """Pieces of a thread in each box; behind the last row there are none."""
        return -(-self.rows // self.rows_at_once)


def pieces_of(stmt: CopyTile, tensor: GlobalTensor, buffer: SharedBuffer) -> Pieces:
    """The pieces of a copy.

    Raises:
        InternalError: a row of a box is no number of pieces that divides 128.
    """
    size = tensor.dtype.bytes
    span = buffer.box_cols * size
    piece = max(size, min(tensor.align, WIDEST_PIECE))
    across, rest = divmod(span, piece)
    if rest or not across or ptx.WARPGROUP % across:
        why = f"{stmt.OP} of pieces of {piece} bytes into boxes of {span} bytes, {buffer.name}"
        raise InternalError("copy_tile", why)
    boxes = -(-stmt.cols // buffer.box_cols)
    return Pieces(piece, piece // size, across, boxes, stmt.rows)
