"""Tiles that are dealt out at run time: whether a queue can say which one is next.

A queue gives each CTA one tile after the other, any of those that are left, until there are none.
So it can stand where the outermost loop of the load nest counts the tiles of a CTA, and nothing but
the number of the tile says whether there is one: then which tile it is changes nothing of what both
sides count. All compute warpgroups ask, each as often as the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowering.ground.expr import ONE, Expr
from wsched.fusion import ParallelType
from wsched.schedule.graph import Step
from wsched.schedule.proof.bounds import Guard
from wsched.schedule.proof.relation import LoadLoop
from wsched.schedule.proof.sides import Sides

__all__ = ["check_dealt", "find_dealt"]


def find_dealt(sides: Sides) -> Step | None:
    """The split that deals out indices at run time: of the tiles, to CTAs, and only one.

    Raises:
        ScheduleError: ``load-bound``, where there are several, or its inner part is not on CTAs.
    """
    dealt = sides.graph.dealt
    for step in dealt:
        if len(dealt) > 1 or step.outputs[1] not in sides.on_ctas:
            raise sides.refuse(
                "load-bound",
                f"{step.inputs[0].label} are dealt out at run time to {step.outputs[1].label}: "
                "that takes one split of the tiles of all CTAs, whose inner part runs on them",
            )
    return dealt[0] if dealt else None


def check_dealt(
    sides: Sides,
    dealt: Step,
    nest: Sequence[LoadLoop],
    guards: Sequence[Guard],
    entry: Expr | None,
) -> None:
    """A queue can deal the tiles out.

    Args:
        sides: of the edge.
        dealt: the split that does.
        nest: the load loop as loops of its own.
        guards: what ends loops of both sides.
        entry: what must hold for a warpgroup to have anything to compute, None if it always has.

    Raises:
        ScheduleError: ``load-bound``.
    """
    tiles = dealt.inputs[0].label
    why = _problem(dealt, nest, guards, entry)
    if why:
        raise sides.refuse(
            "load-bound",
            f"{tiles} are dealt out at run time, {why}",
            (f"split {tiles} with dynamic=False",),
        )
    for t in (sides.loads[0], sides.compute):
        for d in t.loop:
            aside = d.parallel in (ParallelType.BIDy, ParallelType.BIDz)
            if aside and d.extent != ONE:
                raise sides.refuse(
                    "load-bound",
                    f"{tiles} are dealt out at run time, each to one CTA, but all CTAs of loop "
                    f"{d.label} {d.extent} [{d.parallel}] of {t.name} need the same",
                    (f"split {tiles} with dynamic=False",),
                )


def _problem(
    dealt: Step, nest: Sequence[LoadLoop], guards: Sequence[Guard], entry: Expr | None
) -> str:
    """Why a queue cannot, or nothing; goes on where "are dealt out at run time," ends."""
    (tiles,), tile = dealt.inputs, dealt.outputs[0]
    labels = [n.group.label for n in nest]
    if tile not in [n.group for n in nest]:
        return f"but the load loop counts {', '.join(labels)}, and not {tile.label}"
    if nest[0].group != tile:
        return f"each once, but loop {labels[0]} is outside {tile.label} and would need them again"
    ends = [g for g in guards if tile in g.weights or not g.weights]
    other = next((g for g in ends if g.group != tiles), None)
    if other is not None:
        return (
            f"but whether there is one is said by {other.group.label} < {other.group.extent} "
            "as well, and not by its number alone"
        )
    if entry is not None:
        return f"but only warpgroups where {entry} have any: all have to ask for each"
    return ""
