"""Rule for lane exchange: two shuffles for each two pieces that a lane holds of a row.

Pieces of 16 bits are those of two rows in one word, as the narrower layout has them; the wider
layout's words are put together from two of them, or taken apart, by ``prmt``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lowering.ground.exchange import rounds
from lowering.kernel.nodes import Frag, FragShuffle, Stmt
from lowering.mlir.emitter import Emitter, Rule, Word, register_type
from lowering.mlir.registers import element_index
from lowering.mlir.ssa import F32, I1, I32, Value

__all__ = ["RULES"]

_LOWER, _UPPER = 0x5410, 0x7632
"""Selectors of ``prmt``: both lower halves of two words, both upper ones."""

_Place = tuple[int, int]
"""A register: block, and place in it."""


@dataclass(frozen=True, slots=True)
class _Lanes:
    """What the executing lane does in both rounds.

    Args:
        other: it sends its second piece first.
        sources: whom it receives from.
        swap: what it receives first is its second piece.
    """

    other: Value
    sources: tuple[Value, Value]
    swap: Value


def _shuffle(e: Emitter, s: FragShuffle) -> None:
    widen = s.out.type.layout.span > s.value.type.layout.span
    narrow, wide = (s.value, s.out) if widen else (s.out, s.value)
    lanes = _how(e, widen)
    words = {(b, i): e.word(w) for b, block in enumerate(e.registers(s.value))
             for i, w in enumerate(block)}  # fmt: skip
    made: dict[_Place, Value] = {}
    kind = register_type(s.value.type.dtype)
    for block in range(wide.type.blocks):
        for group in range(wide.type.groups):
            for pieces in _pieces(narrow, wide, block, group):
                low, high = pieces
                given, taken = (low, high) if widen else (high, low)
                halves = narrow.type.layout.span * narrow.type.dtype.register_bits == 16
                exchanged = _of_two_rows if halves else _words
                found = exchanged(e, [words[p] for p in given], widen, lanes, kind)
                made |= dict(zip(taken, found, strict=True))
    blocks = s.out.type.blocks
    each = range(s.out.type.block_registers)
    registers = [tuple(Word(made[b, i]) for i in each) for b in range(blocks)]
    e.keep(s.out, tuple(registers))


def _pieces(
    narrow: Frag, wide: Frag, block: int, group: int
) -> list[tuple[tuple[_Place, _Place], tuple[_Place, _Place]]]:
    """Registers of one group of the wider layout that are exchanged together: those of the two
    groups of the narrower one, and its own.
    """
    bits, piece = narrow.type.dtype.register_bits, narrow.type.layout.span
    groups = (2 * group, 2 * group + 1)

    def low(row: int, col: int) -> tuple[_Place, _Place]:
        first, second = (element_index(narrow.type, g, row, col)[0] for g in groups)
        return (block, first), (block, second)

    def high(row: int, col: int) -> _Place:
        return block, element_index(wide.type, group, row, col)[0]

    if piece * bits == 16:
        return [(low(0, 0), (high(0, 0), high(1, 0)))]
    return [
        (low(half, col), (high(half, col), high(half, piece + col)))
        for half in (0, 1)
        for col in range(0, piece, 32 // bits)
    ]


def _how(e: Emitter, widen: bool) -> _Lanes:
    first, second = rounds(widen)
    lane = e.special("lane")
    quarter = e.out.op(f"arith.andi {lane}, {e.out.constant(3)} : i32", I32)
    base = e.out.op(f"arith.andi {lane}, {e.out.constant(-4)} : i32", I32)

    def bit(table: Sequence[int]) -> Value:
        mask = e.out.constant(sum(b << q for q, b in enumerate(table)))
        moved = e.out.op(f"arith.shrui {mask}, {quarter} : i32", I32)
        return e.out.op(f"arith.trunci {moved} : i32 to i1", I1)

    def source(table: Sequence[int]) -> Value:
        mask = e.out.constant(sum(q << 2 * i for i, q in enumerate(table)))
        twice = e.out.op(f"arith.addi {quarter}, {quarter} : i32", I32)
        moved = e.out.op(f"arith.shrui {mask}, {twice} : i32", I32)
        which = e.out.op(f"arith.andi {moved}, {e.out.constant(3)} : i32", I32)
        return e.out.op(f"arith.addi {base}, {which} : i32", I32)

    return _Lanes(bit(first.sends), (source(first.source), source(second.source)), bit(first.place))


def _exchange(e: Emitter, given: Sequence[Value], lanes: _Lanes) -> list[Value]:
    """Each lane sends one of two words and receives one, and then the others."""
    first, second = given
    received = []
    for pair, source in zip(((second, first), (first, second)), lanes.sources, strict=True):
        sent = e.out.op(f"arith.select {lanes.other}, {pair[0]}, {pair[1]} : i32", I32)
        operands = f"{e.out.constant(-1)}, {sent}, {source}, {e.out.constant(31)}"
        received.append(e.out.op(f"nvvm.shfl.sync idx {operands} : i32 -> i32", I32))
    a, b = received
    return [
        e.out.op(f"arith.select {lanes.swap}, {x}, {y} : i32", I32) for x, y in ((b, a), (a, b))
    ]


def _words(
    e: Emitter, given: Sequence[Value], widen: bool, lanes: _Lanes, kind: str
) -> list[Value]:
    """Exchange whole registers."""
    if kind != F32:
        return _exchange(e, given, lanes)
    words = [e.out.op(f"arith.bitcast {v} : f32 to i32", I32) for v in given]
    found = _exchange(e, words, lanes)
    return [e.out.op(f"arith.bitcast {v} : i32 to f32", F32) for v in found]


def _of_two_rows(
    e: Emitter, given: Sequence[Value], widen: bool, lanes: _Lanes, kind: str
) -> list[Value]:
    """Exchange pieces of 16 bits, as words of two rows each."""
    words = _exchange(e, given, lanes) if widen else given
    made = []
    for selector in (_LOWER, _UPPER):
        operands = [*words, e.out.constant(selector)]
        text = "prmt.b32 $0, $1, $2, $3;"
        (word,) = e.asm(text, operands, [I32], memory=False, volatile=False)
        made.append(word.value)
    return made if widen else _exchange(e, made, lanes)


RULES: Mapping[type[Stmt], Rule] = {FragShuffle: _shuffle}
