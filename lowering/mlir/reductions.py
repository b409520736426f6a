"""Rules for reductions: in registers, by shuffles, and through shared memory.

The order of operations is that of the nodes' docstrings, which the machine follows too. Sums have
no ``contract``, so nothing is made of them and the product in front; sums of products are ``fma``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from functools import reduce
from itertools import product

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.ground.expr import ZERO, Expr, Special
from lowering.ground.types import FragmentType
from lowering.kernel.nodes import (
    Frag,
    FragBelow,
    FragRedGlobal,
    FragReduce,
    FragReduceFromShared,
    FragReduceToShared,
    FragStoreGlobal,
    FragStoreReduced,
    SmemRef,
    Stmt,
)
from lowering.kernel.places import placed, thread_col, thread_row
from lowering.kernel.reduction import ABSENT, NEUTRAL
from lowering.mlir.emitter import Emitter, Registers, Rule, Word
from lowering.mlir.global_memory import Elements, store_words
from lowering.mlir.ssa import F32, I1, I16, I32, Value
from lowering.target import ptx

__all__ = ["RULES"]

_OPS = {"sum": "addf", "max": "maximumf", "min": "minimumf"}

_FMA = "(f32, f32, f32) -> f32"

_LANES = 4, 8, 16
"""Distances between the lanes that hold a column."""

_LANE, _WARP = Special("lane"), Special("warpgroup.warp")


def _two(e: Emitter, op: str, a: Value, b: Value) -> Value:
    return e.out.op(f"arith.{_OPS[op]} {a}, {b} : f32", F32)


def _fold(e: Emitter, op: str, values: Iterable[Value]) -> Value:
    """All of them, one after the other."""
    return reduce(lambda a, b: _two(e, op, a, b), values)


def _from_lane(e: Emitter, value: Value, distance: int) -> Value:
    """What the lane at a distance has."""
    word = e.out.op(f"arith.bitcast {value} : f32 to i32", I32)
    lanes = f"{e.out.constant(-1)}, {word}, {e.out.constant(distance)}, {e.out.constant(31)}"
    other = e.out.op(f"nvvm.shfl.sync bfly {lanes} : i32 -> i32", I32)
    return e.out.op(f"arith.bitcast {other} : i32 to f32", F32)


def _butterfly(e: Emitter, op: str, value: Value, distances: Iterable[int]) -> Value:
    """Put what lanes have together, for one distance after the other."""
    for distance in distances:
        value = _two(e, op, value, _from_lane(e, value, distance))
    return value


Place = tuple[int, int, int, int]
"""Of an element of a thread: block, group, row and column."""


def _elements(
    e: Emitter, s: FragReduce | FragReduceToShared, places: Iterable[Place],
    total: Value | None = None,
) -> Value:  # fmt: skip
    """Elements, one after the other, onto ``total``; those that do not count leave it as it is."""
    for place in places:
        total = _with(e, s, place, total)
    if total is None:
        raise InternalError("mlir", f"{s.OP} of no elements")
    return total


def _with(
    e: Emitter, s: FragReduce | FragReduceToShared, place: Place, total: Value | None
) -> Value:
    """An element onto what is there of others."""
    value, _ = e.element(s.value, *place)
    if s.factor is not None:
        return _with_product(e, s, place, value, total)
    if s.below is not None:
        counts, _ = e.element(s.below, *place)
        absent = e.out.number(ABSENT[s.op])
        value = e.out.op(f"arith.select {counts}, {value}, {absent} : f32", F32)
    return value if total is None else _two(e, s.op, total, value)


def _with_product(
    e: Emitter, s: FragReduce | FragReduceToShared, place: Place, value: Value, total: Value | None
) -> Value:
    """The same of what is multiplied by its factor, which only the sum is rounded behind."""
    assert s.factor is not None
    factor, _ = e.element(s.factor, *place)
    if total is None:
        found = e.out.op(f"arith.mulf {value}, {factor} : f32", F32)
    else:
        found = e.out.op(f"llvm.intr.fma({value}, {factor}, {total}) : {_FMA}", F32)
    if s.below is None:
        return found
    counts, _ = e.element(s.below, *place)
    instead = e.out.number(ABSENT[s.op]) if total is None else total
    return e.out.op(f"arith.select {counts}, {found}, {instead} : f32", F32)


def _reduce(e: Emitter, s: FragReduce) -> None:
    """Blocks of rows that fall together are a chain; each chain has a block of ``out``."""
    kind, out = s.value.type, s.out.type
    blocks = range(kind.blocks)
    chains = [[b] for b in blocks] if out.rows == kind.rows else [list(blocks)]
    found = []
    for block, chain in enumerate(chains):
        block_words = []
        for group, row, col in product(range(out.groups), *map(range, out.group)):
            before, _ = e.element(s.acc, block, group, row, col)
            block_words.append(Word(_together(e, s, chain, (group, row, col), before)))
        found.append(tuple(block_words))
    e.keep(s.out, tuple(found))


def _together(
    e: Emitter, s: FragReduce, chain: list[int], at: tuple[int, int, int], before: Value
) -> Value:
    """What falls together onto an element of ``out``, by (group, row, column)."""
    kind, out = s.value.type, s.out.type
    group, row, col = at
    if out.cols == kind.cols:
        return _elements(e, s, [(b, group, row, col) for b in chain], before)

    def column(inner: int) -> list[Place]:
        return [(b, g, row, inner) for b, g in product(chain, range(kind.groups))]

    if out.cols > 1:
        return _elements(e, s, column(col), before)
    folded = _fold(e, s.op, [_elements(e, s, column(i)) for i in range(kind.group[1])])
    return _two(e, s.op, before, _butterfly(e, s.op, folded, kind.layout.distances))


# --- rows of all warps ------------------------------------------------------------------------


def _place(e: Emitter, ref: SmemRef, kind: FragmentType, row: Expr = ZERO) -> tuple[Expr, int]:
    """The address of the thread's first column, ``row`` rows below ``ref``, and the bytes from one
    row to the next.
    """
    width = placed(e.kernel, ref.buffer).cols * 4
    offset = row * width + e.resolved(ref.col) * 4
    if kind.cols > 1:
        offset = offset + _LANE % 4 * 8
    return e.line_address(ref) + offset, width


def _to_shared(e: Emitter, s: FragReduceToShared) -> None:
    kind = s.value.type
    rows, cols = kind.group
    at, _ = _place(e, s.dst, kind, _WARP)
    folds = []
    for group, col in product(range(kind.groups), range(cols)):
        halves = [
            _elements(e, s, [(b, group, row, col) for b in range(kind.blocks)])
            for row in range(rows)
        ]
        folds.append(_fold(e, s.op, halves))
    if cols == 1:
        total = _butterfly(e, s.op, folds[0], _LANES)
        with e.region(f"scf.if {e.expr(_LANE.eq(0))}"):
            e.asm("st.shared.f32 [$0], $1;", [e.expr(at), total])
        return
    left, first, idle = _dealt(e, s.op, folds)
    with e.region(f"scf.if {e.expr(_no_bits(idle))}") if idle else nullcontext():
        _store_columns(e, at, left, first)


def _no_bits(idle: int) -> Expr:
    """Whether the lane's number has none of these bits."""
    found: Expr = ZERO
    for distance in _LANES:
        if idle & distance:
            found = found + _LANE // distance % 2
    return found.eq(0)


