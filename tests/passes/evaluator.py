"""Executes one role of a kernel on plain integers: which statements, with which scalars."""

from __future__ import annotations

from collections.abc import Iterator

from lowering.ground.expr import Binary, Const, Expr, children, evaluate
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    Elect,
    For,
    Frag,
    If,
    LdGlobalScalar,
    Let,
    MBarrierArrive,
    MBarrierWait,
    OnWarp,
    Roles,
    Stmt,
)

Env = dict[str, int]
Event = tuple[Stmt, Env]


def execute_role(kernel: Kernel, role: str, env: Env, group: int = 0) -> Iterator[Event]:
    """The statements that warpgroup ``group`` of ``role`` executes between top and end."""
    for stmt in kernel.body:
        if isinstance(stmt, Roles):
            found = next(r for r in stmt.roles if r.name == role)
            own = dict(env) | ({found.group.name: group} if found.group else {})
            yield from execute(found.body, own)
        else:
            yield from execute((stmt,), env)


def execute(body: Body, env: Env) -> Iterator[Event]:
    """Every plain statement with the scalars at that point; ``env`` takes the bindings, and has
    what is in memory as ``NAME[INDEX, ...]``.
    """
    for stmt in body:
        match stmt:
            case Let(var, value):
                env[var.name] = evaluate(value, env)
            case If(cond, then, other):
                yield from execute(then if evaluate(cond, env) else other, env)
            case Elect(inner) | OnWarp(body=inner):
                yield from execute(inner, env)
            case For():
                yield from _loop(stmt, env)
            case LdGlobalScalar(out, src):
                at = ", ".join(str(evaluate(e, env)) for e in src.coords)
                env[out.name] = env[f"{src.map}[{at}]"]
            case _:
                yield stmt, dict(env)


def _loop(loop: For, env: Env) -> Iterator[Event]:
    scalars = [
        (carry, value)
        for carry, value in zip(loop.carries, loop.yields, strict=True)
        if not isinstance(carry.init, Frag) and not isinstance(value, Frag)
    ]
    carried = {c.var.name: evaluate(c.init, env) for c, _ in scalars}  # type: ignore[arg-type]
    start, stop, step = (evaluate(e, env) for e in (loop.start, loop.stop, loop.step))
    for i in range(start, stop, step):
        env |= {loop.var.name: i} | carried
        yield from execute(loop.body, env)
        carried = {c.var.name: evaluate(v, env) for c, v in scalars}
    env |= {c.result.name: carried[c.var.name] for c, _ in scalars}


def barriers(k: Kernel, name: str, env: dict[str, int], group: int) -> list[tuple[str, int, int]]:
    """Waits and arrivals of a role: their stages and the parities of waits."""
    found = []
    for stmt, scalars in execute_role(k, name, env, group):
        if isinstance(stmt, (MBarrierWait, MBarrierArrive)):
            parity = evaluate(stmt.parity, scalars) if isinstance(stmt, MBarrierWait) else -1
            found.append((stmt.OP, evaluate(stmt.bar.index, scalars), parity))
    return found


def divides(e: Expr, stages: int) -> bool:
    """Whether an expression divides by the number of stages."""
    match e:
        case Binary("//" | "%" | "stage" | "parity", _, Const(value)) if value == stages:
            return True
    return any(divides(c, stages) for c in children(e))
