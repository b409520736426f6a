"""Rules for reductions: in registers, by shuffles, and through shared memory.

The order of operations is that of the nodes' docstrings, which the machine follows too; sums are
``__fadd_rn``, which no compiler contracts with the product in front of it, or ``__fmaf_rn`` where a
factor says that products are summed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from lowering.cuda.emitter import Emitter, Rule
from lowering.cuda.global_elements import Elements, Rows
from lowering.cuda.literals import literal
from lowering.ground.dtypes import DType
from lowering.ground.expr import ZERO, Expr, ScalarType, Special, type_of
from lowering.ground.types import FragmentType
from lowering.kernel.nodes import (
    FragBelow,
    FragReduce,
    FragReduceFromShared,
    FragReduceToShared,
    FragStoreReduced,
    SmemRef,
    Stmt,
)
from lowering.kernel.places import thread_col, thread_row
from lowering.kernel.reduction import ABSENT, NEUTRAL
from lowering.target import ptx

__all__ = ["RULES"]

_OPS = {"sum": "__fadd_rn", "max": "ptx::max_nan", "min": "ptx::min_nan"}

_ST_SHARED = """\
__device__ __forceinline__ void st_shared_f32(unsigned dst, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(dst), "f"(value) : "memory");
}"""

_LD_SHARED = """\
__device__ __forceinline__ float ld_shared_f32(unsigned src) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(src) : "memory");
  return value;
}"""


def _fold(op: str, values: Iterable[str]) -> str:
    """All of them, one after the other."""
    return reduce(lambda a, b: f"{_OPS[op]}({a}, {b})", values)


def _butterfly(e: Emitter, op: str, name: str, *distances: int) -> None:
    """Put what lanes have in ``name`` together, for one distance after the other."""
    for distance in distances:
        other = f"__shfl_xor_sync(0xffffffffu, {name}, {distance})"
        e.out.line(f"{name} = {_OPS[op]}({name}, {other});")


def _reduce(e: Emitter, s: FragReduce) -> None:
    """Blocks of rows that fall together are a chain; each chain has a block of ``out``."""
    kind, out = s.value.type, s.out.type
    blocks = range(kind.blocks)
    chains = [[b] for b in blocks] if out.rows == kind.rows else [list(blocks)]
    for block, chain in enumerate(chains):
        if out.cols == kind.cols:
            with e.groups(kind.groups):
                for row, col in _group(kind):
                    register = e.element(s.out, block, row, col)[0]
                    for b in chain:
                        e.out.line(_added(e, s, register, b, row, col))
        elif out.cols > 1:
            _groups(e, s, block, chain)
        else:
            _rows(e, s, block, chain)


def _masked(e: Emitter, s: FragReduce | FragReduceToShared, b: int, row: int, col: int) -> str:
    """An element, or what stands for it where it does not count."""
    value = e.element(s.value, b, row, col)[0]
    if s.factor is not None:
        value = f"__fmul_rn({value}, {e.element(s.factor, b, row, col)[0]})"
    if s.below is None:
        return value
    return f"({e.element(s.below, b, row, col)[0]} ? {value} : {literal(ABSENT[s.op])})"


def _added(
    e: Emitter, s: FragReduce | FragReduceToShared, so_far: str, b: int, row: int, col: int
) -> str:
    """A statement that adds an element, if it counts: an instruction with a predicate, where one
    of what stands for nothing would be two.
    """
    value = e.element(s.value, b, row, col)[0]
    total = _fold(s.op, (so_far, value))
    if s.factor is not None:
        total = f"__fmaf_rn({value}, {e.element(s.factor, b, row, col)[0]}, {so_far})"
    total = f"{so_far} = {total};"
    if s.below is None:
        return total
    return f"if ({e.element(s.below, b, row, col)[0]}) {total}"


def _group(kind: FragmentType) -> list[tuple[int, int]]:
    rows, cols = kind.group
    return [(row, col) for row in range(rows) for col in range(cols)]


def _onto(
    e: Emitter, s: FragReduce | FragReduceFromShared, at: tuple[int, int, int], value: str
) -> None:
    """The accumulator's element, in front of a value."""
    register = e.element(s.out, *at)[0]
    e.out.line(f"{register} = {_fold(s.op, (register, value))};")


def _groups(e: Emitter, s: FragReduce, block: int, chain: Sequence[int]) -> None:
    """Groups of columns fall together onto one."""
    kind = s.value.type
    places = list(enumerate(_group(kind)))
    with e.out.block(""):
        name = e.names.fresh("fold")
        e.out.line(f"float {name}[{len(places)}];")
        with e.groups(1):
            for i, (row, col) in places:
                e.out.line(f"{name}[{i}] = {e.element(s.out, block, row, col)[0]};")
        for b in chain:
            with e.groups(kind.groups):
                for i, (row, col) in places:
                    e.out.line(_added(e, s, f"{name}[{i}]", b, row, col))
        _pin(e, [f"{name}[{i}]" for i, _ in places])
        with e.groups(1):
            for i, (row, col) in places:
                e.out.line(f"{e.element(s.out, block, row, col)[0]} = {name}[{i}];")


