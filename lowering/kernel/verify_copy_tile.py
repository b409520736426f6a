"""Which tiles ``copy.tile`` copies, and what every copy by threads asks. Part of ``verify``."""

from __future__ import annotations

from collections.abc import Iterator

from lowering.kernel.kernel import GlobalTensor, Kernel, SharedBuffer
from lowering.kernel.nodes import CopyTile, CpAsync
from lowering.kernel.rules import about

__all__ = ["RULES", "copied_rules"]


def _tile(kernel: Kernel, stmt: CopyTile) -> Iterator[str]:
    if stmt.rows < 1 or stmt.cols < 1:
        yield f"{stmt.OP} of a tile of {stmt.rows}x{stmt.cols}"
    yield from copied_rules(kernel, stmt)


def copied_rules(kernel: Kernel, stmt: CopyTile | CpAsync) -> Iterator[str]:
    """Rules of a tile that threads copy from a plain tensor into a shared buffer."""
    g = kernel.find(GlobalTensor, stmt.src.map)
    b = kernel.find(SharedBuffer, stmt.dst.buffer)
    if g is not None and g.rank < 2:
        yield f"{stmt.OP} of {g.name}, which has one dimension"
    if b is None:
        return
    if g is not None and g.dtype is not b.dtype:
        yield f"{g.name} holds {g.dtype.value}, {b.name} {b.dtype.value}"
    if stmt.rows > b.rows or stmt.cols > b.cols:
        tile = f"{stmt.rows}x{stmt.cols}"
        yield f"a tile of {tile} does not fit into {b.name} of {b.rows}x{b.cols}"


RULES = (about(_tile, CopyTile),)
"""Of ``copy.tile``."""
