"""One order of the steps of several rings, which every part follows.

Two rings are taken *together*, each step of both in one iteration, or one *before* the other in
each iteration of the same loops, in all parts that have to do with both; and befores make no
circle, not by way of what is taken together with others either.
"""

from __future__ import annotations

from dataclasses import dataclass

from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.proof.nest import Loop

__all__ = ["StepOrder", "Taken"]


@dataclass(frozen=True, slots=True)
class Taken:
    """Where a part takes the steps of a ring.

    Args:
        ring: its name.
        tensor: what reads or fills it.
        loops: the loops that step through it.
        at: what orders the places in a part: a step is waited for in front of the loops inside it,
            and filled when they have ended.
    """

    ring: str
    tensor: str
    loops: tuple[Loop, ...]
    at: tuple[int, int]


class StepOrder:
    """What the parts say of the order of steps, pair by pair.

    Args:
        graph: the transform graph, by which loops of several parts are one.
    """

    def __init__(self, graph: TransformGraph) -> None:
        self.graph = graph
        self.said: dict[tuple[str, str], tuple[str, tuple[Group, ...]]] = {}

    def add(self, first: Taken, second: Taken) -> str:
        """One part takes ``first`` in front of ``second``; why that cannot be, or nothing."""
        shared = [a for a, b in zip(first.loops, second.loops, strict=False) if a is b]
        inside = tuple(self.graph.group(x.domain) for x in shared)
        together = len(shared) == len(first.loops) == len(second.loops)
        says = ("together" if together else "before", inside)
        pair = first.ring, second.ring
        before = self.said.setdefault(pair, says)
        turned = self.said.get((pair[1], pair[0]))
        apart = turned is not None and not turned == says == ("together", inside)
        if apart or before != says or self._circular():
            loops = ", ".join(g.label for g in inside) or "no loop"
            return (
                f"{first.tensor} and {second.tensor} take the steps of {first.ring} and "
                f"{second.ring} {says[0] if together else 'one before the other'} inside {loops}, "
                "other parts otherwise: each could wait for what the other holds"
            )
        return ""

    def _circular(self) -> bool:
        """Whether befores make a circle, or are not all inside the same loops."""
        befores = {pair: inside for pair, (how, inside) in self.said.items() if how == "before"}
        if len(set(befores.values())) > 1:
            return True
        behind: dict[str, set[str]] = {}
        for (a, b), (how, _) in self.said.items():
            behind.setdefault(a, set()).add(b)
            if how == "together":
                behind.setdefault(b, set()).add(a)
        return any(a in _reached(behind, b) for a, b in befores)


def _reached(behind: dict[str, set[str]], start: str) -> set[str]:
    found, pending = set[str](), [start]
    while pending:
        ring = pending.pop()
        if ring not in found:
            found.add(ring)
            pending += behind.get(ring, ())
    return found
