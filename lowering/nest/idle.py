"""Warpgroups that have nothing of a group's last tile.

A tile of several warpgroups of 64 rows may reach behind the group's end by whole warpgroups. These
multiply nothing and store nothing; they take the steps of the rings in turn and release them, so
that those who load go on. The tensor cores work for the others meanwhile.
"""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.expr import ONE, Var
from lowering.kernel.nodes import Body, Consume, For, Frag, If, Let, Stmt
from lowering.kernel.visit import rename, rewrite, used_in, walk
from lowering.nest.scope import Namer
from wsched.fusion import IterDomain, TensorView
from wsched.schedule.plan import Plan
from wsched.schedule.proof.sides import ROLES

__all__ = ["drained", "shared_dimension", "without_idle"]


def shared_dimension(plan: Plan, lead: TensorView) -> IterDomain | None:
    """The dimension of a sum that both groups and warpgroups share out; None if there is none.

    Args:
        plan: the schedule.
        lead: the sum.
    """
    groups, graph = plan.fusion.groups, plan.graph
    if groups is None or plan.fusion.sums_of_groups or len(plan.computing) > 1:
        return None
    roles = [graph.group(d) for d in lead.loop if d.parallel in ROLES and d.extent != ONE]
    above = set().union(*map(graph.above, roles))
    dims = (d for d in lead.logical if str(d.extent) == groups.along)
    return next((d for d in dims if graph.group(d) in above), None)


def drained(body: Body, namer: Namer) -> Body:
    """What is left of a tile's statements for who has nothing of it: the steps of rings.

    Args:
        body: of the tile.
        namer: for the variables of loops and bindings, which the other branch has as well.
    """
    left = _steps(body)
    bound = [v for s in walk(left) for v in _bound(s)]
    return rename(left, {v: Var(namer.new(v.name), v.type) for v in bound})


def without_idle(body: Body) -> Body:
    """Statements without what those do who have nothing of a tile: branches of steps alone."""

    def alone(stmt: Stmt) -> Body | None:
        if isinstance(stmt, If) and stmt.other and _steps(stmt.other) == stmt.other:
            return (replace(stmt, other=()),)
        return None

    return rewrite(body, alone)


def _bound(stmt: Stmt) -> list[Var]:
    match stmt:
        case Let(var=var):
            return [var]
        case For(var=var, carries=carries):
            made = [v for c in carries for v in (c.var, c.result) if isinstance(v, Var)]
            return [var, *made]
    return []


def _steps(body: Body) -> Body:
    """Steps and the loops and branches that they stand in, with the bindings that these read."""
    kept: list[Stmt] = []
    read = set[str]()
    for stmt in reversed(body):
        new = _step(stmt, read)
        if new is not None:
            kept.append(new)
            read |= used_in((new,))
    return tuple(kept[::-1])


def _step(stmt: Stmt, read: set[str]) -> Stmt | None:
    """What is left of a statement; ``read`` are the names that stand behind it."""
    if isinstance(stmt, Consume) or (isinstance(stmt, Let) and stmt.var.name in read):
        return stmt
    if not any(isinstance(s, Consume) for s in walk((stmt,))):
        return None
    match stmt:
        case For(carries=carries, yields=yields):
            both = zip(carries, yields, strict=True)
            scalars = [pair for pair in both if not isinstance(pair[0].var, Frag)]
            return replace(
                stmt, body=_steps(stmt.body), event=None,
                carries=tuple(c for c, _ in scalars), yields=tuple(y for _, y in scalars),
            )  # fmt: skip
        case If(then=then, other=other):
            return replace(stmt, then=_steps(then), other=_steps(other))
    return None
