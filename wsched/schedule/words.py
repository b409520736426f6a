"""Words for loops in refusals: two loops that differ are never called by the same word."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from wsched.fusion import IterDomain, Merge
from wsched.schedule.graph import Group, Step, TransformGraph

__all__ = ["Named", "labels", "runs", "words"]

Named = tuple[Group, str]
"""A loop and what it is called as long as no other one is called so."""


def labels(graph: TransformGraph, loops: Iterable[IterDomain]) -> list[Named]:
    """Loops by their labels, ``tile``."""
    return [(graph.group(d), d.label) for d in loops]


def runs(graph: TransformGraph, loops: Iterable[IterDomain]) -> list[Named]:
    """Loops by their labels and what runs them, ``group [TIDy]``."""
    return [(graph.group(d), f"{d.label} [{d.parallel}]") for d in loops]


def words(graph: TransformGraph, *sides: Sequence[Named]) -> tuple[list[str], ...]:
    """What to call the loops of several tensors in one sentence.

    A name that different loops have is followed by their extents, where these are the same by the
    transforms that made the loops, and by the loops' variables where nothing else tells them apart.

    Args:
        graph: the transform graph that says which loops are one.
        sides: the loops of each tensor, as they are listed.
    """
    alike: dict[str, dict[Group, None]] = {}
    for side in sides:
        for group, name in side:
            alike.setdefault(name, {})[group] = None
    known = {name: _apart(graph, list(groups)) for name, groups in alike.items()}
    return tuple([name + known[name][group] for group, name in side] for side in sides)


def _apart(graph: TransformGraph, groups: list[Group]) -> dict[Group, str]:
    """What to add to the one name of these loops."""
    if len(groups) == 1:
        return {groups[0]: ""}
    for note in (_extent, _origin(graph)):
        found = {g: f" ({note(g)})" for g in groups}
        if len(set(found.values())) == len(groups):
            return found
    return {g: f" (i{g.id})" for g in groups}


def _extent(g: Group) -> str:
    return f"extent {g.extent}"


def _origin(graph: TransformGraph) -> Callable[[Group], str]:
    def made(g: Group) -> str:
        step = graph.producer(g)
        return "a dimension" if step is None else _made(step, g)

    return made


def _made(step: Step, g: Group) -> str:
    """Which part of a split, or what is merged."""
    if isinstance(step.transform, Merge):
        return "merge of " + " and ".join(map(str, step.inputs))
    part = "outer" if g == step.outputs[0] else "inner"
    return f"{part} part of {step.inputs[0]}, {step}"
