"""Rules for scalars, loops, branches and roles."""

from __future__ import annotations

from collections.abc import Mapping

from lowering.cuda.emitter import Emitter, Rule
from lowering.cuda.expressions import C_TYPES
from lowering.ground.errors import InternalError
from lowering.ground.expr import ONE, Const, Expr, Special, Var, as_expr, free_vars
from lowering.kernel.group_part import GroupPart, arithmetic
from lowering.kernel.nodes import (
    Break,
    Elect,
    For,
    Frag,
    If,
    Let,
    OnWarp,
    Role,
    Roles,
    SetMaxNReg,
    Stmt,
)

__all__ = ["RULES"]


def _let(e: Emitter, s: Let) -> None:
    value = f"ptx::once({e.arg(s.value)})" if s.once else e.arg(s.value)
    e.out.line(f"const {C_TYPES[s.var.type]} {e.names.define('scalar', s.var.name)} = {value};")


def _part(e: Emitter, s: GroupPart) -> None:
    for let in arithmetic(s, e.kernel.share):
        _let(e, let)


def _for(e: Emitter, s: For) -> None:
    scalars = _scalar_carries(s)
    inits = [(var, e.arg(init)) for var, init, _, _ in scalars]
    start, stop, step = e.arg(s.start), e.expr(s.stop), e.arg(s.step)
    if not isinstance(s.stop, (Const, Var)):
        bound = e.names.fresh(f"{s.var.name}_stop")
        e.out.line(f"const {C_TYPES[s.var.type]} {bound} = {e.arg(s.stop)};")
        stop = bound
    for frag in e.reads.carried[s.var.name]:
        e.keep(frag)
    for var, init in inits:
        e.out.line(f"{C_TYPES[var.type]} {e.names.define('scalar', var.name)} = {init};")
    constant = all(isinstance(x, Const) for x in (s.start, s.stop, s.step))
    if s.unroll and not constant:
        raise InternalError("emit_cuda", f"unrolled loop {s.var.name} has no constant bounds")
    i = e.names.define("scalar", s.var.name)
    increment = f"++{i}" if s.step == ONE else f"{i} += {step}"
    if s.carries:
        e.out.line(f"// {s.var.name} carries {', '.join(c.var.name for c in s.carries)}")
    e.out.line("#pragma unroll" if s.unroll else "#pragma unroll 1")
    head = f"for ({C_TYPES[s.var.type]} {i} = {start}; {i} < {stop}; {increment})"
    with e.out.block(head):
        e.body(s.body)
        _yield(e, [(var, value) for var, _, _, value in scalars])
    for var, _, result, _ in scalars:
        if result.name in e.read:
            name = e.names.define("scalar", result.name)
            e.out.line(f"const {C_TYPES[var.type]} {name} = {e.expr(var)};")


def _scalar_carries(s: For) -> list[tuple[Var, Expr, Var, Expr]]:
    """(var, init, result, yield) of the carried scalars; fragments need no code."""
    scalars: list[tuple[Var, Expr, Var, Expr]] = []
    for c, last in zip(s.carries, s.yields, strict=True):
        kinds = {isinstance(x, Frag) for x in (c.var, c.init, c.result, last)}
        if len(kinds) != 1:
            raise InternalError("emit_cuda", f"loop {s.var.name} carries a scalar as a fragment")
        if (
            isinstance(c.var, Var)
            and isinstance(c.result, Var)
            and isinstance(c.init, Expr)
            and isinstance(last, Expr)
        ):
            scalars.append((c.var, c.init, c.result, last))
    return scalars


def _yield(e: Emitter, pairs: list[tuple[Var, Expr]]) -> None:
    """Assign the next carried values at once, through temporaries where one reads another."""
    pairs = [(var, value) for var, value in pairs if var != value]
    written: set[Var] = set()
    parallel = False
    for var, value in pairs:
        parallel = parallel or bool(free_vars(value) & written)
        written.add(var)
    if not parallel:
        for var, value in pairs:
            e.out.line(f"{e.expr(var)} = {e.arg(value)};")
        return
    temporaries = [(e.expr(var), e.names.fresh(f"next_{var.name}")) for var, _ in pairs]
    for (var, value), (_, name) in zip(pairs, temporaries, strict=True):
        e.out.line(f"const {C_TYPES[var.type]} {name} = {e.arg(value)};")
    for target, name in temporaries:
        e.out.line(f"{target} = {name};")


def _break(e: Emitter, s: Break) -> None:
    e.out.line(f"if ({e.arg(s.cond)}) break;")


def _if(e: Emitter, s: If) -> None:
    with e.out.block(f"if ({e.arg(s.cond)})"):
        e.body(s.then)
    if s.other:
        with e.out.block("else"):
            e.body(s.other)


def _on_warp(e: Emitter, s: OnWarp) -> None:
    match s.body:
        case (If(cond, then, ()),):
            _if(e, If(s.cond.logical_and(cond), then))
        case _:
            _if(e, If(s.cond, s.body))


def _elect(e: Emitter, s: Elect) -> None:
    with e.out.block("if (ptx::elect())"):
        e.elected = True
        e.body(s.body)
        e.elected = False
    # What follows may be .aligned (wgmma, stmatrix, barriers, the next elect): all lanes together.
    e.out.line("__syncwarp();")


def _roles(e: Emitter, s: Roles) -> None:
    outer, roles = e.warps, sorted(s.roles, key=lambda r: r.first_warp)
    edge = outer.start
    for role in roles:
        if role.first_warp != edge:
            raise InternalError("emit_cuda", f"role {role.name}: warps do not tile the CTA")
        edge += role.warps
    if edge != outer.stop:
        raise InternalError("emit_cuda", f"roles cover {edge} of {outer.stop} warps")
    e.special("warp")
    for role in roles:
        e.warps = role.span
        _role(e, role, first=role is roles[0], last=role is roles[-1])
    e.warps = outer


def _role(e: Emitter, role: Role, *, first: bool, last: bool) -> None:
    end = role.first_warp + role.warps
    e.out.line(f"// role {role.name}: warps {role.first_warp} to {end - 1}")
    # One chain of branches on the warp index: ptxas follows setmaxnreg through no other form.
    test = f"if (warp < {end})"
    head = "" if first and last else test if first else "else" if last else f"else {test}"
    begin = len(e.out.lines) - 1
    with e.out.block(head):
        if role.group is not None:
            index = (Special("warp") - role.first_warp) // 4 if role.warps > 4 else as_expr(0)
            _let(e, Let(role.group, index))
        e.body(role.body)
    e.spans.append((begin, len(e.out.lines), role))


def _setmaxnreg(e: Emitter, s: SetMaxNReg) -> None:
    e.out.line(f"ptx::setmaxnreg_{s.action}<{s.count}>();")


RULES: Mapping[type[Stmt], Rule] = {
    GroupPart: _part, Let: _let, For: _for, Break: _break, If: _if, OnWarp: _on_warp, Elect: _elect,
    Roles: _roles, SetMaxNReg: _setmaxnreg,
}  # fmt: skip
