"""What the passes ask of unrolled loops over chunks of a tile's columns."""

from __future__ import annotations

from lowering.ground.expr import ONE, ZERO, Const, Expr, Var, free_vars
from lowering.ground.poly import linear_in
from lowering.kernel.nodes import For

__all__ = ["lie_side_by_side", "trips_of"]


def trips_of(loop: For) -> int:
    """Trips of an unrolled loop from 0 by 1, 0 of any other."""
    fixed = loop.unroll and loop.start == ZERO and loop.step == ONE
    return loop.stop.value if fixed and isinstance(loop.stop, Const) else 0


def lie_side_by_side(coords: tuple[Expr, ...], cols: int, var: Var) -> bool:
    """Whether trips access ``cols`` columns each of the same rows, one behind the other.

    Args:
        coords: of the first element that a trip accesses, the column last.
        cols: how many.
        var: the loop's variable.
    """
    *outer, col = coords
    found = linear_in(col, (var,))
    steps = None if found is None else found[0][var].constant()
    return steps == cols and not any(var in free_vars(x) for x in outer)
