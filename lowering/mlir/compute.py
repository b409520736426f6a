"""Rules for fragments: constants, conversions, parts of them, and pointwise operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.kernel.nodes import (
    Frag,
    FragCast,
    FragColumns,
    FragFill,
    FragPointwise,
    FragRows,
    FragUpdate,
    Stmt,
)
from lowering.kernel.pointwise import OPS
from lowering.mlir.elements import WIDENED, as_f32, condition, pack, pack_four, widened
from lowering.mlir.emitter import Emitter, Rule, Word
from lowering.mlir.pointwise import applied
from lowering.mlir.registers import element_index
from lowering.mlir.ssa import Value
from lowering.mlir.wgmma import pinned

__all__ = ["RULES"]

_Place = tuple[int, int, int, int]
"""Block, group, row and column of an element that the executing thread holds."""


def _fill(e: Emitter, s: FragFill) -> None:
    kind = s.out.type
    if kind.dtype is DType.S32:
        value = e.out.constant(int(s.value))
    elif kind.dtype is DType.F32:
        value = e.out.number(s.value)
    else:
        number = e.out.number(s.value)
        value = pack(e, kind.dtype, number, number)
    block = (Word(value),) * kind.block_registers
    registers = (block,) * kind.blocks
    sums = any(kind.dtype in form.accumulators for form in e.kernel.target.mma.forms)
    # Keeps the fill ahead of the wgmma.fence that orders it before the first wgmma.
    e.keep(s.out, pinned(e, registers) if sums else registers)


def _columns(e: Emitter, s: FragColumns) -> None:
    """No operation: some of the registers."""
    kind, whole = s.out.type, s.value.type
    start = e.number(s.start, f"column of {s.value.name}")
    if start % kind.layout.columns or start + kind.cols > whole.cols:
        raise InternalError("emit_mlir", f"columns {start} of {whole} as {kind}")
    first = start // kind.layout.columns * kind.group_registers
    count = kind.block_registers
    e.keep(s.out, tuple(block[first : first + count] for block in e.registers(s.value)))


def _rows(e: Emitter, s: FragRows) -> None:
    """No operation: some of the blocks."""
    kind, whole = s.out.type, s.value.type
    start = e.number(s.start, f"row of {s.value.name}")
    if start % kind.layout.rows or start + kind.rows > whole.rows:
        raise InternalError("emit_mlir", f"rows {start} of {whole} as {kind}")
    first = start // kind.layout.rows
    e.keep(s.out, e.registers(s.value)[first : first + kind.blocks])


def _cast(e: Emitter, s: FragCast) -> None:
    source, result = s.value.type, s.out.type
    if source.dtype is result.dtype:
        e.keep(s.out, e.registers(s.value))
        return

    if WIDENED.get(source.dtype) is result.dtype and not s.exponent:
        blocks = (e.words(block) for block in e.registers(s.value))
        e.keep(s.out, tuple(
            tuple(Word(widened(e, source.dtype, w, half)) for w in block for half in (0, 1))
            for block in blocks
        ))  # fmt: skip
        return

    def made(at: _Place) -> Value:
        value = as_f32(e, source.dtype, *e.element(s.value, *at))
        return applied(e, "mul", [value, 2.0**s.exponent]) if s.exponent else value

    _each(e, s.out, made)


def _each(e: Emitter, out: Frag, made: Callable[[_Place], Value]) -> None:
    """Registers of elements that ``made`` gives."""
    kind = out.type
    blocks = []
    for block in range(kind.blocks):
        registers: dict[int, list[Value]] = {}
        for group, row, col in product(range(kind.groups), *map(range, kind.group)):
            index, _ = element_index(kind, group, row, col)
            registers.setdefault(index, []).append(made((block, group, row, col)))
        blocks.append(tuple(Word(_register(e, kind.dtype, v)) for v in registers.values()))
    e.keep(out, tuple(blocks))


def _register(e: Emitter, dtype: DType, values: list[Value]) -> Value:
    """A register of its elements; a single short one has the lower half."""
    if dtype in (DType.F32, DType.PRED):
        return values[0]
    if len(values) == 4:
        return pack_four(e, dtype, *values)
    low, high = values if len(values) == 2 else (values[0], e.out.number(0.0))
    return pack(e, dtype, low, high)


def _pointwise(e: Emitter, s: FragPointwise) -> None:
    conditions = OPS[s.op].conditions

    def argument(index: int, at: _Place) -> Value | float:
        value = s.args[index]
        if not isinstance(value, Frag):
            return e.out.truth(value != 0) if index < conditions else value
        register, part = e.element(value, *at)
        if index < conditions:
            return condition(e, value.type.dtype, register)
        return as_f32(e, value.type.dtype, register, part)

    def made(at: _Place) -> Value:
        return applied(e, s.op, [argument(i, at) for i in range(len(s.args))])

    _each(e, s.out, made)


def _update(e: Emitter, s: FragUpdate) -> None:
    """The same of a value that nobody reads any more, or of a part of it, beside which it stays."""
    kind, whole = s.part, e.registers(s.acc)
    if kind == s.out.type:
        _pointwise(e, FragPointwise(s.out, s.op, (s.acc, *s.args)))
        return
    first, size = s.row // kind.layout.rows, kind.groups * kind.group_registers
    begin = s.col // kind.layout.columns * kind.group_registers
    mine, made = (Frag(f"{x.name}.part", kind) for x in (s.acc, s.out))
    parts = whole[first : first + kind.blocks]
    e.keep(mine, tuple(block[begin : begin + size] for block in parts))
    _pointwise(e, FragPointwise(made, s.op, (mine, *s.args)))
    new = zip(parts, e.registers(made), strict=True)
    changed = tuple((*old[:begin], *part, *old[begin + size :]) for old, part in new)
    e.keep(s.out, (*whole[:first], *changed, *whole[first + kind.blocks :]))


RULES: Mapping[type[Stmt], Rule] = {
    FragFill: _fill, FragCast: _cast, FragColumns: _columns, FragRows: _rows,
    FragPointwise: _pointwise, FragUpdate: _update,
}  # fmt: skip