def _rows(e: Emitter, s: FragReduce, block: int, chain: Sequence[int]) -> None:
    """Groups of columns fall together, what is in a group, and what the lanes of a row have."""
    kind = s.value.type
    rows, cols = kind.group
    with e.out.block(""):
        name = e.names.fresh("fold")
        e.out.line(f"float {name}[{rows * cols}];")
        for b in chain:
            with e.groups(kind.groups):
                for i, (row, col) in enumerate(_group(kind)):
                    so_far = f"{name}[{i}]"
                    added = _added(e, s, so_far, b, row, col)
                    if b == chain[0]:
                        first = _masked(e, s, b, row, col)
                        added = f"if (r == 0) {so_far} = {first}; else {added}"
                    e.out.line(added)
        for row in range(rows):
            first = f"{name}[{row * cols}]"
            values = [f"{name}[{row * cols + col}]" for col in range(cols)]
            e.out.line(f"{first} = {_fold(s.op, values)};")
            _butterfly(e, s.op, first, *kind.layout.distances)
        with e.groups(1):
            for row in range(rows):
                _onto(e, s, (block, row, 0), f"{name}[{row * cols}]")


def _pin(e: Emitter, registers: Iterable[str]) -> None:
    """Keep the arithmetic that leads to registers in its place.

    NVVM moves it to where they are read next, behind the stores that it should run beside.
    """
    operands = ", ".join(f'"+f"({r})' for r in registers)
    e.out.line(f'asm volatile("" : {operands});')


# --- rows of all warps ----------------------------------------------------------------------------


def _place(e: Emitter, ref: SmemRef, kind: FragmentType, row: Expr = ZERO) -> tuple[str, int]:
    """Define the address of the thread's first column, ``row`` rows below ``ref``; its name, and
    the bytes from one row to the next.
    """
    width = e.buffer(ref.buffer).cols * 4
    offset = row * width + ref.col * 4
    if kind.cols > 1:
        offset = offset + Special("lane") % 4 * 8
    name = e.names.fresh("at")
    e.out.line(f"const unsigned {name} = {e.sum(e.line_address(ref), offset)};")
    return name, width


def _to_shared(e: Emitter, s: FragReduceToShared) -> None:
    kind = s.value.type
    rows, cols = kind.group
    with e.out.block(""):
        at, _ = _place(e, s.dst, kind, Special("warpgroup.warp"))
        lane, fold, half = e.special("lane"), e.names.fresh("fold"), e.names.fresh("half")
        e.out.line(f"float {fold}[{kind.groups * cols}], {half}[{rows}];")
        with e.groups(kind.groups):
            for col in range(cols):
                for row in range(rows):
                    e.out.line(f"{half}[{row}] = {_masked(e, s, 0, row, col)};")
                    for b in range(1, kind.blocks):
                        e.out.line(_added(e, s, f"{half}[{row}]", b, row, col))
                halves = [f"{half}[{row}]" for row in range(rows)]
                e.out.line(f"{fold}[{_of_group(kind, col)}] = {_fold(s.op, halves)};")
        if cols == 1:
            _butterfly(e, s.op, f"{fold}[0]", *_LANES)
            e.functions["st_shared_f32"] = _ST_SHARED
            with e.out.block(f"if ({lane} == 0)"):
                e.out.line(f"st_shared_f32({at}, {fold}[0]);")
            return
        left, first, idle = _dealt(e, s.op, fold, kind.groups * cols, lane)
        with e.out.block(f"if (({lane} & {idle}) == 0)" if idle else ""):
            _store_columns(e, at, fold, left, first)


_LANES = 4, 8, 16
"""Distances between the lanes that hold a column."""


def _dealt(e: Emitter, op: str, fold: str, count: int, lane: str) -> tuple[int, str, int]:
    """Reduce ``count`` columns of eight lanes, so that in the end each lane has other ones.

    Two lanes exchange halves as long as there are halves, which takes as many shuffles as are left:
    7 for 8 columns, where all of them for all lanes are 24. The sums are the same.

    Returns:
        Columns that a lane has left, which one is its first, and the bits of the lane's number
        by which several have the same.
    """
    first, idle = list[str](), 0
    for distance in _LANES:
        if count % 2:
            idle += distance
            for i in range(count):
                _butterfly(e, op, f"{fold}[{i}]", distance)
            continue
        count //= 2
        upper = e.names.fresh("upper")
        e.out.line(f"const bool {upper} = {lane} & {distance};")
        first.append(f"{upper} * {count}")
        for i in range(count):
            low, high = f"{fold}[{i}]", f"{fold}[{i + count}]"
            other = f"__shfl_xor_sync(0xffffffffu, {upper} ? {low} : {high}, {distance})"
            e.out.line(f"{low} = {_OPS[op]}({upper} ? {high} : {low}, {other});")
    return count, " + ".join(first) or "0", idle


