"""Which shapes, element types and tensors the operations of the epilogue take.

Part of ``verify``: pointwise operations (arity, types, broadcasting), predicates, loads from
shared memory, and which reference to global memory means a tensor map and which
a plain tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from lowering.ground.dtypes import DType
from lowering.ground.expr import ScalarType, type_of
from lowering.ground.frozen import fields_of
from lowering.ground.pairs import OPERATIONS, PAIRED, bits_of
from lowering.ground.types import FragmentType, Swizzle
from lowering.kernel.atomic import ATOM_ORDERS, ATOMS
from lowering.kernel.group_part import GroupPart
from lowering.kernel.kernel import GlobalTensor, Kernel, SharedBuffer, TensorMap, Workspace
from lowering.kernel.memory import CACHE_POLICIES
from lowering.kernel.nodes import (
    Atom,
    Frag,
    FragAddPartial,
    FragBelow,
    FragColumns,
    FragFill,
    FragLoadGlobal,
    FragPointwise,
    FragRandom,
    FragRedGlobal,
    FragRows,
    FragStoreGlobal,
    FragStorePartial,
    FragUpdate,
    GmemRef,
    LdMatrix,
    LdShared,
    LdWord,
    MapRef,
    MmaTile,
    Stmt,
    StWord,
    TmaLoad,
    TmaStore,
    Wgmma,
)
from lowering.kernel.pointwise import OPS
from lowering.kernel.rules import about
from lowering.kernel.storage_text import print_storage
from lowering.kernel.verify_operands import operand_rules
from lowering.kernel.visit import walk

__all__ = ["RULES", "declared", "predicate_rules", "share_rules", "tensor_rules"]


_ROW_BITS = {LdMatrix.OP: (128,), LdShared.OP: (256, 64, 32)}
"""Bits of a group's columns in one row, as the statements load them."""

_PREDICATES = frozenset(
    {
        FragPointwise,
        FragUpdate,
        FragBelow,
        FragColumns,
        FragRows,
        FragLoadGlobal,
        FragStoreGlobal,
    }
)
"""Who takes predicates or gives them: who computes with them or moves them."""


def declared(kernel: Kernel) -> Iterator[str]:
    """Rules that the declarations break."""
    seen: set[str] = set()
    for s in kernel.storage:
        if s.name in seen:
            yield f"{s.name} is declared twice, in: {print_storage(s)}"
        seen.add(s.name)
    for g in kernel.globals:
        if g.align < 1 or g.align & (g.align - 1):
            yield f"align {g.align} is no power of two, in: global {g.name}"
    owner = {0: "the CTA"}
    for n in kernel.named_barriers:
        ids = range(n.base, n.base + n.count) if n.base is not None else ()
        for i in ids:
            if not 0 <= i < kernel.target.named_barriers:
                yield f"no named barrier has id {i}, in: named_barrier {n.name}"
            elif i in owner:
                yield f"id {i} belongs to {owner[i]}, in: named_barrier {n.name}"
            owner[i] = n.name


def predicate_rules(stmt: Stmt, values: Mapping[str, object]) -> Iterator[str]:
    """Who takes and gives predicates, of a statement with these fields."""
    if type(stmt) not in _PREDICATES:
        for name, value in values.items():
            if isinstance(value, Frag) and value.type.dtype is DType.PRED and name != "below":
                yield f"{value.name} is a predicate, which only frag.pointwise takes and gives"


def tensor_rules(kernel: Kernel, stmt: Stmt) -> Iterator[str]:
    """Threads access plain tensors, everything else goes through a tensor map."""
    refs = [v for v in fields_of(stmt) if isinstance(v, GmemRef | MapRef)]
    for ref in refs:
        name = ref.map
        if stmt.TRAITS.plain and isinstance(ref, GmemRef):
            if kernel.find(TensorMap, name) is not None:
                yield f"{name} is a tensor map, {stmt.OP} takes a global"
        elif kernel.find(GlobalTensor, name) is not None:
            yield f"{name} is a global, {stmt.OP} takes a tensor map"


