"""Results of ``cat`` that nobody puts together: kernels store the parts where they belong.

A part that a matmul's kernel makes and nobody else reads is stored into the whole, whose memory is
there before (:class:`wsched.program.program.JoinStep`). What is made otherwise, or given, is copied
there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from lowering.ground.expr import ZERO, Expr
from wsched.front.cut.graph import Graph
from wsched.front.cut.part import declared_input, operations_of
from wsched.front.cut.segments import Cut, Segment, rest_segment
from wsched.front.cut.tensors import numbers_of
from wsched.importer import Definition, Node
from wsched.program.program import Buffer

__all__ = ["parts_in", "with_joins"]


def with_joins(graph: Graph, cut: Cut, joined: Collection[str]) -> Cut:
    """The same cut with segments of their own for what is put together of kernels' results.

    Args:
        graph: of the definition that is cut.
        cut: of it, without summaries and sweeps.
        joined: results of ``cat``.
    """
    seen = {name: shape for s in cut.segments if s.matmul for name, shape in s.seen}
    made = {n: len(seen.get(n, ())) for s in cut.segments if s.matmul for n in s.outputs}
    found = list[Segment]()
    for segment in cut.segments:
        rest = not (segment.own or segment.kept)
        group = operations_of(graph, segment.definition) if rest else frozenset[int]()
        cats = [i for i in sorted(group) if graph.nodes[i].results[0] in joined]
        wanted = _read(graph, cut.segments, segment)
        mine = {n: rank for n, rank in made.items() if n not in wanted}
        stored = {i: _stored(graph, graph.nodes[i], group, mine) for i in cats}
        whole = {i: own for i, own in stored.items() if any(own) and _lies(graph, graph.nodes[i])}
        if whole:
            found += _apart(graph, group, whole, wanted)
        else:
            found.append(segment)
    return replace(cut, segments=tuple(found))


def _read(graph: Graph, segments: Sequence[Segment], but: Segment) -> set[str]:
    """Names that others than a segment need."""
    return {n for s in segments if s is not but for n in s.inputs} | {*graph.definition.outputs}


Made = Mapping[str, int]
"""What kernels make for one rest alone, and how many dimensions it has there, if that is said."""


def _lies(graph: Graph, node: Node) -> bool:
    """Whether the result of a ``cat`` lies row by row, and its parts in memory."""
    (name,), types = node.results, graph.types
    rows = tuple(range(len(types[name].dims or ())))
    for tensor in (name, *node.refs):
        kind = types[tensor]
        stored = kind.dtype is not None and kind.dtype.is_stored and kind.extents is not None
        if not stored or kind.dtype is not types[name].dtype:
            return False
        if graph.home[tensor] in graph.free and not graph.is_given(graph.home[tensor]):
            return False
    own = name in graph.definition.outputs
    return types.orders.get(name, rows) == rows and (not own or graph.orders.of(name) == rows)


def _stored(graph: Graph, node: Node, group: frozenset[int], made: Made) -> tuple[bool, ...]:
    """For each part of a ``cat`` whether a kernel stores it there: nobody else reads it behind that
    kernel, and rows that the kernel takes together lie one behind the other in the whole, too.
    """
    found = list[bool]()
    (dim,) = numbers_of(node.get("dim"))
    for part in node.refs:
        readers = graph.readers_behind(graph.home[part]) & group
        alone = len(readers) == 1 and node.refs.count(part) == 1
        rank = len(graph.types[part].dims or ())
        together = rank - made.get(part, 0) + 1 if made.get(part) else 1
        lies = not 0 < dim < together
        found.append(part in made and alone and lies)
    return tuple(found)


def _apart(
    graph: Graph, group: frozenset[int], whole: Mapping[int, tuple[bool, ...]], wanted: set[str]
) -> Iterator[Segment]:
    """A rest in front of the first of these, that, and what depends on it.

    Args:
        graph: what it is of.
        group: positions of its operations.
        whole: of each ``cat`` that nobody computes, which parts are stored there.
        wanted: names that others need.
    """
    if not whole:
        if needed := graph.results(group, wanted):
            yield rest_segment(graph, group, needed)
        return
    first = min(whole)
    behind = frozenset(i for i in group if i > first and first in graph.reached([i]))
    front = group - behind - {first}
    later = {n for i in (first, *behind) for n in graph.needs(i)}
    before, after = ({i: own for i, own in whole.items() if i in ops} for ops in (front, behind))
    yield from _apart(graph, front, before, wanted | later)
    yield Segment(_definition(graph, first), matmul=False, join=whole[first])
    yield from _apart(graph, behind, after, wanted)


def _definition(graph: Graph, i: int) -> Definition:
    """A ``cat`` of what others make, as a definition."""
    node = graph.nodes[i]
    names = dict.fromkeys(node.refs)
    given = [
        graph.nodes[graph.home[n]] if graph.is_given(graph.home[n]) else declared_input(graph, n)
        for n in names
    ]
    return Definition((*given, node), node.results)


def parts_in(segment: Segment, whole: Buffer, parts: Sequence[Buffer]) -> Iterator[Buffer]:
    """The buffers of what is put together, where they belong.

    Args:
        segment: a ``cat`` alone.
        whole: memory for all of it, row by row.
        parts: as they are made.
    """
    (node,) = (n for n in segment.definition.nodes if n.op == "cat")
    dim = numbers_of(node.get("dim"))[0]
    past: Expr = ZERO
    for at, part in enumerate(parts):
        yield Buffer(
            f"{part.name}@{whole.name}{at}", part.dtype, part.shape, whole.steps, whole, past
        )
        past = past + part.shape[dim] * whole.steps[dim]
