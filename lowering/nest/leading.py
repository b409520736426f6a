"""What one CTA does for others that have parts of the same products, and what these do meanwhile.

They do nothing: their operands are read and their sums written where they lie. Only a queue of
tiles is read by all, or none of its entries would ever be free.
"""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.expr import Var
from lowering.kernel.nodes import Body, Break, For, If, NextTile, Stmt
from lowering.kernel.visit import rename, walk
from lowering.nest.scope import Namer
from lowering.nest.shares import group_of
from wsched.schedule.plan import Plan

__all__ = ["led"]


def led(plan: Plan, body: Body, namer: Namer) -> Body:
    """The statements of a part that leaders issue.

    Args:
        plan: the schedule.
        body: of the part.
        namer: for the variables of those who follow.
    """
    group = group_of(plan)
    if not group.several:
        return body
    rest = _followed(body)
    bound = [v for s in walk(rest) for v in _bound(s)]
    return (If(group.leads, body, rename(rest, {v: Var(namer.new(v.name)) for v in bound})),)


def _followed(body: Body) -> Body:
    """The entries of queues, and the loops that these end."""
    kept: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, NextTile | Break):
            kept.append(stmt)
        elif isinstance(stmt, For) and any(isinstance(s, NextTile) for s in walk(stmt.body)):
            kept.append(replace(stmt, body=_followed(stmt.body), event=None))
    return tuple(kept)


def _bound(stmt: Stmt) -> list[Var]:
    match stmt:
        case For(var=var) | NextTile(out=var):
            return [var]
    return []
