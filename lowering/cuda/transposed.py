"""``stmatrix`` with ``trans``: a fragment's columns become lines of a shared tile."""

from __future__ import annotations

from lowering.cuda.emitter import Emitter
from lowering.ground.errors import InternalError
from lowering.ground.expr import Const
from lowering.ground.layouts import BLOCK_ROWS
from lowering.kernel.nodes import StMatrix

__all__ = ["store_transposed"]

_STEP = 16
"""Columns of the value that four matrices of 8x8 take."""


def store_transposed(e: Emitter, s: StMatrix) -> None:
    """A line of the tile is a column of the value; the 64 rows of a block are one box of it.

    Matrices of an x4: rows 0-7, rows 8-15, then the same rows 8 columns on. Transposed, the second
    lies to the right of the first and the third below it; lane l gives the address of line l % 8 of
    matrix l / 8. Two neighbouring columns of the value, 16 bits each, share a register, so what is
    transposed has 16 bits.
    """
    buffer, kind = e.buffer(s.dst.buffer), s.value.type
    starts_box = isinstance(s.dst.col, Const) and s.dst.col.value % BLOCK_ROWS == 0
    if buffer.dtype is not kind.dtype or kind.dtype.bits != 16 or buffer.box_cols != BLOCK_ROWS:
        tile = f"{buffer.dtype.value} in boxes of {buffer.box_cols} columns"
        raise InternalError("emit_cuda", f"{s.OP} of {kind}, transposed, to {tile}")
    if kind.layout.below != 1:
        raise InternalError("emit_cuda", f"{s.OP} of {kind}, transposed")
    if not starts_box:
        raise InternalError("emit_cuda", f"{s.OP}: {kind} straddles boxes of {buffer.name}")
    span = buffer.box_cols * buffer.dtype.bytes
    lane, warp = e.special("lane"), e.special("warpgroup.warp")
    four = kind.groups % 2 == 0
    count, cols = (4, _STEP) if four else (2, _STEP // 2)
    name = f"stmatrix_x{count}_trans"
    e.functions[name] = _function(name, count)
    with e.out.block(""):
        line, byte = e.names.fresh("line"), e.names.fresh("byte")
        below = f" + ({lane} >> 4) * 8" if four else ""
        row = f"(({lane} & 7){below})"
        e.out.line(f"const unsigned {line} = {e.line_address(s.dst)} + {row} * {span};")
        flipped = e.swizzled(buffer, line)
        mask = f" ^ ({flipped})" if flipped else ""
        right = f"({warp} * 32 + (({lane} >> 3) & 1) * 16)"
        e.out.line(f"const unsigned {byte} = {right}{mask};")
        for block in range(kind.blocks):
            box = f" + {block * buffer.lines * span}" if block else ""
            e.out.line("#pragma unroll")
            with e.out.block(f"for (int r = 0; r < {kind.cols // cols}; ++r)"):
                tails = ["", *(f" + {i}" for i in range(1, count))]
                registers = [e.register(s.value, block, f"{count} * r{tail}") for tail in tails]
                e.out.call(name, f"{line} + {byte}{box} + r * {cols * span}", *registers)


def _function(name: str, count: int) -> str:
    arguments = ", ".join(f"unsigned r{i}" for i in range(count))
    words = ", ".join(f"%{i + 1}" for i in range(count))
    inputs = ", ".join(f'"r"(r{i})' for i in range(count))
    return f"""\
__device__ __forceinline__ void {name}(unsigned dst, {arguments}) {{
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x{count}.trans.shared.b16 [%0], {{{words}}};"
      ::"r"(dst), {inputs}
      : "memory");
}}"""