def _dealt(e: Emitter, op: str, folds: list[Value]) -> tuple[list[Value], Expr, int]:
    """Reduce the columns of eight lanes, so that in the end each lane has other ones.

    Two lanes exchange halves as long as there are halves.

    Returns:
        Columns that a lane has left, which one is its first, and the bits of the lane's number by
        which several have the same.
    """
    first: Expr = ZERO
    idle = 0
    for distance in _LANES:
        if len(folds) % 2:
            idle += distance
            folds = [_butterfly(e, op, fold, [distance]) for fold in folds]
            continue
        half = len(folds) // 2
        bit = _LANE // distance % 2
        upper = e.expr(bit.eq(1))
        first = first + bit * half
        kept = []
        for low, high in zip(folds[:half], folds[half:], strict=True):
            given = e.out.op(f"arith.select {upper}, {low}, {high} : f32", F32)
            own = e.out.op(f"arith.select {upper}, {high}, {low} : f32", F32)
            kept.append(_two(e, op, own, _from_lane(e, given, distance)))
        folds = kept
    return folds, first, idle


def _store_columns(e: Emitter, at: Expr, values: list[Value], first: Expr) -> None:
    """Columns of a thread from its ``first`` on, two of which lie side by side in each group."""
    if len(values) % 2 == 0:
        for i in range(0, len(values), 2):
            place = e.expr(at + (first + i) * 16)
            e.asm("st.shared.v2.f32 [$0], {$1, $2};", [place, *values[i : i + 2]])
        return
    for i, value in enumerate(values):
        which = first + i
        e.asm("st.shared.f32 [$0], $1;", [e.expr(at + which // 2 * 32 + which % 2 * 4), value])


def _from_shared(e: Emitter, s: FragReduceFromShared) -> None:
    kind = s.out.type
    _, cols = kind.group
    at, width = _place(e, s.src, kind)
    found = []
    for group in range(kind.groups):
        lines = [_loaded(e, at + (line * width + group * 32), cols) for line in range(s.rows)]
        for col in range(cols):
            total = _fold(e, s.op, [values[col] for values in lines])
            before, _ = e.element(s.acc, 0, group, 0, col)
            found.append(Word(_two(e, s.op, before, total)))
    e.keep(s.out, (tuple(found),))


def _loaded(e: Emitter, at: Expr, cols: int) -> list[Value]:
    """One number from shared memory, or two side by side."""
    if cols == 1:
        return e.words(e.asm("ld.shared.f32 $0, [$1];", [e.expr(at)], [F32]))
    return e.words(e.asm("ld.shared.v2.f32 {$0, $1}, [$2];", [e.expr(at)], [F32, F32]))


def _store_reduced(e: Emitter, s: FragStoreReduced) -> None:
    """Thread by thread one column, and all threads of a warpgroup side by side."""
    width = placed(e.kernel, s.src.buffer).cols * 4
    thread = _WARP * 32 + _LANE
    at = e.line_address(s.src) + (e.resolved(s.src.col) + thread) * 4
    for start in range(0, s.cols, ptx.WARPGROUP):
        one = Frag("", FragmentType(DType.F32, 1, 1))
        stored = FragStoreGlobal(s.dst.moved(0, thread + start), one)
        elements = Elements(e, stored, one, stored.dst, every=True)
        place = elements.place(0, 0, 0, 0)
        where, inside = elements.access(place)
        if s.cols - start < ptx.WARPGROUP:
            mine = e.expr(thread < s.cols - start)
            inside = e.out.op(f"arith.andi {mine}, {inside} : i1", I1)
        with e.region(f"scf.if {inside}"):
            behind = [_loaded(e, at + (start * 4 + row * width), 1)[0] for row in range(s.rows)]
            total = _fold(e, s.op, behind)
            told = _two(e, s.op, e.out.number(NEUTRAL[s.op]), total)
            store_words(e, where, e.out.truth(True), [told])


# --- onto what other CTAs have -----------------------------------------------------------------


_HALVES = "@$1 red.relaxed.gpu.global.{form} [$0], $2;"

_ADD = "@$1 red.relaxed.gpu.global.add.f32 [$0], $2;"

# As integers fp32 numbers are in order where the sign is clear, and in reverse where it is set.
_EXTREME = (
    "{{ .reg .pred p, q; setp.ge.s32 p, $2, 0; and.pred q, p, $1; "
    "not.pred p, p; and.pred p, p, $1; @q red.relaxed.gpu.global.{op}.s32 [$0], $2; "
    "@p red.relaxed.gpu.global.{other}.u32 [$0], $2; }}"
)

_NAN = {"max": 0x7FFFFFFF, "min": -1}
"""The NaN that wins against every number and is beaten by none."""


def _red_global(e: Emitter, s: FragRedGlobal) -> None:
    kind = s.value.type
    stored = FragStoreGlobal(s.dst, s.value, s.limit, s.index)
    elements = Elements(e, stored, s.value, s.dst)
    if kind.dtype.bytes == 2:
        _add_halves(e, s, elements)
        return
    for block, group, row, col in product(
        range(kind.blocks), range(kind.groups), *map(range, kind.group)
    ):
        at, inside = elements.access(elements.place(block, group, row, col))
        value, _ = e.element(s.value, block, group, row, col)
        if s.op == "add":
            e.asm(_ADD, [at, inside, value])
            continue
        other = "min" if s.op == "max" else "max"
        bits = e.out.op(f"arith.bitcast {value} : f32 to i32", I32)
        wrong = e.out.op(f"arith.cmpf uno, {value}, {value} : f32", I1)
        nan = e.out.constant(_NAN[s.op])
        word = e.out.op(f"arith.select {wrong}, {nan}, {bits} : i32", I32)
        e.asm(_EXTREME.format(op=s.op, other=other), [at, inside, word])


def _add_halves(e: Emitter, s: FragRedGlobal, elements: Elements) -> None:
    """Two columns at once where the tensor allows it."""
    kind, form = s.value.type, f"add.noftz.{s.value.type.dtype.value}"
    rows, cols = kind.group
    step = 2 if elements.g.pairs and cols % 2 == 0 else 1
    for block, group, row, col in product(
        range(kind.blocks), range(kind.groups), range(rows), range(0, cols, step)
    ):
        at, inside = elements.access(elements.place(block, group, row, col))
        register, half = e.element(s.value, block, group, row, col)
        if step == 2:
            e.asm(_HALVES.format(form=f"{form}x2"), [at, inside, register])
            continue
        word = e.out.op(f"arith.shrui {register}, {e.out.constant(16 * half)} : i32", I32)
        value = e.out.op(f"arith.trunci {word} : i32 to i16", I16)
        e.asm(_HALVES.format(form=form), [at, inside, value])


def _below(e: Emitter, s: FragBelow) -> None:
    """Each thread's first row or column is taken from the limit once."""
    kind = s.out.type
    left = s.limit - (thread_row(kind) * s.down + thread_col(kind) * s.right)
    blocks: Registers = tuple(
        tuple(
            Word(e.expr(_at(s, block, group, row, col) < left))
            for group, row, col in product(range(kind.groups), *map(range, kind.group))
        )
        for block in range(kind.blocks)
    )
    e.keep(s.out, blocks)


def _at(s: FragBelow, block: int, group: int, row: int, col: int) -> Expr:
    """What is compared of an element, from the thread's first one on."""
    kind = s.out.type
    down = kind.layout.down(block, row) * s.down if kind.rows > 1 else 0
    right = (kind.layout.columns * group + col) * s.right if kind.cols > 1 else 0
    return ZERO + (down + right)


RULES: Mapping[type[Stmt], Rule] = {
    FragReduce: _reduce, FragReduceToShared: _to_shared, FragReduceFromShared: _from_shared,
    FragStoreReduced: _store_reduced, FragBelow: _below, FragRedGlobal: _red_global,
}  # fmt: skip
