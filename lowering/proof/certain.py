"""What of a program is sure to be executed, and how often: inits of mbarriers, and their fence.

A condition that is a number is decided, as one on the rank of a CTA is in the program of a warp.
Of a loop the trips are known if its bounds are numbers and nothing leaves it. Everything else may
be executed at some sizes and in some CTAs, so nothing rests on it.
"""

from __future__ import annotations

from collections.abc import Mapping

from lowering.ground.expr import Const, Expr, Var, substitute
from lowering.kernel.control import Break, Elect, For, If
from lowering.kernel.operands import Body, Stmt
from lowering.kernel.visit import walk

__all__ = ["Values", "runs"]

Values = Mapping[Var, Expr]

_TRIPS = 4096
"""More of them are not followed: no array has as many stages."""


def runs(stmt: Stmt, values: Values) -> list[tuple[Body, Values]] | None:
    """What a statement executes of what stands in it, one behind the other, each with the values of
    loops' variables; None where that is not known.
    """
    match stmt:
        case Elect(body):
            return [(body, values)]
        case If(cond, then, other):
            truth = substitute(cond, values)
            return [(then if truth.value else other, values)] if isinstance(truth, Const) else None
        case For(var=var, body=body) if not any(isinstance(s, Break) for s in walk(body)):
            bounds = [substitute(e, values) for e in (stmt.start, stmt.stop, stmt.step)]
            first, stop, step = (e.value if isinstance(e, Const) else None for e in bounds)
            if first is None or stop is None or not step or step < 0:
                return None
            trips = range(first, stop, step)
            if len(trips) <= _TRIPS:
                return [(body, {**values, var: Const(n)}) for n in trips]
    return None