def _update(kernel: Kernel, stmt: FragUpdate) -> Iterator[str]:
    out, acc = stmt.out, stmt.acc
    if out.type != acc.type:
        yield f"{out.name} is {out.type}, it takes the registers of {acc.type}"
    kind, part = acc.type, stmt.part
    for what, at, size, whole, each in (
        ("rows", stmt.row, part.rows, kind.rows, kind.layout.rows),
        ("columns", stmt.col, part.cols, kind.cols, kind.layout.columns),
    ):
        if (at, size) != (0, whole) and (
            at % each or size % each or not 0 <= at < at + size <= whole
        ):
            yield f"{what} {at} .. {at + size} of {kind} are no part of it"
    if acc.type.dtype in PAIRED:
        yield f"{stmt.OP} of {acc.type.dtype.value}, which is not updated in place"
    mine = replace(acc, type=part)
    yield from _pointwise(kernel, FragPointwise(mine, stmt.op, (mine, *stmt.args)))


def _shaped(_: Kernel, stmt: FragBelow | FragRandom | FragLoadGlobal) -> Iterator[str]:
    yield from _shape(stmt.out)


def _loaded(kernel: Kernel, stmt: FragLoadGlobal) -> Iterator[str]:
    yield from _elements(kernel, stmt.out, stmt.src.map)


def _stored(kernel: Kernel, stmt: FragStoreGlobal | FragRedGlobal) -> Iterator[str]:
    yield from _elements(kernel, stmt.value, stmt.dst.map)


def _partials(kernel: Kernel, stmt: FragStorePartial | FragAddPartial) -> Iterator[str]:
    if isinstance(stmt, FragStorePartial):
        yield from _partial(kernel, stmt.value, stmt.dst.array)
    else:
        yield from _partial(kernel, stmt.acc, stmt.src.array)
        yield from _partial(kernel, stmt.out, stmt.src.array)


def _whole(_: Kernel, stmt: FragFill) -> Iterator[str]:
    kind, number = stmt.out.type.dtype, stmt.value
    if kind is DType.S32 and not (number.is_integer() and abs(number) < 2**31):
        yield f"{number} is no {kind.value}"


def _cached(_: Kernel, stmt: TmaLoad | TmaStore) -> Iterator[str]:
    if stmt.cache not in CACHE_POLICIES:
        yield f"no cache policy named {stmt.cache}"


def _word(kernel: Kernel, stmt: LdWord | StWord) -> Iterator[str]:
    ref = stmt.src if isinstance(stmt, LdWord) else stmt.dst
    buffer = kernel.find(SharedBuffer, ref.buffer)
    if buffer is None:
        return
    if buffer.dtype is not DType.S32:
        yield f"{stmt.OP} takes elements of s32, {buffer.name} holds {buffer.dtype.value}"
    if buffer.swizzle is not Swizzle.NONE:
        yield f"{stmt.OP} takes buffers without a swizzle, {buffer.name} has {buffer.swizzle.value}"


def _atom(_: Kernel, stmt: Atom) -> Iterator[str]:
    for what, found, legal in (
        ("operation", stmt.op, ATOMS), ("order", stmt.order, ATOM_ORDERS),
    ):  # fmt: skip
        if found not in legal:
            yield f"no {what} of atom named {found}, but {', '.join(legal)}"
    if stmt.out.type is not ScalarType.I32:
        yield f"{stmt.out.name} is {stmt.out.type.value}, a counter i32"


def _partial(kernel: Kernel, value: Frag, name: str) -> Iterator[str]:
    """A slot takes fragments of its workspace's size."""
    w = kernel.find(Workspace, name)
    kind = value.type if w is None else replace(value.type, dtype=w.dtype, rows=w.rows, cols=w.cols)
    if value.type != kind:
        yield f"{value.name} is {value.type}, a slot of {name} takes {kind}"


def _elements(kernel: Kernel, value: Frag, name: str) -> Iterator[str]:
    """A fragment and the plain tensor that it comes from or goes to have one type."""
    g = kernel.find(GlobalTensor, name)
    if g is not None and g.dtype.register is not value.type.dtype:
        yield _dtypes(value, g.name, g.dtype)


def _pointwise(_: Kernel, stmt: FragPointwise) -> Iterator[str]:
    op = OPS.get(stmt.op)
    if op is None:
        yield f"no pointwise operation named {stmt.op}"
        return
    if len(stmt.args) != op.arity:
        yield f"{stmt.op} takes {op.arity} arguments, not {len(stmt.args)}"
    result = DType.PRED if op.predicate else DType.F32
    if stmt.op in OPERATIONS and stmt.out.type.dtype in PAIRED:
        yield from _paired(stmt)
    elif stmt.out.type.dtype is not result:
        yield f"{stmt.op} gives {result.value}, not {stmt.out.type.dtype.value}"
    yield from _shape(stmt.out)
    for i, arg in enumerate(stmt.args):
        if not isinstance(arg, Frag):
            continue
        if (arg.type.dtype is DType.PRED) != (i < op.conditions):
            wanted = DType.PRED.value if i < op.conditions else "a value"
            yield f"argument {i + 1} of {stmt.op} is {arg.type.dtype.value}, not {wanted}"
        if not _broadcasts(arg.type, stmt.out.type):
            shape, to = (f"{t.rows}x{t.cols}" for t in (arg.type, stmt.out.type))
            yield f"{arg.name} of {shape} does not broadcast to {to}"


