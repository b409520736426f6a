"""Rules for copies that threads make: ``cp.async``, and tiles through registers.

``cp.async``: a thread's rows are those that it has of a fragment; the four threads of a row copy 16
bytes each side by side, 64 bytes a step. ``copy.tile``: neighbouring threads copy neighbouring
pieces of a row; up to ``_TOGETHER`` bytes of a thread are loaded before the first are stored, which
hides their latency.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from lowering.ground.errors import InternalError
from lowering.ground.expr import TRUE, ZERO, Expr, Special, minimum, select
from lowering.ground.layouts import BLOCK_ROWS, RegisterLayout
from lowering.ground.types import FragmentType
from lowering.kernel.copy_tile import CopyTile, Pieces, pieces_of
from lowering.kernel.cp_async import CP_ASYNC_BYTES, CP_ASYNC_LINE
from lowering.kernel.kernel import SharedBuffer
from lowering.kernel.nodes import CpAsync, Frag, FragLoadGlobal, Stmt
from lowering.kernel.places import placed
from lowering.mlir.emitter import Emitter, Rule
from lowering.mlir.global_memory import Elements, outer_dimensions, strides_of
from lowering.mlir.movement import frame, mask_of
from lowering.mlir.ssa import I32, Value

__all__ = ["RULES"]

_LANE, _WARP = Special("lane"), Special("warpgroup.warp")

_TOGETHER = 128
"""Bytes of registers that hold what a thread has loaded and not stored yet."""


def _cp_async(e: Emitter, s: CpAsync) -> None:
    buffer = placed(e.kernel, s.dst.buffer)
    size = buffer.dtype.bytes
    span = buffer.box_cols * size
    if e.box_column(s.dst)[1] != ZERO or span % CP_ASYNC_LINE:
        raise InternalError("emit_mlir", f"{s.OP} to {s.dst.buffer} starts within a box")
    layout = RegisterLayout(CP_ASYNC_BYTES // size)
    tile = Frag("", FragmentType(buffer.dtype, s.rows, s.cols, layout=layout))
    elements = Elements(e, FragLoadGlobal(tile, s.src, s.limit, s.index), tile, s.src)
    line, byte = frame(e, s.dst, _WARP * 16 + _LANE // 4, _LANE % 4 * CP_ASYNC_BYTES)
    per_box = span // CP_ASYNC_LINE
    steps = range(s.cols * size // CP_ASYNC_LINE)
    for block, row, step in product(range(s.rows // BLOCK_ROWS), range(2), steps):
        place = elements.place(block, step, row, 0)
        at, inside = elements.access(place)
        left = minimum((elements.g.cols - place.col) * size, CP_ASYNC_BYTES)
        count = e.expr(select(e.bound(inside, f"inside.{inside.name}"), left, 0))
        box, within = divmod(step, per_box)
        below = (BLOCK_ROWS * block + 8 * row) * span + box * buffer.lines * span
        where = e.expr(line + below + (byte ^ within * CP_ASYNC_LINE))
        # What is not read of the 16 bytes becomes zero.
        e.asm(f"cp.async.cg.shared.global [$0], [$1], {CP_ASYNC_BYTES}, $2;", [where, at, count])


def _copy_tile(e: Emitter, s: CopyTile) -> None:
    buffer = placed(e.kernel, s.dst.buffer)
    p = pieces_of(s, e.kernel.global_tensor(s.src.map), buffer)
    if e.box_column(s.dst)[1] != ZERO:
        raise InternalError("emit_mlir", f"{s.OP} to {s.dst.buffer} starts within a box")
    most = min(p.turns, _TOGETHER // max(p.bytes, 4))
    for box in range(p.boxes):
        for first in range(0, p.turns, most):
            turns = range(first, min(first + most, p.turns))
            held = [_loaded(e, s, p, box, turn) for turn in turns]
            for turn, words in zip(turns, held, strict=True):
                _stored(e, s, p, buffer, (box, turn), words)


def _thread(p: Pieces) -> tuple[Expr, Expr]:
    """Row and piece of a row that the executing thread has first."""
    thread = _WARP * 32 + _LANE
    return thread // p.across, thread % p.across


def _form(size: int, first: int) -> tuple[int, str, str]:
    """Registers of a piece, its type in PTX, and its operand, numbered from ``first`` on."""
    count = max(size // 4, 1)
    names = [f"${first + i}" for i in range(count)]
    if count == 1:
        return 1, f"u{8 * size}", names[0]
    return count, f"v{count}.u32", f"{{{', '.join(names)}}}"


def _loaded(e: Emitter, s: CopyTile, p: Pieces, box: int, turn: int) -> list[Value]:
    """A piece from global memory, zero out of bounds."""
    g, (down, right) = e.kernel.global_tensor(s.src.map), _thread(p)
    buffer = placed(e.kernel, s.dst.buffer)
    own = down + turn * p.rows_at_once
    row = s.src.row + own
    col = s.src.col + right * p.elements + box * buffer.box_cols
    inside: Expr = TRUE.logical_and(row < g.rows).logical_and(col < g.cols)
    if p.rows % p.rows_at_once:
        inside = inside.logical_and(own < p.rows)
    outer, tests = outer_dimensions(s.src, g)
    for test in tests:
        inside = inside.logical_and(test)
    where = e.expr(outer + row * strides_of(g)[-1] + col)
    at_ = e.behind(e.scalars[f"%global.{g.name}"], where, f"i{8 * g.dtype.bytes}")
    count, kind, operand = _form(p.bytes, 0)
    zeros = "".join(f"mov.b32 ${i}, 0; " for i in range(count))
    load = f"{zeros}@${count + 1} ld.global.{kind} {operand}, [${count}];"
    inputs = [at_, e.expr(inside)]
    return e.words(e.asm(load, inputs, [I32] * count, early=True, memory=False))


def _stored(
    e: Emitter,
    s: CopyTile,
    p: Pieces,
    buffer: SharedBuffer,
    at: tuple[int, int],
    words: list[Value],
) -> None:
    """A piece to shared memory, where the tile has the row."""
    (box, turn), (down, right) = at, _thread(p)
    span = buffer.box_cols * buffer.dtype.bytes
    own = down + turn * p.rows_at_once
    line = e.line_address(s.dst) + own * span + right * p.bytes + box * buffer.lines * span
    where = e.expr(line ^ mask_of(buffer, line))
    if p.rows % p.rows_at_once:
        _, kind, operand = _form(p.bytes, 2)
        mine = e.expr(own < p.rows)
        e.asm(f"@$1 st.shared.{kind} [$0], {operand};", [where, mine, *words])
        return
    _, kind, operand = _form(p.bytes, 1)
    e.asm(f"st.shared.{kind} [$0], {operand};", [where, *words])


RULES: Mapping[type[Stmt], Rule] = {CpAsync: _cp_async, CopyTile: _copy_tile}
