"""The indices of all groups that some determine, along the transform graph, both ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush

from lowering.ground.expr import ONE, ZERO, Expr
from wsched.fusion import Merge, Split, merge_index, unmerge_index
from wsched.schedule.graph import Group, Step, TransformGraph

__all__ = ["indices"]


def indices(
    graph: TransformGraph,
    known: Mapping[Group, Expr],
    bind: Callable[[Group, Expr], Expr] = lambda _, e: e,
) -> dict[Group, Expr]:
    """Index of every group that ``known`` determines; the only one of one iteration is 0.

    ``bind`` may give an index a name: what it returns stands for the index from there on.

    Transforms are walked both ways. What is padded has the index of what it was padded from
    (``TransformGraph.padded``); sums and products (a split's input from its parts, a merge's result
    from its parts) come before quotients and remainders. So an index is affine in the known ones
    wherever one derivation is. Taken is the first rule that finds an index, there the first step;
    a step is looked at when an index that it depends on becomes known.
    """
    found = {g: ZERO for g in graph.groups if g.extent == ONE} | dict(known)
    waiting = sorted({way for g in found for way in _ways(graph, g)})
    queued = set(waiting)
    while waiting:
        way = heappop(waiting)
        queued.remove(way)
        rule, place = way
        for g, e in _RULES[rule](graph, graph.steps[place], found).items():
            if g in found:
                continue
            found[g] = bind(g, e)
            for more in _ways(graph, g):
                if more not in queued:
                    queued.add(more)
                    heappush(waiting, more)
    return found


_Way = tuple[int, int]
"""A rule and a step, by their places: the first that finds something is taken."""


def _ways(graph: TransformGraph, g: Group) -> Iterator[_Way]:
    """What may find an index that it did not find before ``g`` had one."""
    for place in graph.of_part(g):
        yield _COMPOSE, place
    for place in graph.of_whole(g):
        yield _DECOMPOSE, place
    for made in (g, *graph.padding(g)):
        if graph.padded(made) is not None:
            yield from ((_UNPAD, place) for place in graph.of_whole(made))
    for digit in graph.digits(g):
        yield from ((_JOIN, place) for place in graph.of_part(digit))


_Found = Mapping[Group, Expr]


def _unpad(graph: TransformGraph, step: Step, found: _Found) -> dict[Group, Expr]:
    """The same index of what a split and a merge of its parts pad, and of what they make."""
    made = step.outputs[0]
    whole = graph.padded(made)
    if whole is None:
        return {}
    pair = {made: whole, whole: made}
    return {other: found[g] for g, other in pair.items() if g in found}


def _join(graph: TransformGraph, step: Step, found: _Found) -> dict[Group, Expr]:
    """The parts of a split whose digits are known from another split of the same number."""
    made = step.outputs if isinstance(step.transform, Split) else ()
    joined = {g: graph.tiled(g, found) for g in made if g not in found}
    return {
        g: sum((found[d] * n for d, n in parts[1:]), found[parts[0][0]] * parts[0][1])
        for g, parts in joined.items()
        if parts
    }


def _compose(_: TransformGraph, step: Step, found: _Found) -> dict[Group, Expr]:
    """The whole from both parts."""
    (outer, inner), t = step.parts, step.transform
    if step.whole in found or outer not in found or inner not in found:
        return {}
    if isinstance(t, Split):
        return {step.whole: found[outer] * t.inner.extent + found[inner]}
    return {step.whole: merge_index(t, found[outer], found[inner])}


def _decompose(_: TransformGraph, step: Step, found: _Found) -> dict[Group, Expr]:
    """Both parts from the whole; not of a split whose tiles are handed out at run time."""
    (outer, inner), t = step.parts, step.transform
    if outer in found and inner in found:
        return {}
    whole = found[step.whole]
    if isinstance(t, Merge):
        return dict(zip((outer, inner), unmerge_index(t, whole), strict=True))
    if t.dynamic:
        return {}
    if t.outer.extent == ONE:
        return {outer: ZERO, inner: whole}
    return {outer: whole // t.inner.extent, inner: whole % t.inner.extent}


_RULES = (_unpad, _join, _compose, _decompose)
_UNPAD, _JOIN, _COMPOSE, _DECOMPOSE = range(len(_RULES))
