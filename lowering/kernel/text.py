"""Kernel IR as text. ``parse_kernel(print_kernel(k)) == k`` for every kernel.

The form follows the dataclasses: ``[result: type =] op operand, ..., keyword=value`` for every
plain statement, and a block form for the control statements (see ``design/0002-kernel-ir.md``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from itertools import repeat

from lowering.ground.expr import ONE, Expr, ScalarType, Var
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    CounterRef,
    Elect,
    For,
    Frag,
    GmemRef,
    GroupPart,
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
    TmemRef,
)
from lowering.kernel.parse import parse_kernel
from lowering.kernel.storage_text import print_entry, print_indices, print_storage
from lowering.target.targets import TARGETS

__all__ = ["Line", "kernel_lines", "parse_kernel", "print_body", "print_kernel", "print_stmt"]

_INDENT = "  "

Line = tuple[str, "Stmt | Role | None"]
"""A line of a kernel's text, and what it is the first line of: None of declarations and brackets.
"""


def print_kernel(kernel: Kernel) -> str:
    """The whole kernel, ending in a newline."""
    return "\n".join(line for line, _ in kernel_lines(kernel)) + "\n"


def kernel_lines(kernel: Kernel) -> Iterator[Line]:
    """The lines of :func:`print_kernel`, each with what begins there."""
    head = f"kernel {kernel.name} threads {kernel.threads}"
    head += "" if kernel.registers is None else f" registers {kernel.registers}"
    head += f" cluster {kernel.cluster}"
    head += f" splits {kernel.splits}" if kernel.splits > 1 else ""
    head += f" share {kernel.share}" if kernel.share else ""
    head += " dependent" if kernel.dependent else ""
    head += "" if kernel.target == TARGETS[0] else f" target {kernel.target.arch}"
    head += f" cta_group {kernel.cta_group.size}" if kernel.cta_group.several else ""
    head += f" grid {kernel.grid}" + ("" if kernel.grid_y == ONE else f", {kernel.grid_y}")
    yield head + " {", None
    yield from _inside(zip(_declarations(kernel), repeat(None)))
    yield from _inside(line for stmt in kernel.body for line in _stmt(stmt))
    yield "}", None


def print_body(body: Body) -> str:
    """Statements only, ending in a newline."""
    return "".join(line + "\n" for stmt in body for line, _ in _stmt(stmt))


def print_stmt(stmt: Stmt) -> str:
    """First line of a statement: what an error message quotes."""
    return next(_stmt(stmt))[0]


def _declarations(kernel: Kernel) -> Iterator[str]:
    for p in kernel.params:
        yield f"param {p.name}: {p.type.value}"
    yield from map(print_storage, kernel.storage)


def _inside(lines: Iterable[Line]) -> Iterator[Line]:
    return ((_INDENT + line, of) for line, of in lines)


def _block(of: Stmt | Role | None, head: str, body: Body, last: str = "") -> Iterator[Line]:
    yield head + " {", of
    for stmt in body:
        yield from _inside(_stmt(stmt))
    if last:
        yield _INDENT + last, None
    yield "}", None


def _stmt(stmt: Stmt) -> Iterator[Line]:
    match stmt:
        case Let(var, value, once):
            yield f"let {_typed(var)} = {value}{' once' if once else ''}", stmt
        case GroupPart(begin, size, whole):
            yield f"group.part {_typed(begin)}, {_typed(size)} of {whole}", stmt
        case For():
            yield from _for(stmt)
        case If(cond, then, other):
            lines = list(_block(stmt, f"if {cond}", then))
            if other:
                lines[-1:] = [("} else {", None), *list(_block(None, "", other))[1:]]
            yield from lines
        case OnWarp(index, body, of):
            yield from _block(stmt, f"on %{of} {index}", body)
        case Elect(body):
            yield from _block(stmt, "elect", body)
        case Section(name, body, groups, group, registers):
            head = f"section {name} groups {groups}" + _as(group) + _registers(registers)
            yield from _block(stmt, head, body)
        case Roles(roles):
            yield "roles {", stmt
            for role in roles:
                yield from _inside(_role(role))
            yield "}", None
        case _:
            yield _plain(stmt), stmt


def _for(stmt: For) -> Iterator[Line]:
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
    yield from _block(stmt, head, stmt.body, yields)


def _role(role: Role) -> Iterator[Line]:
    span = f"{role.first_warp} .. {role.first_warp + role.warps}"
    head = f"role {role.name} warps {span}" + _as(role.group) + _registers(role.registers)
    yield from _block(role, head, role.body)


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
        case SmemRef(buffer, stage, coords) | TmemRef(buffer, stage, coords):
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
