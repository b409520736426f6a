"""Which shapes, element types and tensors the operations of the epilogue take.

Part of ``verify``: pointwise operations (arity, types, broadcasting), predicates, loads from
shared memory, and which reference to global memory means a tensor map and which
a plain tensor.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowering.ground.dtypes import DType
from lowering.ground.expr import ScalarType
from lowering.ground.records import values_of
from lowering.ground.types import FragmentType, Swizzle
from lowering.kernel.atomic import ATOM_ORDERS, ATOMS
from lowering.kernel.kernel import GlobalTensor, Kernel, SharedBuffer, TensorMap, Workspace
from lowering.kernel.memory import CACHE_POLICIES
from lowering.kernel.nodes import (
    Atom,
    Frag,
    FragAddPartial,
    FragBelow,
    FragFill,
    FragLoadGlobal,
    FragPointwise,
    FragRandom,
    FragRedGlobal,
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
from lowering.kernel.storage_text import print_storage
from lowering.kernel.verify_operands import operand_rules

__all__ = ["declared", "value_rules"]


_ROW_BITS = {LdMatrix.OP: (128,), LdShared.OP: (256, 64)}
"""Bits of a group's columns in one row, as the statements load them."""


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


def value_rules(kernel: Kernel, stmt: Stmt) -> Iterator[str]:
    """Rules that the values and tensors of one statement break."""
    yield from _tensors(kernel, stmt)
    match stmt:
        case FragPointwise():
            yield from _pointwise(stmt)
            return
        case FragUpdate(out, op, acc, args):
            if out.type != acc.type:
                yield f"{out.name} is {out.type}, it takes the registers of {acc.type}"
            yield from _pointwise(FragPointwise(out, op, (acc, *args)))
            return
        case FragBelow(out):
            yield from _shape(out)
            return
        case FragRandom(out):
            yield from _shape(out)
        case FragLoadGlobal(out, src):
            yield from _shape(out)
            yield from _elements(kernel, out, src.map)
            return
        case FragStoreGlobal(dst, value):
            yield from _elements(kernel, value, dst.map)
            return
        case FragRedGlobal(dst=dst, value=value):
            yield from _elements(kernel, value, dst.map)
        case FragStorePartial(dst, value):
            yield from _partial(kernel, value, dst.array)
        case FragAddPartial(out, acc, src):
            yield from _partial(kernel, acc, src.array)
            yield from _partial(kernel, out, src.array)
        case LdMatrix(out, src) | LdShared(out, src):
            yield from _from_shared(stmt.OP, out, _buffer(kernel, src.buffer))
        case LdWord(src=ref) | StWord(dst=ref):
            yield from _word(stmt, kernel.find(SharedBuffer, ref.buffer))
        case MmaTile() | Wgmma():
            yield from operand_rules(kernel, stmt)
        case FragFill(out, number) if out.type.dtype is DType.S32:
            if not (number.is_integer() and abs(number) < 2**31):
                yield f"{number} is no {out.type.dtype.value}"
        case Atom():
            yield from _atom(stmt)
        case TmaLoad(cache=cache) | TmaStore(cache=cache) if cache not in CACHE_POLICIES:
            yield f"no cache policy named {cache}"
    for name, value in values_of(stmt).items():
        if isinstance(value, Frag) and value.type.dtype is DType.PRED and name != "below":
            yield f"{value.name} is a predicate, which only frag.pointwise takes and gives"


def _word(stmt: LdWord | StWord, buffer: SharedBuffer | None) -> Iterator[str]:
    if buffer is None:
        return
    if buffer.dtype is not DType.S32:
        yield f"{stmt.OP} takes elements of s32, {buffer.name} holds {buffer.dtype.value}"
    if buffer.swizzle is not Swizzle.NONE:
        yield f"{stmt.OP} takes buffers without a swizzle, {buffer.name} has {buffer.swizzle.value}"


def _atom(stmt: Atom) -> Iterator[str]:
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
    kind = value.type if w is None else FragmentType(w.dtype, w.rows, w.cols)
    if value.type != kind:
        yield f"{value.name} is {value.type}, a slot of {name} takes {kind}"


def _elements(kernel: Kernel, value: Frag, name: str) -> Iterator[str]:
    """A fragment and the plain tensor that it comes from or goes to have one type."""
    g = kernel.find(GlobalTensor, name)
    if g is not None and g.dtype.register is not value.type.dtype:
        yield _dtypes(value, g.name, g.dtype)


def _tensors(kernel: Kernel, stmt: Stmt) -> Iterator[str]:
    """Threads access plain tensors, everything else goes through a tensor map."""
    refs = [v for v in values_of(stmt).values() if isinstance(v, GmemRef | MapRef)]
    for ref in refs:
        name = ref.map
        if stmt.TRAITS.plain and isinstance(ref, GmemRef):
            if kernel.find(TensorMap, name) is not None:
                yield f"{name} is a tensor map, {stmt.OP} takes a global"
        elif kernel.find(GlobalTensor, name) is not None:
            yield f"{name} is a global, {stmt.OP} takes a tensor map"


def _pointwise(stmt: FragPointwise) -> Iterator[str]:
    op = OPS.get(stmt.op)
    if op is None:
        yield f"no pointwise operation named {stmt.op}"
        return
    if len(stmt.args) != op.arity:
        yield f"{stmt.op} takes {op.arity} arguments, not {len(stmt.args)}"
    result = DType.PRED if op.predicate else DType.F32
    if stmt.out.type.dtype is not result:
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


def _broadcasts(arg: FragmentType, out: FragmentType) -> bool:
    return arg.rows in (1, out.rows) and arg.cols in (1, out.cols)


def _shape(out: Frag) -> Iterator[str]:
    rows, cols = out.type.rows, out.type.cols
    block, group = out.type.layout.rows, out.type.layout.columns
    if (rows != 1 and rows % block) or (cols != 1 and cols % group) or rows < 1 or cols < 1:
        yield f"{rows}x{cols} is neither whole groups of {block} rows and {group} columns nor 1"


def _from_shared(op: str, out: Frag, buffer: SharedBuffer | None) -> Iterator[str]:
    kind = out.type
    sizes = [n // kind.layout.columns for n in _ROW_BITS[op]]
    if kind.dtype.register_bits not in sizes:
        yield f"{op} gives {'- or '.join(map(str, sizes))}-bit elements, not {kind.dtype.value}"
    if kind.rows == 1 or kind.cols == 1:
        yield f"{op} gives whole tiles, not {kind.rows}x{kind.cols}"
    else:
        yield from _shape(out)
    if buffer is not None and buffer.dtype is not kind.dtype:
        yield _dtypes(out, buffer.name, buffer.dtype)


def _buffer(kernel: Kernel, name: str) -> SharedBuffer | None:
    return kernel.find(SharedBuffer, name)


def _dtypes(out: Frag, name: str, dtype: DType) -> str:
    return f"{out.name} is {out.type.dtype.value}, {name} holds {dtype.value}"
