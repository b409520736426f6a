"""Rules for scalars, loops, branches and roles: ``scf``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowering.ground.errors import InternalError
from lowering.ground.expr import Const, Expr, Special, Var, as_expr
from lowering.kernel.group_part import GroupPart, arithmetic
from lowering.kernel.nodes import (
    Body,
    Break,
    Carry,
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
from lowering.mlir.emitter import Emitter, Rule
from lowering.mlir.ssa import I1, SCALARS, Value

__all__ = ["RULES"]

_ONCE = "#llvm.loop_annotation<unroll = <disable = true>>"
"""What the CUDA text says by ``#pragma unroll 1``."""


def _let(e: Emitter, s: Let) -> None:
    value = e.expr(s.value)
    if s.once:
        # Without it the compiler may compute the value again where it is used.
        value = e.word(e.asm("", tied=[value], memory=False)[0])
    e.define(s.var, value)


def _part(e: Emitter, s: GroupPart) -> None:
    for let in arithmetic(s, e.kernel.share):
        _let(e, let)


# --- loops ------------------------------------------------------------------------------------


def _for(e: Emitter, s: For) -> None:
    if s.unroll:
        _unrolled(e, s)
    elif any(isinstance(stmt, Break) for stmt in s.body):
        _left(e, s)
    else:
        _counted(e, s)


def _unrolled(e: Emitter, s: For) -> None:
    start, stop, step = (e.number(x, f"of {s.var.name}") for x in (s.start, s.stop, s.step))
    now: Sequence[Expr | Frag] = [c.init for c in s.carries]
    for at in range(start, stop, step):
        e.fixed[s.var] = Const(at)
        _enter(e, s.carries, _carried(e, now))
        e.body(s.body)
        now = s.yields
    _leave(e, s.carries, _carried(e, now))
    e.fixed.pop(s.var, None)


def _counted(e: Emitter, s: For) -> None:
    """``scf.for``."""
    kind = SCALARS[s.var.type]
    start, stop, step = e.expr(s.start), e.expr(s.stop), e.expr(s.step)
    inits = _carried(e, [c.init for c in s.carries])
    results, last = e.out.results([v.type for v in inits])
    i = Value(e.out.name(s.var.name), kind)
    inside = _fresh(e, _carry_names(s.carries), inits)
    types = ", ".join(v.type for v in inits)
    carried = f" iter_args({_given(inside, inits)}) -> ({types})" if inits else ""
    head = f"{results}scf.for {i} = {start} to {stop} step {step}{carried} : {kind}"
    with e.region(head, f"}} {{loop_annotation = {_ONCE}}}"):
        e.define(s.var, i)
        _enter(e, s.carries, inside)
        e.body(s.body)
        _yield(e, _carried(e, s.yields))
    _leave(e, s.carries, last)


def _left(e: Emitter, s: For) -> None:
    """``scf.while`` with an ``i1`` that says to go on, for a body with breaks."""
    kind = SCALARS[s.var.type]
    stop = e.expr(s.stop)
    inits = [e.expr(s.start), e.out.truth(True), *_carried(e, [c.init for c in s.carries])]
    types = ", ".join(v.type for v in inits)
    results, last = e.out.results([v.type for v in inits])
    names = _fresh(e, _names(s), inits)
    head = f"{results}scf.while ({_given(names, inits)}) : ({types}) -> ({types})"
    with e.region(head, "} do {"):
        below = e.out.op(f"arith.cmpi slt, {names[0]}, {stop} : {kind}", I1)
        more = e.out.op(f"arith.andi {names[1]}, {below} : i1", I1)
        e.out.line(f"scf.condition({more}) {', '.join(map(str, names))} : {types}")
    names = _fresh(e, _names(s), inits)
    e.out.line(f"^bb0({', '.join(f'{v}: {v.type}' for v in names)}):")
    with e.inside(f"}} attributes {{loop_annotation = {_ONCE}}}"):
        e.define(s.var, names[0])
        _enter(e, s.carries, names[2:])
        _until_break(e, s, s.body, [names[0], e.out.truth(False), *names[2:]])
    _leave(e, s.carries, last[2:])


def _until_break(e: Emitter, s: For, body: Body, left: list[Value]) -> None:
    """The statements of a body, what stands behind a break in a branch; then the yield."""
    at = next((i for i, stmt in enumerate(body) if isinstance(stmt, Break)), None)
    if at is None:
        e.body(body)
        after = e.expr(s.var + s.step)
        _yield(e, [after, e.out.truth(True), *_carried(e, s.yields)])
        return
    e.body(body[:at])
    stmt = body[at]
    assert isinstance(stmt, Break)
    types = [v.type for v in left]
    results, chosen = e.out.results(types)
    with e.region(f"{results}scf.if {e.expr(stmt.cond)} -> ({', '.join(types)})", "} else {"):
        _yield(e, left)
    with e.inside("}"):
        _until_break(e, s, body[at + 1 :], left)
    _yield(e, chosen)


