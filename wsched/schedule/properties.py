"""What the results of a schedule's kernel depend on."""

from __future__ import annotations

from lowering.ground.expr import Expr, Special, Var, children
from wsched.fusion import IterType
from wsched.schedule.plan import Plan

__all__ = ["batch_invariant", "deterministic"]


def deterministic(made: Plan) -> bool:
    """Whether equal inputs give equal bits on one device, whatever runs beside the kernel.

    Partial sums of a tile are added in the order of K, by the CTA that its number says, so they do
    unless which steps of K make a part is decided at run time. Nor where rows are added to others,
    as CTAs come.
    """
    return not made.fusion.added and not (made.work.ends_within_tiles and made.work.at_run_time)


def batch_invariant(made: Plan) -> bool:
    """Whether the bits of a row of the result do not depend on other rows, nor on their number.

    They do not where the order in which K is summed is a matter of K alone: no loop over K is as
    long as the number of CTAs or of tiles says, and no CTA's interval of load steps ends within a
    tile; and where no row is added to another.
    """
    if made.fusion.added:
        return False
    acc = made.fusion.tensor(made.operands.compute)
    summed = [d for d in acc.logical if d.iter_type is IterType.Reduction]
    alone = {name for d in summed for name in _leaves(d.extent)}
    loops = [d for d in acc.loop if d.iter_type is IterType.Reduction]
    return not made.work.ends_within_tiles and all(_leaves(d.extent) <= alone for d in loops)


def _leaves(e: Expr) -> set[Expr]:
    """Variables and special registers of an extent."""
    if isinstance(e, Var | Special):
        return {e}
    return {leaf for c in children(e) for leaf in _leaves(c)}
