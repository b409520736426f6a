"""Steps as loads count them, some of which do not exist, and the same steps without those.

A load loop that was split with a tail and merged again runs over places where nothing is: behind
the end of what was split, which may be the end of all steps, or that of each tile. A share of such
a loop is a share of places; both sides run the steps that are in it. The order is one and the same,
so one number tells them apart: how many steps there are in front of a place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from lowering.ground.expr import ONE, Expr, maximum, minimum
from lowering.ground.poly import same
from wsched.fusion import Merge
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.proof.splits import inner_part

__all__ = ["Counting", "countings", "together"]


@dataclass(frozen=True, slots=True)
class Counting:
    """Loops that count ``steps`` steps in ``places`` places.

    Args:
        places: iterations of the loops.
        steps: how many of them exist.
        levels: the loops outside, and those that count inside each of their steps; None where only
            the last places are empty.
    """

    places: Expr
    steps: Expr
    levels: tuple[Counting, Counting] | None = None

    @property
    def full(self) -> bool:
        """Whether every place is a step."""
        return same(self.places, self.steps)

    def before(self, place: Expr) -> Expr:
        """How many steps there are in front of a place."""
        if self.levels is None:
            return minimum(place, self.steps)
        outer, inner = self.levels
        at, rest = place // inner.places, place % inner.places
        found = outer.before(at) * inner.steps + inner.before(rest)
        end = outer.before(at + 1) * inner.steps
        return minimum(minimum(found, end), self.steps)

    def place(self, step: Expr) -> Expr:
        """Where a step is."""
        if self.levels is None:
            return step
        outer, inner = self.levels
        return outer.place(step // inner.steps) * inner.places + inner.place(step % inner.steps)

    def some(self) -> Counting:
        """The same with one place, which is a step, where there are none."""
        return replace(self, places=maximum(self.places, 1), steps=maximum(self.steps, 1))

    def around(self, inner: Counting) -> Counting:
        """The same with other loops inside each step."""
        places, steps = self.places * inner.places, self.steps * inner.steps
        if inner.full and self.levels is None:
            return Counting(places, steps)
        return Counting(places, steps, (self, inner.some()))


def countings(graph: TransformGraph, loop: Group) -> tuple[tuple[Group, Counting], ...]:
    """A loop in the groups that it was merged from, slowest first, each with how it counts them.

    Parts of a split that stand beside each other, or were merged, are the group that was split.
    Another merge is taken apart where all its places are steps.

    Args:
        graph: the transform graph.
        loop: the loop.
    """
    found = [(loop, Counting(loop.extent, loop.extent))]
    at = 0
    while at < len(found):
        group, counting = found[at]
        step = graph.producer(group)
        if step is None:
            at += 1
        elif isinstance(step.transform, Merge):
            whole = graph.padded(group)
            if whole is not None:
                found[at] = whole, replace(counting, steps=whole.extent)
            elif step.transform.traversal or not counting.full:
                at += 1
            else:
                found[at : at + 1] = [(g, Counting(g.extent, g.extent)) for g in step.inputs]
                at = max(at - 1, 0)
        elif (place := inner_part(graph, [g for g, _ in found], at)) is not None:
            whole, inner = step.inputs[0], found[place][1]
            joined = whole, replace(counting.around(inner), steps=whole.extent)
            found[at : place + 1] = [*found[at + 1 : place], joined]
            at = max(at - 1, 0)
        else:
            at += 1
    return tuple(found)


def together(loops: Sequence[Counting]) -> Counting:
    """Loops one inside the other, outermost first, as one loop; one step of none."""
    return reduce(Counting.around, loops) if loops else Counting(ONE, ONE)
