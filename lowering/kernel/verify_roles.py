"""Which warps run what: rules of roles, and of what warpgroups execute together.

Part of ``verify``.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowering.ground.expr import Expr, Special, parts_of
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Body, If, OnWarp, Role, Roles, SetMaxNReg, Stmt
from lowering.kernel.traits import Threads
from lowering.kernel.visit import bodies

__all__ = ["role_rules"]


def role_rules(kernel: Kernel) -> Iterator[str]:
    """Rules that the roles of ``kernel`` break: they divide its warps, each warp has one; what they
    want of registers, each for its own warpgroups, is there.
    """
    yield from _rules(kernel.body, range(kernel.threads // 32), None)
    if (entry := kernel.registers) is not None:
        most, step = kernel.target.registers_at_entry(kernel.threads), kernel.target.register_step
        if entry % step or not 0 < entry <= most:
            yield f"a thread starts with multiples of {step} registers up to {most}, not {entry}"
    for stmt in kernel.body:
        if isinstance(stmt, Roles):
            yield from _budget(kernel, stmt)


def _budget(kernel: Kernel, roles: Roles) -> Iterator[str]:
    """Registers per thread move between warpgroups; a role without ``setmaxnreg`` keeps its own."""
    target, entry = kernel.target, kernel.registers_at_entry
    shares = []
    for role in roles.roles:
        counts = [s.count for s in role.body if isinstance(s, SetMaxNReg)]
        for count in counts:
            if problem := target.count_problem(count):
                yield f"{problem}, not {count}, in: role {role.name}"
        shares.append((32 * role.warps, (counts or [entry])[-1]))
    if problem := target.pool_problem(kernel.threads, tuple(shares), entry):
        yield f"{problem}, in: setmaxnreg of the roles"


def _rules(body: Body, warps: range, within: Role | None) -> Iterator[str]:
    for stmt in body:
        if isinstance(stmt, Roles):
            yield from _divides(stmt, warps)
            for role in stmt.roles:
                yield from _rules(role.body, role.span, role)
            continue
        yield from _who(stmt, within)
        for inner in bodies(stmt):
            yield from _inside(inner, within, isinstance(stmt, OnWarp))


def _inside(body: Body, within: Role | None, alone: bool) -> Iterator[str]:
    """The same for statements in a loop or branch, where no roles are; ``alone`` on one warp."""
    for stmt in body:
        if isinstance(stmt, Roles):
            yield "roles stand in a loop or branch"
            continue
        if alone and stmt.TRAITS.threads is Threads.WARPGROUP:
            yield f"{stmt.OP} needs whole warpgroups, not one warp"
        yield from _who(stmt, within)
        for inner in bodies(stmt):
            yield from _inside(inner, within, alone or isinstance(stmt, OnWarp))


def _who(stmt: Stmt, within: Role | None) -> Iterator[str]:
    """Whole warpgroups where a statement needs them; no condition on warps but roles and ``on``."""
    if stmt.TRAITS.threads is Threads.WARPGROUP and within is not None and not within.whole:
        yield f"{stmt.OP} needs whole warpgroups, role {within.name} is {_warps(within.span)}"
    if isinstance(stmt, If) and _asks_for_warp(stmt.cond):
        yield f"a branch on {stmt.cond}, which roles and `on` say"


def _asks_for_warp(e: Expr) -> bool:
    own = Special("warp"), Special("warpgroup.warp")
    return any(x in own for x in parts_of(e))


def _divides(roles: Roles, warps: range) -> Iterator[str]:
    edge = warps.start
    for role in sorted(roles.roles, key=lambda r: r.first_warp):
        if role.first_warp != edge or role.warps < 1:
            yield f"role {role.name} is {_warps(role.span)}, the next without a role is {edge}"
        if role.group is not None and not role.whole:
            yield f"role {role.name} has a group index, {_warps(role.span)} are no warpgroups"
        edge = role.span.stop
    if edge != warps.stop:
        yield f"roles end with warp {edge}, not {warps.stop}"


def _warps(span: range) -> str:
    return f"warps {span.start} .. {span.stop}"
