"""Which tiles ``copy.tile`` copies. Part of ``verify``."""

from __future__ import annotations

from collections.abc import Iterator

from lowering.kernel.copy_tile import CopyTile
from lowering.kernel.kernel import GlobalTensor, Kernel, SharedBuffer
from lowering.kernel.operands import Stmt

__all__ = ["copy_tile_rules"]


def copy_tile_rules(kernel: Kernel, stmt: Stmt) -> Iterator[str]:
    """Rules that one statement breaks."""
    if not isinstance(stmt, CopyTile):
        return
    tile = f"{stmt.rows}x{stmt.cols}"
    g = kernel.find(GlobalTensor, stmt.src.map)
    b = kernel.find(SharedBuffer, stmt.dst.buffer)
    if stmt.rows < 1 or stmt.cols < 1:
        yield f"{stmt.OP} of a tile of {tile}"
    if g is not None and g.rank < 2:
        yield f"{stmt.OP} of {g.name}, which has one dimension"
    if b is None:
        return
    if g is not None and g.dtype is not b.dtype:
        yield f"{g.name} holds {g.dtype.value}, {b.name} {b.dtype.value}"
    if stmt.rows > b.rows or stmt.cols > b.cols:
        yield f"a tile of {tile} does not fit into {b.name} of {b.rows}x{b.cols}"
