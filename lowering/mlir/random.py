"""Rule for random numbers, and the functions that make them: two neighbours at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from lowering.ground.expr import Const, ScalarType
from lowering.kernel.nodes import FragRandom, Stmt
from lowering.kernel.places import thread_col, thread_row
from lowering.kernel.random import PHILOX_KEYS, PHILOX_MULTIPLIERS, PHILOX_ROUNDS
from lowering.mlir.emitter import Emitter, Rule, Word
from lowering.mlir.ssa import F32

__all__ = ["PHILOX", "RULES"]

_WORDS = "!llvm.struct<(i32, i32, i32, i32)>"


def _signed(word: int) -> int:
    return word - (word >> 31 << 32)


def _halves(value: str, low: str, high: str) -> Iterator[str]:
    """The halves of an i64."""
    yield f"%{low} = arith.trunci %{value} : i64 to i32"
    yield f"%{value}_up = arith.shrui %{value}, %c32 : i64"
    yield f"%{high} = arith.trunci %{value}_up : i64 to i32"


def _round(i: int) -> Iterator[str]:
    """Words and keys ``i + 1`` of words and keys ``i``."""
    for name, word, factor in (("p", "a", "m0"), ("q", "c", "m1")):
        yield f"%{word}{i}_64 = arith.extui %{word}{i} : i32 to i64"
        yield f"%{name}{i} = arith.muli %{word}{i}_64, %{factor} : i64"
        yield from _halves(f"{name}{i}", f"{name}{i}_low", f"{name}{i}_high")
    for made, product_, other, key in (("a", "q", "b", "k0"), ("c", "p", "d", "k1")):
        yield f"%{made}{i}_x = arith.xori %{product_}{i}_high, %{other}{i} : i32"
        yield f"%{made}{i + 1} = arith.xori %{made}{i}_x, %{key}_{i} : i32"
        # The product's lower half is the word behind it.
        behind = {"a": "b", "c": "d"}[made]
        yield f"%{behind}{i + 1} = arith.addi %{product_}{i}_low, %none : i32"
    for key in ("k0", "k1"):
        yield f"%{key}_{i + 1} = arith.addi %{key}_{i}, %{key}_step : i32"


def _philox() -> Iterator[str]:
    yield (
        f"llvm.func internal @philox(%seed: i64, %offset: i64, %high: i64) -> {_WORDS} "
        "attributes {always_inline} {"
    )
    yield "%c32 = arith.constant 32 : i64"
    yield "%none = arith.constant 0 : i32"
    for i in (0, 1):
        yield f"%m{i} = arith.constant {PHILOX_MULTIPLIERS[i]} : i64"
        yield f"%k{i}_step = arith.constant {_signed(PHILOX_KEYS[i])} : i32"
    yield from _halves("seed", "k0_0", "k1_0")
    yield from _halves("offset", "a0", "b0")
    yield from _halves("high", "c0", "d0")
    for i in range(PHILOX_ROUNDS):
        yield from _round(i)
    yield f"%w_0 = llvm.mlir.undef : {_WORDS}"
    for i, word in enumerate("abcd"):
        yield f"%w_{i + 1} = llvm.insertvalue %{word}{PHILOX_ROUNDS}, %w_{i}[{i}] : {_WORDS}"
    yield f"llvm.return %w_4 : {_WORDS}"
    yield "}"


PHILOX = "\n    ".join(_philox())
"""Four words for the key ``seed`` and the counter (``offset``, ``high``)."""

_UNIFORM = "\n    ".join([
    "llvm.func internal @uniform_word(%w: !llvm.struct<(i32, i32, i32, i32)>, %i: i32) -> f32 "
    "attributes {always_inline} {",
    *(f"%w{i} = llvm.extractvalue %w[{i}] : {_WORDS}" for i in range(4)),
    "%c0 = arith.constant 0 : i32",
    "%c2 = arith.constant 2 : i32",
    "%lower = arith.cmpi slt, %i, %c2 : i32",
    "%first = arith.cmpi eq, %i, %c0 : i32",
    "%third = arith.cmpi eq, %i, %c2 : i32",
    "%low = arith.select %first, %w0, %w1 : i32",
    "%high = arith.select %third, %w2, %w3 : i32",
    "%word = arith.select %lower, %low, %high : i32",
    "%number = arith.uitofp %word : i32 to f32",
    "%unit = arith.constant 0x2F800000 : f32",
    "%half = arith.constant 0x2F000000 : f32",
    # The product is exact.
    "%scaled = arith.mulf %number, %unit : f32",
    "%value = arith.addf %scaled, %half : f32",
    "%one = arith.constant 1.0 : f32",
    "%zero = arith.constant 0.0 : f32",
    "%is_one = arith.cmpf oeq, %value, %one : f32",
    "%found = arith.select %is_one, %zero, %value : f32",
    "llvm.return %found : f32",
    "}",
])  # fmt: skip

_HEAD = (
    "%c2 = arith.constant 2 : i64",
    "%c3 = arith.constant 3 : i32",
    "%place = arith.trunci %number : i64 to i32",
    "%i = arith.andi %place, %c3 : i32",
    "%counter = arith.shrui %number, %c2 : i64",
    f"%words = llvm.call @philox(%seed, %offset, %counter) : (i64, i64, i64) -> {_WORDS}",
    f"%a = llvm.call @uniform_word(%words, %i) : ({_WORDS}, i32) -> f32",
)
_OPERANDS = "%seed: i64, %offset: i64, %number: i64"

_ONE = "\n    ".join([
    f"llvm.func internal @random_1({_OPERANDS}) -> f32 attributes {{always_inline}} {{",
    *_HEAD,
    "llvm.return %a : f32",
    "}",
])  # fmt: skip

_PAIR = "!llvm.struct<(f32, f32)>"
_TWO = "\n    ".join([
    f"llvm.func internal @random_2({_OPERANDS}) -> {_PAIR} attributes {{always_inline}} {{",
    *_HEAD,
    "%c1 = arith.constant 1 : i32",
    "%last = arith.cmpi eq, %i, %c3 : i32",
    # Only from an odd place on two neighbours come of two counters.
    f"%words_b = scf.if %last -> ({_WORDS}) {{",
    "%c1w = arith.constant 1 : i64",
    "%next = arith.addi %counter, %c1w : i64",
    f"%more = llvm.call @philox(%seed, %offset, %next) : (i64, i64, i64) -> {_WORDS}",
    f"scf.yield %more : {_WORDS}",
    "} else {",
    f"scf.yield %words : {_WORDS}",
    "}",
    "%behind = arith.addi %i, %c1 : i32",
    "%i_b = arith.andi %behind, %c3 : i32",
    f"%b = llvm.call @uniform_word(%words_b, %i_b) : ({_WORDS}, i32) -> f32",
    f"%none = llvm.mlir.undef : {_PAIR}",
    f"%with_a = llvm.insertvalue %a, %none[0] : {_PAIR}",
    f"%both = llvm.insertvalue %b, %with_a[1] : {_PAIR}",
    f"llvm.return %both : {_PAIR}",
    "}",
])  # fmt: skip

_ZERO = Const(0, ScalarType.I64)


def _random(e: Emitter, s: FragRandom) -> None:
    kind, layout = s.out.type, s.out.type.layout
    rows, cols = kind.group
    together = 2 if cols % 2 == 0 else 1
    e.functions |= {"philox": PHILOX, "uniform_word": _UNIFORM}
    e.functions[f"random_{together}"] = _TWO if together == 2 else _ONE
    result = e.out.struct(F32, 2) if together == 2 else F32
    seed, offset = e.expr(s.seed + _ZERO), e.expr(s.offset + _ZERO)
    stride = s.stride + _ZERO
    found: list[list[Word]] = [[] for _ in range(kind.blocks)]
    columns = range(0, cols, together)
    for block, group, row, col in product(*map(range, (kind.blocks, kind.groups, rows)), columns):
        down = thread_row(kind) + (layout.down(block, row) if kind.rows > 1 else 0)
        right = thread_col(kind) + (layout.right(group, col) if kind.cols > 1 else 0)
        number = e.expr(down * stride + s.first + right)
        text = f"llvm.call @random_{together}({seed}, {offset}, {number}) : (i64, i64, i64)"
        value = e.out.op(f"{text} -> {result}", result)
        found[block] += e.unpacked(value, 2) if together == 2 else [Word(value)]
    e.keep(s.out, tuple(map(tuple, found)))


RULES: Mapping[type[Stmt], Rule] = {FragRandom: _random}
