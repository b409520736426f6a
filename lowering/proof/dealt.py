"""Loops that deal tiles out in turns: how far the next one is ahead of those that were counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowering.ground.expr import Binary, Const, Expr, Var
from lowering.ground.poly import poly
from lowering.proof.bounds import Bounds
from lowering.proof.numbering import depends
from lowering.proof.steps import Scalar

__all__ = ["Dealt", "dealt"]


@dataclass(frozen=True, slots=True)
class Dealt:
    """Of all tiles, which come group by group, every so many-th is one CTA's.

    With ``before`` tiles in front of a group, ``more`` in it and ``by`` CTAs, a CTA whose next tile
    is ``next`` takes ``turns = ceildiv(max(before + more - next, 0), by)`` of it, and yields ``next
    + turns * by``. If ``next`` is ``0 .. by - 1`` ahead of ``before`` so is what is yielded of
    ``before + more``: it is no less than that; and more than ``next`` only by a turn that begins in
    front of it, else, as ``more`` is not negative, no further ahead than ``next`` has been.

    Args:
        next, before: what is carried.
        turns: how many tiles a trip gives the CTA.
        lead: how far ``next`` is ahead when the loop begins.
        more: how many tiles a trip counts.
        by: CTAs, or clusters.
        ahead: a name for how far ``next`` is ahead.
        place: ``next`` by that name.
    """

    next: Var
    before: Var
    turns: Var
    lead: Expr
    more: Expr
    by: Expr
    ahead: Var
    place: Expr


def dealt(
    carried: Sequence[Scalar], bounds: Bounds, inside: frozenset[str] = frozenset()
) -> Sequence[Dealt]:
    """What a loop deals out that carries these; ``bounds`` knows what names stand for, ``inside``
    are those that have a value of their own in each trip, by which turns are not counted.
    """
    found: list[Dealt] = []
    for c in carried:
        match c.following:
            case Binary("+", Var() as own, Binary("*", Var() as turns, by)) if own == c.var:
                if depends(by, inside, bounds.lets):
                    continue
                match bounds.rounded_up(turns):
                    case (left, n) if bounds.apart(n, by) == 0:
                        left = bounds.lets.get(left, left) if isinstance(left, Var) else left
                    case _:
                        continue
                for s in carried:
                    wanted = poly(s.following - c.var)
                    match left:
                        case Binary("max", x, Const(0)) if poly(x) == wanted and s is not c:
                            more = (poly(s.following) - poly(s.var)).expr()
                            ahead = Var(f"{c.var.name} ahead of {s.var.name}")
                            place = s.var + ahead
                            lead = c.init - s.init
                            dealt_ = Dealt(c.var, s.var, turns, lead, more, by, ahead, place)
                            found.append(dealt_)
    return found
