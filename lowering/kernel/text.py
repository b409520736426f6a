"""Kernel IR as text. ``parse_kernel(print_kernel(k)) == k`` for every kernel.

The form follows the dataclasses: ``[result: type =] op operand, ..., keyword=value`` for every
plain statement, and a block form for the control statements (see ``design/0002-kernel-ir.md``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields

from lowering.ground.expr import ONE, Expr, ScalarType, Var
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    CounterRef,
    Elect,
    For,
    Frag,
    GmemRef,
    If,
    Let,
    MapRef,
    MBarrierRef,
    NamedBarrierRef,
    PartialRef,
    Role,
    Roles,
    Section,
    SmemRef,
    Stmt,
    WordRef,
)
from lowering.kernel.parse import parse_kernel
from lowering.kernel.tensors import PROMOTIONS
from lowering.target.targets import TARGETS

__all__ = ["parse_kernel", "print_body", "print_kernel", "print_stmt"]

_INDENT = "  "


def print_kernel(kernel: Kernel) -> str:
    """The whole kernel, ending in a newline."""
    head = f"kernel {kernel.name} threads {kernel.threads} cluster {kernel.cluster}"
    head += f" splits {kernel.splits}" if kernel.splits > 1 else ""
    head += " dependent" if kernel.dependent else ""
    head += "" if kernel.target == TARGETS[0] else f" target {kernel.target.arch}"
    lines = [f"{head} grid {kernel.grid} {{", *(_INDENT + line for line in _declarations(kernel))]
    lines += [_INDENT + line for stmt in kernel.body for line in _stmt(stmt)]
    return "\n".join([*lines, "}"]) + "\n"


def print_body(body: Body) -> str:
    """Statements only, ending in a newline."""
    return "".join(line + "\n" for stmt in body for line in _stmt(stmt))


def print_stmt(stmt: Stmt) -> str:
    """First line of a statement: what an error message quotes."""
    return next(_stmt(stmt))


def _declarations(kernel: Kernel) -> Iterator[str]:
    for p in kernel.params:
        yield f"param {p.name}: {p.type.value}"
    for t in kernel.tensor_maps:
        box = f" box {_shape(t.box)}" if t.box else ""
        clipped = " clipped" if t.clipped else ""
        promoted = "" if t.promotion == PROMOTIONS[-1] else f" promotion {t.promotion}"
        swizzle = f" swizzle {t.swizzle.value}" if t.swizzle.value else ""
        name = t.name + _entry(t.count) + " device" * t.device
        yield f"tensormap {name}: {t.dtype.value}{_sizes(t.sizes)}{box}{clipped}{swizzle}{promoted}"
    for g in kernel.globals:
        align = f" align {g.align}" if g.align != 1 else ""
        yield f"global {g.name}: {g.dtype.value}{_sizes(g.sizes)}{align}"
    for s in kernel.shared:
        swizzle = f" swizzle {s.swizzle.value}" if s.swizzle.value else ""
        tile = f"{s.dtype.value}[{s.stages}][{_shape(s.shape)}]{swizzle}"
        yield f"shared {s.name}: {tile}" + _at(s.offset)
    for b in kernel.mbarriers:
        yield f"mbarrier {b.name}[{b.stages}] arrivals {b.arrivals}" + _at(b.offset)
    for n in kernel.named_barriers:
        base = "" if n.base is None else f" id {n.base}"
        yield f"named_barrier {n.name}[{n.count}]{base} threads {n.threads}"
    for c in kernel.circular_buffers:
        counts = f"stages {c.stages} groups {c.groups} consumers {c.consumers}"
        shares = "".join(f" {count}x{stride}" for count, stride in c.shares)
        head = f"circular_buffer {c.name}({', '.join(c.buffers)}) {counts} in_flight {c.in_flight}"
        ahead = f" prefetch {c.prefetch}" if c.prefetch else ""
        yield head + (f" shares{shares}" if shares else "") + ahead
    for trace in kernel.traces:
        yield f"trace {trace.name}[{trace.slots}]({', '.join(trace.events)})"
    for counter in kernel.counters:
        yield f"counter {counter.name}[{counter.count}]"
    for w in kernel.workspaces:
        yield f"workspace {w.name}: f32[{w.count}][{w.rows}x{w.cols}]"
    for words in kernel.words:
        yield f"word {words.name}[{words.count}]" + _at(words.offset)
    for q in kernel.tile_queues:
        yield f"tile_queue {q.name} stages {q.stages} groups {q.groups} consumers {q.consumers}"


def _shape(extents: tuple[int, ...]) -> str:
    return "x".join(map(str, extents))


def _sizes(indices: tuple[Expr, ...]) -> str:
    return f"[{', '.join(map(str, indices))}]"


def _entry(index: Expr | None) -> str:
    return "" if index is None else f"[{index}]"


def _at(offset: int | None) -> str:
    return "" if offset is None else f" at {offset}"


def _block(head: str, body: Body, last: str = "") -> Iterator[str]:
    yield head + " {"
    for stmt in body:
        for line in _stmt(stmt):
            yield _INDENT + line
    if last:
        yield _INDENT + last
    yield "}"


def _stmt(stmt: Stmt) -> Iterator[str]:
    match stmt:
        case Let(var, value, once):
            yield f"let {_typed(var)} = {value}{' once' if once else ''}"
        case For():
            yield from _for(stmt)
        case If(cond, then, other):
            lines = list(_block(f"if {cond}", then))
            if other:
                lines[-1:] = ["} else {", *list(_block("", other))[1:]]
            yield from lines
        case Elect(body):
            yield from _block("elect", body)
        case Section(name, body, groups, group, registers):
            head = f"section {name} groups {groups}" + _as(group) + _registers(registers)
            yield from _block(head, body)
        case Roles(roles):
            yield "roles {"
            for role in roles:
                for line in _role(role):
                    yield _INDENT + line
            yield "}"
        case _:
            yield _plain(stmt)


def _for(stmt: For) -> Iterator[str]:
    head = f"for {stmt.var.name} in {stmt.start} .. {stmt.stop}"
    if stmt.step != ONE:
        head += f" step {stmt.step}"
    if stmt.carries:
        carried = (f"{_typed(c.var)} = {_use(c.init)} -> {c.result.name}" for c in stmt.carries)
        head += f" carry ({', '.join(carried)})"
    if stmt.unroll:
        head += " unroll"
    yields = "yield " + ", ".join(_use(y) for y in stmt.yields) if stmt.yields else ""
    yield from _block(head, stmt.body, yields)


def _role(role: Role) -> Iterator[str]:
    span = f"{role.first_warp} .. {role.first_warp + role.warps}"
    head = f"role {role.name} warps {span}" + _as(role.group) + _registers(role.registers)
    yield from _block(head, role.body)


def _registers(count: int | None) -> str:
    return "" if count is None else f" registers {count}"


def _as(group: Var | None) -> str:
    return f" as {group.name}" if group else ""


def _typed(value: Var | Frag) -> str:
    kind = value.type.value if isinstance(value.type, ScalarType) else str(value.type)
    return f"{value.name}: {kind}"


def _use(value: Expr | Frag) -> str:
    return value.name if isinstance(value, Frag) else str(value)


def _plain(stmt: Stmt) -> str:
    result, operands = "", []
    for field in fields(stmt):
        value = getattr(stmt, field.name)
        if field.name == "out":
            result = f"{_typed(value)} = "
        elif field.default is MISSING:
            operands.append(_operand(value))
        elif value != field.default:
            operands.append(f"{field.name}={_operand(value)}")
    return (f"{result}{stmt.OP} " + ", ".join(operands)).rstrip()


def _operand(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case Frag(name):
            return name
        case SmemRef(buffer, stage, coords):
            return f"{buffer}{_sizes((stage, *coords))}"
        case GmemRef(name, coords, entry):
            return f"{name}{_entry(entry)}{_sizes(coords)}"
        case MapRef(name, entry):
            return f"{name}{_entry(entry)}"
        case MBarrierRef(name, index) | NamedBarrierRef(name, index):
            return f"{name}[{index}]"
        case CounterRef(name, index) | PartialRef(name, index) | WordRef(name, index):
            return f"{name}[{index}]"
        case tuple():
            return ", ".join(map(_operand, value))
    return str(value)