def _names(s: For) -> list[str]:
    return [s.var.name, "go", *_carry_names(s.carries)]


def _carry_names(carries: Sequence[Carry]) -> list[str]:
    """A name for each value that goes around: of a fragment one for each block of rows."""
    found = []
    for c in carries:
        blocks = c.var.type.blocks if isinstance(c.var, Frag) else 1
        found += [c.var.name] * blocks
    return found


def _fresh(e: Emitter, names: Sequence[str], like: Sequence[Value]) -> list[Value]:
    """New values of the same types."""
    return [Value(e.out.name(n), v.type) for n, v in zip(names, like, strict=True)]


def _given(names: Sequence[Value], values: Sequence[Value]) -> str:
    """How an operation says what arguments of its region are at first."""
    return ", ".join(f"{a} = {b}" for a, b in zip(names, values, strict=True))


def _carried(e: Emitter, values: Sequence[Expr | Frag]) -> list[Value]:
    """What goes around for these: a fragment as a value for each block of rows."""
    found = []
    for value in values:
        if isinstance(value, Frag):
            found += [e.packed(block) for block in e.registers(value)]
        else:
            found.append(e.expr(value))
    return found


def _enter(e: Emitter, carries: Sequence[Carry], values: Sequence[Value]) -> None:
    _bind(e, [c.var for c in carries], values)


def _leave(e: Emitter, carries: Sequence[Carry], values: Sequence[Value]) -> None:
    _bind(e, [c.result for c in carries], values)


def _bind(e: Emitter, names: Sequence[Var | Frag], values: Sequence[Value]) -> None:
    """Give carried values to what names them, all at once."""
    left = iter(values)
    for name in names:
        if isinstance(name, Frag):
            blocks, each = range(name.type.blocks), name.type.block_registers
            e.keep(name, tuple(e.unpacked(next(left), each) for _ in blocks))
        else:
            e.define(name, next(left))


def _yield(e: Emitter, values: Sequence[Value]) -> None:
    if values:
        types = ", ".join(v.type for v in values)
        e.out.line(f"scf.yield {', '.join(map(str, values))} : {types}")


# --- branches ---------------------------------------------------------------------------------


def _break(e: Emitter, s: Break) -> None:
    raise InternalError("emit_mlir", "a break stands in no loop's body")


def _if(e: Emitter, s: If) -> None:
    with e.region(f"scf.if {e.expr(s.cond)}", "} else {" if s.other else "}"):
        e.body(s.then)
    if s.other:
        with e.inside("}"):
            e.body(s.other)


def _on_warp(e: Emitter, s: OnWarp) -> None:
    _if(e, If(s.cond, s.body))


def _elect(e: Emitter, s: Elect) -> None:
    elected = e.out.op("nvvm.elect.sync -> i1", I1)
    with e.region(f"scf.if {elected}"):
        e.body(s.body)
    # What follows may be .aligned (wgmma, stmatrix, barriers, the next elect): all lanes together.
    e.out.line(f"nvvm.bar.warp.sync {e.out.constant(-1)} : i32")


def _roles(e: Emitter, s: Roles) -> None:
    """One chain of branches on the warp index: ptxas follows setmaxnreg through no other form."""
    roles = sorted(s.roles, key=lambda r: r.first_warp)
    edges = [e.warps.start, *(role.first_warp + role.warps for role in roles)]
    if [role.first_warp for role in roles] != edges[:-1] or edges[-1] != e.warps.stop:
        raise InternalError("emit_mlir", "the warps of roles do not tile those around them")
    _chain(e, roles)


def _chain(e: Emitter, roles: Sequence[Role]) -> None:
    first, *others = roles
    if not others:
        _role(e, first)
        return
    below = e.expr(Special("warp") < first.first_warp + first.warps)
    with e.region(f"scf.if {below}", "} else {"):
        _role(e, first)
    with e.inside("}"):
        _chain(e, others)


def _role(e: Emitter, role: Role) -> None:
    e.out.line(f"// role {role.name}: warps {role.first_warp} to {role.span[-1]}")
    if role.group is not None:
        index = (Special("warp") - role.first_warp) // 4 if role.warps > 4 else as_expr(0)
        e.define(role.group, e.expr(index))
    e.role(role)


def _setmaxnreg(e: Emitter, s: SetMaxNReg) -> None:
    e.out.line(f"nvvm.setmaxregister {'increase' if s.action == 'inc' else 'decrease'} {s.count}")


RULES: Mapping[type[Stmt], Rule] = {
    GroupPart: _part, Let: _let, For: _for, Break: _break, If: _if, OnWarp: _on_warp, Elect: _elect,
    Roles: _roles, SetMaxNReg: _setmaxnreg,
}  # fmt: skip
