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
    OnWarp,
    PartialRef,
    Role,
    Roles,
    Section,
    SmemRef,
    Stmt,
)
from lowering.kernel.parse import parse_kernel
from lowering.kernel.storage_text import print_entry, print_indices, print_storage
from lowering.target.targets import TARGETS

__all__ = ["parse_kernel", "print_body", "print_kernel", "print_stmt"]

_INDENT = "  "


def print_kernel(kernel: Kernel) -> str:
    """The whole kernel, ending in a newline."""
    head = f"kernel {kernel.name} threads {kernel.threads} cluster {kernel.cluster}"
    head += f" splits {kernel.splits}" if kernel.splits > 1 else ""
    head += " dependent" if kernel.dependent else ""
    head += "" if kernel.target == TARGETS[0] else f" target {kernel.target.arch}"
    head += f" grid {kernel.grid}" + ("" if kernel.grid_y == ONE else f", {kernel.grid_y}")
    lines = [head + " {", *(_INDENT + line for line in _declarations(kernel))]
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
    yield from map(print_storage, kernel.storage)


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
        case OnWarp(index, body, of):
            yield from _block(f"on %{of} {index}", body)
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
    head += "" if stmt.event is None else f" event {stmt.event.name} {stmt.event.tile}"
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
            return f"{buffer}{print_indices((stage, *coords))}"
        case GmemRef(name, coords, entry):
            return f"{name}{print_entry(entry)}{print_indices(coords)}"
        case MapRef(name, entry):
            return f"{name}{print_entry(entry)}"
        case MBarrierRef(name, index) | NamedBarrierRef(name, index):
            return f"{name}[{index}]"
        case CounterRef(name, index) | PartialRef(name, index):
            return f"{name}[{index}]"
        case tuple():
            return ", ".join(map(_operand, value))
    return str(value)