def _paired(stmt: FragPointwise) -> Iterator[str]:
    """Two elements at once: of a whole tile, whose type all arguments have."""
    kind = stmt.out.type
    if min(kind.rows, kind.cols) == 1:
        yield f"{stmt.op} of pairs gives whole tiles, not {kind.rows}x{kind.cols}"
    for i, arg in enumerate(stmt.args):
        if not isinstance(arg, Frag):
            if bits_of(kind.dtype, arg) is None:
                yield f"argument {i + 1} of {stmt.op} is {arg}, which {kind.dtype.value} has not"
        elif arg.type.dtype is not kind.dtype:
            yield f"argument {i + 1} of {stmt.op} is {arg.type.dtype.value}, not {kind.dtype.value}"


def _broadcasts(arg: FragmentType, out: FragmentType) -> bool:
    return arg.rows in (1, out.rows) and arg.cols in (1, out.cols)


def _shape(out: Frag) -> Iterator[str]:
    rows, cols = out.type.rows, out.type.cols
    block, group = out.type.layout.rows, out.type.layout.columns
    if (rows != 1 and rows % block) or (cols != 1 and cols % group) or rows < 1 or cols < 1:
        yield f"{rows}x{cols} is neither whole groups of {block} rows and {group} columns nor 1"


def _from_shared(kernel: Kernel, stmt: LdMatrix | LdShared) -> Iterator[str]:
    out, kind = stmt.out, stmt.out.type
    buffer = kernel.find(SharedBuffer, stmt.src.buffer)
    sizes = [n // kind.layout.columns for n in _ROW_BITS[stmt.OP]]
    if kind.dtype.register_bits not in sizes:
        *wide, least = (f"{n}-" for n in sizes)
        bits = f"{', '.join(wide)} or {least}" if wide else least
        yield f"{stmt.OP} gives {bits}bit elements, not {kind.dtype.value}"
    if kind.rows == 1 or kind.cols == 1:
        yield f"{stmt.OP} gives whole tiles, not {kind.rows}x{kind.cols}"
    else:
        yield from _shape(out)
    if buffer is not None and buffer.dtype is not kind.dtype:
        yield _dtypes(out, buffer.name, buffer.dtype)


def _dtypes(out: Frag, name: str, dtype: DType) -> str:
    return f"{out.name} is {out.type.dtype.value}, {name} holds {dtype.value}"


def share_rules(kernel: Kernel) -> Iterator[str]:
    """What is wrong with the share of a kernel, if it has one."""
    if kernel.share and (why := kernel.share.problem):
        yield f"share {kernel.share}: {why}"
    elif kernel.share and not any(isinstance(s, GroupPart) for s in walk(kernel.body)):
        yield f"share {kernel.share}, and no {GroupPart.OP} of it"


def _part(kernel: Kernel, stmt: GroupPart) -> Iterator[str]:
    if not kernel.share:
        yield "it has no share, so no part of a group"
    for e in (stmt.begin, stmt.size, stmt.whole):
        if (kind := type_of(e)) is not ScalarType.I32:
            yield f"{e} is {kind.value}, elements of a group are counted by i32"


RULES = (
    about(_part, GroupPart),
    about(_pointwise, FragPointwise),
    about(_update, FragUpdate),
    about(_shaped, FragBelow, FragRandom, FragLoadGlobal),
    about(_loaded, FragLoadGlobal),
    about(_stored, FragStoreGlobal, FragRedGlobal),
    about(_partials, FragStorePartial, FragAddPartial),
    about(_from_shared, LdMatrix, LdShared),
    about(_word, LdWord, StWord),
    about(operand_rules, MmaTile, Wgmma),
    about(_whole, FragFill),
    about(_atom, Atom),
    about(_cached, TmaLoad, TmaStore),
)
"""Of values and of where they come from and go to."""
