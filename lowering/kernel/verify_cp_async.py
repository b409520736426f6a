"""Which tiles ``cp.async`` copies. Part of ``verify``."""

from __future__ import annotations

from collections.abc import Iterator

from lowering.ground.dtypes import DType
from lowering.ground.types import FragmentType
from lowering.kernel.cp_async import CP_ASYNC_BYTES, CP_ASYNC_LINE
from lowering.kernel.kernel import GlobalTensor, Kernel, SharedBuffer
from lowering.kernel.nodes import CpAsync
from lowering.kernel.rules import about
from lowering.kernel.verify_copy_tile import copied_rules

__all__ = ["RULES"]


def _copied(kernel: Kernel, stmt: CpAsync) -> Iterator[str]:
    if stmt.rows < 1 or stmt.rows % 64:
        yield f"{stmt.OP} copies whole groups of 64 rows, not {stmt.rows}"
    wanted = FragmentType(DType.S32, stmt.rows, 1)
    if stmt.index is not None and stmt.index.type != wanted:
        yield f"{stmt.index.name} is {stmt.index.type}, an index of {stmt.rows} rows is {wanted}"
    g = kernel.find(GlobalTensor, stmt.src.map)
    b = kernel.find(SharedBuffer, stmt.dst.buffer)
    if g is not None and g.align % CP_ASYNC_BYTES:
        yield f"{g.name} is aligned to {g.align} bytes, {stmt.OP} takes {CP_ASYNC_BYTES}"
    yield from copied_rules(kernel, stmt)
    if b is None:
        return
    tile = f"{stmt.OP} of {stmt.rows}x{stmt.cols}"
    for what, cols in ((tile, stmt.cols), (b.name, b.box_cols)):
        line = cols * b.dtype.bytes
        if line < 1 or line % CP_ASYNC_LINE:
            yield f"{what} has lines of {line} bytes, not whole {CP_ASYNC_LINE}"


RULES = (about(_copied, CpAsync),)
"""Of ``cp.async``."""
