"""Bindings, loops, branches, roles and registers on the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from lowering.ground.expr import Expr, Var
from lowering.ground.sharing import INTEGERS
from lowering.kernel.group_part import GroupPart
from lowering.kernel.nodes import Body, Break, Elect, For, Frag, If, Let, OnWarp, Roles, SetMaxNReg
from lowering.machine.errors import FaultError
from lowering.machine.program import Code, Program, Run, execute
from lowering.machine.scalars import Scalar, bind
from lowering.machine.scheduler import Blocked, Steps
from lowering.machine.state import Fragment, Warp

__all__ = ["elect", "for_", "if_", "let", "on_warp", "part", "roles", "setmaxnreg"]


def let(stmt: Let, program: Program) -> Run:
    """``let``."""
    value, var = program.scalar(stmt.value), stmt.var

    def run(warp: Warp) -> None:
        bind(warp.env, var, value(warp.env))

    return run


def part(stmt: GroupPart, program: Program) -> Run:
    """``group.part``, by the kernel's share."""
    whole, share = program.scalar(stmt.whole), program.kernel.share

    def run(warp: Warp) -> None:
        size = whole(warp.env)
        if size < 0:
            raise FaultError(f"{stmt.whole} is {size}, a group has no fewer elements than none")
        found = share.part(size, INTEGERS)
        bind(warp.env, stmt.begin, found.begin)
        bind(warp.env, stmt.size, found.size)

    return run


def for_(stmt: For, program: Program, turns: Callable[[range], Iterable[int]] = iter) -> Run:
    """``for``: the bounds are read once, all carried values change together; with ``break``.

    ``turns`` says which iterations are executed of those that there are.
    """
    start, stop, step = (program.scalar(e) for e in (stmt.start, stmt.stop, stmt.step))
    parts = _parts(stmt.body, program)
    inits = _values(tuple(c.init for c in stmt.carries), program)
    yields = _values(stmt.yields, program)
    inside = tuple(c.var for c in stmt.carries)
    after = tuple(c.result for c in stmt.carries)
    names = [stmt.var.name, *(v.name for v in inside if isinstance(v, Var))]

    def run(warp: Warp) -> Iterator[Blocked | None]:
        env = warp.env
        first, last, by = start(env), stop(env), step(env)
        if by < 1:
            raise FaultError(f"the step of the loop over {stmt.var.name} is {by}")
        values = _get(warp, inits)
        warp.loops += names
        for i in turns(range(first, last, by)):
            bind(env, stmt.var, i)
            _set(warp, inside, values)
            for code, leaves in parts:
                yield from execute(warp, code)
                warp.stmt = stmt
                if leaves is not None and leaves(env):
                    break
            else:
                values = _get(warp, yields)
                continue
            break
        del warp.loops[len(warp.loops) - len(names) :]
        _set(warp, after, values)

    return run


def _parts(body: Body, program: Program) -> list[tuple[Code, Scalar | None]]:
    """A loop's body in parts, each up to a ``break`` and its condition, the last one to the end."""
    ends = [i for i, s in enumerate(body) if isinstance(s, Break)]
    parts: list[tuple[Code, Scalar | None]] = []
    start = 0
    for end in ends:
        leave = body[end]
        assert isinstance(leave, Break)
        parts.append((program.body(body[start:end]), program.scalar(leave.cond)))
        start = end + 1
    return [*parts, (program.body(body[start:]), None)]


def _values(values: tuple[Expr | Frag, ...], program: Program) -> tuple[Scalar | Frag, ...]:
    return tuple(v if isinstance(v, Frag) else program.scalar(v) for v in values)


def _get(warp: Warp, values: tuple[Scalar | Frag, ...]) -> tuple[int | Fragment, ...]:
    return tuple(warp.value(v) if isinstance(v, Frag) else v(warp.env) for v in values)


def _set(warp: Warp, targets: tuple[Var | Frag, ...], values: tuple[int | Fragment, ...]) -> None:
    for target, value in zip(targets, values, strict=True):
        if isinstance(value, Fragment):
            warp.fragments[target.name] = value
        elif isinstance(target, Var):
            bind(warp.env, target, value)


def if_(stmt: If, program: Program) -> Run:
    """``if``; the condition has one value for the warp."""
    cond, then, other = (
        program.scalar(stmt.cond), program.body(stmt.then), program.body(stmt.other),
    )  # fmt: skip

    def run(warp: Warp) -> Steps:
        return execute(warp, then if cond(warp.env) else other)

    return run


def on_warp(stmt: OnWarp, program: Program) -> Run:
    """``on``: nothing for all other warps."""
    body = program.body(stmt.body)

    def run(warp: Warp) -> Steps | None:
        return execute(warp, body) if stmt.runs(warp.index) else None

    return run


def elect(stmt: Elect, program: Program) -> Run:
    """``elect``: lane 0 runs the body."""
    body = program.body(stmt.body)

    def run(warp: Warp) -> Iterator[Blocked | None]:
        warp.known.meet(warp.scheduler.events.moments)
        warp.elected = True
        warp.env["%lane"] = 0
        yield from execute(warp, body)
        warp.elected = False
        del warp.env["%lane"]

    return run


def roles(stmt: Roles, program: Program) -> Run:
    """``roles``: each warp runs the one role that has it."""
    codes = tuple((role, program.body(role.body)) for role in stmt.roles)

    def run(warp: Warp) -> Iterator[Blocked | None]:
        mine = [(role, code) for role, code in codes if warp.index in role.span]
        if len(mine) != 1:
            names = " and ".join(role.name for role, _ in mine) or "no role"
            raise FaultError(f"warp {warp.index} runs {names}, not exactly one role")
        role, code = mine[0]
        outer = warp.role, warp.group
        warp.role, warp.group = role.name, (warp.index - role.first_warp) // 4
        if role.group is not None:
            bind(warp.env, role.group, warp.group)
        yield from execute(warp, code)
        warp.role, warp.group = outer

    return run


def setmaxnreg(stmt: SetMaxNReg, program: Program) -> Run:
    """``setmaxnreg``: ``dec`` gives registers to the CTA's pool, ``inc`` waits for them."""
    count, inc = stmt.count, stmt.action == "inc"
    problem = program.kernel.target.count_problem(count)

    def run(warp: Warp) -> Iterator[Blocked | None]:
        if problem is not None:
            raise FaultError(problem)
        if count < warp.registers if inc else count > warp.registers:
            raise FaultError(f"setmaxnreg.{stmt.action} to {count} from {warp.registers} registers")
        warp.cta.together(warp, stmt)
        pool, wanted = warp.cta.pool, 32 * (count - warp.registers)
        while wanted > pool.free:
            yield Blocked(pool, lambda: f"{wanted} registers: the pool has {pool.free}")
        pool.free -= wanted
        warp.registers = count
        pool.wake(warp.scheduler)
        yield None

    return run