def _store_columns(e: Emitter, at: str, fold: str, left: int, first: str) -> None:
    """Columns of a thread from its ``first`` on, two of which lie side by side in each group."""
    begin = e.names.fresh("first")
    e.out.line(f"const unsigned {begin} = {first};")
    if left % 2 == 0:
        for i in range(0, left, 2):
            pair = f"{fold}[{i}], {fold}[{i + 1}]"
            e.out.line(f"ptx::st_shared_v2({at} + ({begin} + {i}) * 16, {pair});")
        return
    e.functions["st_shared_f32"] = _ST_SHARED
    for i in range(left):
        which = f"({begin} + {i})" if i else begin
        place = f"{at} + {which} / 2 * 32 + {which} % 2 * 4"
        e.out.line(f"st_shared_f32({place}, {fold}[{i}]);")


def _of_group(kind: FragmentType, col: int) -> str:
    """Which of a thread's columns one of group ``r`` is."""
    cols = kind.group[1]
    return str(col) if kind.groups == 1 else f"r * {cols} + {col}" if cols > 1 else "r"


def _from_shared(e: Emitter, s: FragReduceFromShared) -> None:
    kind = s.out.type
    _, cols = kind.group
    with e.out.block(""):
        at, width = _place(e, s.src, kind)
        line = e.names.fresh("line")
        with e.groups(kind.groups):
            folds = [e.names.fresh("fold") for _ in range(cols)]
            names = [e.names.fresh("next") for _ in range(cols)]
            e.out.line(f"float {', '.join(folds + names)};")
            e.out.line("#pragma unroll")
            with e.out.block(f"for (int {line} = 0; {line} < {s.rows}; ++{line})"):
                where = f"{at} + {line} * {width}"
                if cols == 1:
                    e.functions["ld_shared_f32"] = _LD_SHARED
                    e.out.line(f"{names[0]} = ld_shared_f32({where});")
                else:
                    e.out.line(f"ptx::ld_shared_v2({where} + r * 32, {', '.join(names)});")
                for fold, name in zip(folds, names, strict=True):
                    e.out.line(f"{fold} = {line} == 0 ? {name} : {_fold(s.op, (fold, name))};")
            for col, fold in enumerate(folds):
                _onto(e, s, (0, 0, col), fold)


def _store_reduced(e: Emitter, s: FragStoreReduced) -> None:
    """Thread by thread one column, and all threads of a warpgroup side by side."""
    tensor, width = e.global_tensor(s.dst.map), e.buffer(s.src.buffer).cols * 4
    e.functions["ld_shared_f32"] = _LD_SHARED
    thread = Special("warpgroup.warp") * 32 + Special("lane")
    with e.out.block(""):
        at, line = e.names.fresh("at"), e.line_address(s.src)
        offset = s.src.row * width + (s.src.col + thread) * 4
        e.out.line(f"const unsigned {at} = {e.sum(line, offset)};")
        for start in range(0, s.cols, ptx.WARPGROUP):
            with e.out.block(""):
                ref = s.dst.moved(0, thread + start)
                place = Elements(e, _ONE, ref, tensor, Rows(), const="")
                where, inside = place.place(0, 0, 0)
                behind = [f"{at} + {start * 4 + row * width}" for row in range(s.rows)]
                total = _fold(s.op, (f"ld_shared_f32({x})" for x in behind))
                told = _fold(s.op, (literal(NEUTRAL[s.op]), total))
                left = s.cols - start
                mine = f"{e.arg(thread)} < {left} && " if left < ptx.WARPGROUP else ""
                with e.out.block(f"if ({mine}{inside})"):
                    e.out.call("ptx::st_global_f32", where, told, "true")


_ONE = FragmentType(DType.F32, 1, 1)


_FAR = 1 << 30
"""Farther than any two elements of a tile are apart (``MOST_STEEP``)."""


def _below(e: Emitter, s: FragBelow) -> None:
    """Each thread's first row and column are taken from the limit once. What is left of one of 64
    bits is brought into 32, which is farther than any element of the tile.
    """
    e.declare(s.out)
    kind, layout = s.out.type, s.out.type.layout
    with e.out.block(""):
        first = thread_row(kind) * s.down + thread_col(kind) * s.right
        left = e.names.fresh("left")
        text = e.arg(s.limit - first)
        if type_of(s.limit) is ScalarType.I64:
            text = f"int(min(max({text}, -{_FAR}ll), {_FAR}ll))"
        e.out.line(f"const int {left} = {text};")
        for block in range(kind.blocks):
            with e.groups(kind.groups):
                for row, col in _group(kind):
                    at = str(layout.down(block, row) * s.down if kind.rows > 1 else 0)
                    if kind.cols > 1:
                        inner = f" + {col * s.right}" * (col > 0)
                        right = f"{layout.columns * s.right} * r{inner}"
                        at = right if at == "0" else f"{at} + {right}"
                    register = e.element(s.out, block, row, col)[0]
                    e.out.line(f"{register} = {at} < {left};")


RULES: Mapping[type[Stmt], Rule] = {
    FragReduce: _reduce, FragReduceToShared: _to_shared, FragReduceFromShared: _from_shared,
    FragStoreReduced: _store_reduced, FragBelow: _below,
}  # fmt: skip
