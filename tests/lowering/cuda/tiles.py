"""A kernel of one ``copy.tile``: IR text."""

from __future__ import annotations

from tests.lowering.cuda.rings import copy_text

__all__ = ["tile_text"]


def tile_text(dtype: str, size: int, cols: int, span: int, at: int, align: int, rows: int) -> str:
    """D[128:, :cols] = X[1, 64:64 + rows, at:], zero where X ends; below ``rows`` nothing is
    copied. ``span`` bytes of swizzle, pieces of ``align`` bytes.
    """
    text = copy_text(dtype, size, cols, span, at).replace("align 16", f"align {align}")
    old = f"cp.async S[1, 0, 0], X[1, 64, {at}], 128, {cols}\n  cp.async.mbarrier.arrive.noinc full"
    assert old in text
    new = f"copy.tile S[1, 0, 0], X[1, 64, {at}], {rows}, {cols}\n  fence.proxy.async\n"
    return text.replace(old, new + "  mbarrier.arrive full")
