"""Rules for fragments from and to plain tensors in global memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from lowering.ground.dtypes import FLOATS_OF_8_BITS, DType
from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.expr import ONE, TRUE, ZERO, Expr, ScalarType, Special, Var, as_expr
from lowering.ground.types import FragmentType
from lowering.kernel.nodes import Frag, FragLoadGlobal, FragStoreGlobal, GmemRef, Stmt
from lowering.kernel.places import thread_col, thread_row
from lowering.kernel.tensors import GlobalTensor
from lowering.mlir.emitter import Emitter, Rule, Word, register_type
from lowering.mlir.registers import element_index
from lowering.mlir.ssa import I1, I8, I16, I32, Value

__all__ = ["RULES", "Elements", "outer_dimensions", "store_words", "strides_of"]

_ELEMENTS = {32: I32, 16: I16, 8: I8}
"""Type of an element in memory by its bits, where it is not fp32."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an element lies: elements from the tensor's first, its column, and whether that is in
    bounds.
    """

    offset: Expr
    col: Expr
    inside: Expr


def strides_of(tensor: GlobalTensor) -> list[Var]:
    """Elements from one index of each dimension to the next; 64 bits, so no product overflows."""
    return [Var(f"%{name}", ScalarType.I64) for name in tensor.strides]


def outer_dimensions(ref: GmemRef, tensor: GlobalTensor) -> tuple[Expr, list[Expr]]:
    """What a tile's coordinates in front of row and column add to the address, in elements, and the
    conditions that they are in bounds.
    """
    offset: Expr = ZERO
    tests = list[Expr]()
    for at, stride, size in zip(ref.coords[:-2], strides_of(tensor), tensor.sizes, strict=False):
        offset = offset + at * stride
        if at != ZERO or size != ONE:
            tests.append(at < size)
    return offset, tests


class Elements:
    """A thread's elements of a tile in a tensor, as the tile's layout deals them out.

    Rows from ``limit`` on count as out of bounds, columns from ``limit_cols`` on; with an ``index``
    the tile's rows are those that it says. With ``trans`` its columns are rows of the tensor.
    Of a row or column that several threads hold, the first one stores its elements, unless each of
    them has one of its own (``every``).
    """

    def __init__(
        self,
        e: Emitter,
        s: FragLoadGlobal | FragStoreGlobal,
        value: Frag,
        ref: GmemRef,
        every: bool = False,
    ) -> None:
        found = e.kernel.global_tensor(ref.map)
        if ref.entry is not None:
            raise UnsupportedError(f"{s.OP} of one of several tensors in MLIR", "a single tensor")
        if found.dtype.register is not value.type.dtype:
            raise InternalError("emit_mlir", f"{s.OP} of {value.type} and {found.dtype.value}")
        bits = found.dtype.bits
        stored = found.dtype in FLOATS_OF_8_BITS and isinstance(s, FragStoreGlobal)
        if found.dtype is not DType.BOOL and bits not in (16, 32) and not stored:
            raise UnsupportedError(f"{s.OP} of {found.dtype.value} in MLIR", "16 and 32 bits, bool")
        self.e, self.g, self.kind, self.ref, self.s = e, found, value.type, ref, s
        self.owned = isinstance(s, FragStoreGlobal) and not every
        self.base = e.scalars[f"%global.{found.name}"]
        kind, by = value.type, s.index
        down, across = thread_row(kind), thread_col(kind)
        own_row, own_col = (across, down) if s.trans else (down, across)
        self.row = ref.row + own_row if by is None else ref.row
        self.col = ref.col + own_col
        self.down, self.across = down, across

    def place(self, block: int, group: int, row: int, col: int) -> _Place:
        """Of an element that the executing thread holds."""
        kind, s, g = self.kind, self.s, self.g
        below: Expr = as_expr(kind.layout.down(block, row) if kind.rows > 1 else 0)
        right: Expr = as_expr(kind.layout.right(group, col) if kind.cols > 1 else 0)
        tests: list[Expr] = [TRUE]
        if s.limit is not None:
            tests.append(self.down + below < s.limit)
        limit_cols = getattr(s, "limit_cols", None)
        if limit_cols is not None:
            tests.append(self.across + right < limit_cols)
        if s.index is not None:
            register, _ = self.e.element(s.index, block, 0, row, 0)
            below = self.e.bound(register, f"index.{register.name}")
            tests.append(below >= 0)
        if s.trans:
            below, right = right, below
        at_row, at_col = self.row + below, self.col + right
        tests += (at_row < g.rows, at_col < g.cols)
        offset, more = outer_dimensions(self.ref, g)
        if g.strides:
            offset = offset + at_row * strides_of(g)[-1]
        offset, tests = offset + at_col, [*tests, *more]
        inside = tests[0]
        for test in (*tests[1:], *self._owner()):
            inside = inside.logical_and(test)
        return _Place(offset, at_col, inside)

    def _owner(self) -> Iterator[Expr]:
        """Conditions that the executing thread stores its elements: of a row or column that several
        threads hold, the first one does.
        """
        if not self.owned:
            return
        kind, warp, lane = self.kind, Special("warpgroup.warp"), Special("lane")
        if kind.rows == 1:
            yield warp.eq(0)
        if kind.cols == 1:
            yield lane.eq(0) if kind.rows == 1 else (lane % kind.layout.lanes).eq(0)
        elif kind.rows == 1:
            yield lane < kind.layout.lanes

    def access(self, place: _Place) -> tuple[Value, Value]:
        """The address of a place, and the condition as ``i1``."""
        base, e = self.base, self.e
        element = "f32" if self.g.dtype is DType.F32 else _ELEMENTS[self.g.dtype.bits]
        offset = e.expr(place.offset)
        return e.behind(base, offset, element), e.expr(place.inside)

    @property
    def together(self) -> int:
        """Neighbouring columns that are accessed at once."""
        if self.s.trans or self.kind.group[1] == 1 or self.g.dtype is DType.BOOL:
            return 1
        return self.g.together(self.kind.layout.span)


_OPCODES = {"f32": "f32", I32: "b32", I16: "b16", I1: "u8"}


_LOAD_BOOL = "mov.b32 $0, 0; @$2 ld.global.u8 $0, [$1];"


def _vector(type_: str, count: int, first: int) -> tuple[str, str]:
    """Suffix and operands of ``count`` registers at once, numbered from ``first`` on."""
    names = [f"${first + i}" for i in range(count)]
    if count == 1:
        return f".{_OPCODES[type_]}", names[0]
    return f".v{count}.{_OPCODES[type_]}", f"{{{', '.join(names)}}}"


def _load_words(e: Emitter, at: Value, inside: Value, type_: str, count: int) -> tuple[Word, ...]:
    """Registers from memory, zero where ``inside`` is false.

    Predicated instead of branched around, so that many loads are in flight. Not ``.nc``: that takes
    memory which nobody writes while the kernel runs, and the grid in front of ours may still do so.
    """
    suffix, operands = _vector(type_, count, 0)
    if type_ == I1:
        (byte,) = e.asm(_LOAD_BOOL, [at, inside], [I32], early=True, memory=False)
        return (Word(e.out.op(f"arith.cmpi ne, {byte.value}, {e.out.constant(0)} : i32", I1)),)
    kind = "b16" if type_ == I16 else "b32"
    zeros = "".join(f"mov.{kind} ${i}, 0; " for i in range(count))
    text = f"{zeros}@${count + 1} ld.global{suffix} {operands}, [${count}];"
    return e.asm(text, [at, inside], [type_] * count, early=True, memory=False)


def store_words(e: Emitter, at: Value, inside: Value, values: Sequence[Value]) -> None:
    """Registers to memory, where ``inside`` is true; a condition as a byte."""
    suffix, operands = _vector(values[0].type, len(values), 2)
    words = [e.out.op(f"arith.extui {v} : i1 to i32", I32) if v.type == I1 else v for v in values]
    e.asm(f"@$1 st.global{suffix} [$0], {operands};", [at, inside, *words])


def _groups(kind: FragmentType, together: int) -> Iterator[tuple[int, int, int, range]]:
    """Elements that are accessed at once: block, group, row, columns."""
    rows, cols = kind.group
    for block, group, row in product(range(kind.blocks), range(kind.groups), range(rows)):
        for col in range(0, cols, together):
            yield block, group, row, range(col, col + together)


def _load_global(e: Emitter, s: FragLoadGlobal) -> None:
    elements, kind = Elements(e, s, s.out, s.src), s.out.type
    blocks: list[list[Word | None]] = [[None] * kind.block_registers for _ in range(kind.blocks)]
    step = 32 // kind.dtype.register_bits
    for block, group, row, cols in _groups(kind, elements.together):
        at, inside = elements.access(elements.place(block, group, row, cols[0]))
        index, part = element_index(kind, group, row, cols[0])
        if len(cols) >= step:
            count = len(cols) // step
            type_ = register_type(kind.dtype)
            blocks[block][index : index + count] = _load_words(e, at, inside, type_, count)
            continue
        (half,) = _load_words(e, at, inside, I16, 1)
        blocks[block][index] = _joined(e, blocks[block][index], half.value, part)
    e.keep(s.out, tuple(tuple(w for w in block if w is not None) for block in blocks))


def _joined(e: Emitter, word: Word | None, half: Value, part: int) -> Word:
    """A register with one more of its two halves."""
    wide = e.out.op(f"arith.extui {half} : i16 to i32", I32)
    if part:
        wide = e.out.op(f"arith.shli {wide}, {e.out.constant(16)} : i32", I32)
    if word is None:
        return Word(wide)
    return Word(e.out.op(f"arith.ori {e.word(word)}, {wide} : i32", I32))


def _store_global(e: Emitter, s: FragStoreGlobal) -> None:
    elements, kind = Elements(e, s, s.value, s.dst), s.value.type
    step = 32 // kind.dtype.register_bits
    registers = e.registers(s.value)
    for block, group, row, cols in _groups(kind, elements.together):
        at, inside = elements.access(elements.place(block, group, row, cols[0]))
        index, part = element_index(kind, group, row, cols[0])
        if len(cols) >= step:
            words = registers[block][index : index + len(cols) // step]
            store_words(e, at, inside, e.words(words))
            continue
        word, bits = e.word(registers[block][index]), kind.dtype.bits
        if part:
            word = e.out.op(f"arith.shrui {word}, {e.out.constant(bits * part)} : i32", I32)
        if bits * len(cols) == 8:
            e.asm("@$1 st.global.u8 [$0], $2;", [at, inside, word])
            continue
        store_words(e, at, inside, [e.out.op(f"arith.trunci {word} : i32 to i16", I16)])


RULES: Mapping[type[Stmt], Rule] = {
    FragLoadGlobal: _load_global, FragStoreGlobal: _store_global,
}  # fmt: skip
