"""The program of each warp: a kernel without what other warps execute, and with the index of its
group and the rank of its CTA in the cluster as numbers.

Warps of a CTA that execute the same are one *agent*. What is proved of its program holds for each
of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lowering.ground.expr import Const, Special, substitute
from lowering.kernel.control import OnWarp, Role, Roles
from lowering.kernel.kernel import Kernel
from lowering.kernel.operands import Body, Stmt
from lowering.kernel.visit import map_bodies, map_exprs, rename
from lowering.target import ptx

__all__ = ["Agent", "agents"]


@dataclass(frozen=True, slots=True)
class Agent:
    """Warps that execute the same program.

    Args:
        role: the innermost role that they are in; empty where a kernel has none.
        group: index of their warpgroup in that role, if it has such.
        warps: their numbers in the CTA.
        rank: of the CTA in its cluster.
        body: what each of them executes, from the first statement of the kernel to the last.
    """

    role: str
    group: int | None
    warps: tuple[int, ...]
    rank: int
    body: Body

    @property
    def warpgroups(self) -> tuple[int, ...]:
        """The warpgroups of its CTA that its warps are in."""
        return tuple(sorted({warp // ptx.WARPS for warp in self.warps}))

    def __str__(self) -> str:
        group = "" if self.group is None else f", group {self.group}"
        last = f"..{self.warps[-1]}" if len(self.warps) > 1 else ""
        rank = f"CTA {self.rank} " if self.rank else ""
        warps = f"warp{'s' if last else ''} {self.warps[0]}{last}"
        return f"{rank}role {self.role or 'all'}{group}, {warps}"


def agents(kernel: Kernel) -> tuple[Agent, ...]:
    """The agents of all CTAs of a cluster, by CTA and first warp."""
    return tuple(a for rank in range(kernel.cluster) for a in _agents(kernel, rank))


def _agents(kernel: Kernel, rank: int) -> Iterator[Agent]:
    found: dict[tuple[str, int | None, Body], Agent] = {}
    whole = _of_rank(kernel.body, rank) if kernel.cluster > 1 else kernel.body
    for warp in range(kernel.threads // 32):
        role, group = _place(whole, warp)
        body = tuple(_executed(whole, warp))
        key = role, group, body
        old = found.get(key)
        warps = (warp,) if old is None else (*old.warps, warp)
        found[key] = Agent(role, group, warps, rank, body)
    yield from found.values()


def _of_rank(body: Body, rank: int) -> Body:
    """A program with the rank of its CTA as a number."""
    known = {Special("cluster.ctarank"): Const(rank)}

    def put(stmt: Stmt) -> Stmt:
        return map_bodies(map_exprs(stmt, lambda e: substitute(e, known)), all_of)

    def all_of(inner: Body) -> Body:
        return tuple(map(put, inner))

    return all_of(body)


def _place(body: Body, warp: int) -> tuple[str, int | None]:
    for stmt in body:
        for role in stmt.roles if isinstance(stmt, Roles) else ():
            if warp in role.span:
                inner, group = _place(role.body, warp)
                own = None if role.group is None else _group(role, warp)
                return inner or role.name, own if group is None else group
    return "", None


def _group(role: Role, warp: int) -> int:
    return (warp - role.first_warp) // 4


def _executed(body: Body, warp: int) -> Iterator[Stmt]:
    """What one warp executes of a statement list."""
    for stmt in body:
        if isinstance(stmt, OnWarp):
            if stmt.runs(warp):
                yield from _executed(stmt.body, warp)
        elif isinstance(stmt, Roles):
            for role in stmt.roles:
                if warp in role.span:
                    yield from _executed(_of_group(role, warp).body, warp)
        else:
            yield map_bodies(stmt, lambda inner: tuple(_executed(inner, warp)))


def _of_group(role: Role, warp: int) -> Role:
    if role.group is None:
        return role
    return replace(role, body=rename(role.body, {role.group: Const(_group(role, warp))}))
