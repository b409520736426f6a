"""What of a rest is made of constants alone, so that it need not be made in each call."""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.errors import UnsupportedError
from wsched.front.cut.graph import RANDOM, Graph
from wsched.front.cut.part import operations_of, part
from wsched.front.cut.segments import Cut, Kept, Segment
from wsched.front.cut.tables import SPREADS, widens
from wsched.importer.ops import PRODUCTS

__all__ = ["with_kept"]


def with_kept(
    graph: Graph, cut: Cut, constants: frozenset[str], known: Kept, tables: bool = False
) -> Cut:
    """The same cut with segments of their own for what depends on constants alone.

    What a caller is given is made anew, because he may write into it. So are matmuls and random
    numbers; and an input that is written into is no constant.

    Args:
        graph: of the definition that is cut.
        cut: without summaries.
        constants: names of inputs.
        known: what rests of other cuts of it have become; those of this one are added.
        tables: whether what depends on no input at all is kept, too: the sines of positions, say.
    """
    constants -= {*graph.definition.into.values(), *graph.definition.numbers}
    if not (constants or tables):
        return cut
    rests = {s: operations_of(graph, s.definition) for s in cut.segments if not s.matmul}
    steady = _steady(graph, constants, graph.free.union(*rests.values()))
    found, there = list[Segment](), set(constants)
    for segment in cut.segments:
        kept = rests.get(segment, frozenset()) & steady
        kept = _as_small(graph, kept) if tables else kept
        key = segment, kept, tables
        if key not in known:
            left = rests.get(segment, frozenset()) - kept
            known[key] = _apart(graph, segment, kept, left, tables) if kept else (segment,)
        parts = known[key]
        if not there.issuperset(parts[0].inputs):  # what it reads could not be kept
            parts = (segment,)
        there.update(n for s in parts if s.kept for n in s.outputs)
        found += parts
    return replace(cut, segments=tuple(found))


def _steady(graph: Graph, constants: frozenset[str], within: frozenset[int]) -> frozenset[int]:
    """Operations of which nothing changes as long as constants do not; numbers in a text do not."""
    found = set[int]()
    for i, node in enumerate(graph.nodes):
        if graph.is_given(i):
            steady = not node.is_input or node.results[0] in constants
        else:
            made = i in within and node.op not in (*PRODUCTS, *RANDOM)
            steady = made and not graph.is_output(i)
        if steady and found.issuperset(graph.operands(i)):
            found.add(i)
    return frozenset(found)


def _as_small(graph: Graph, kept: frozenset[int]) -> frozenset[int]:
    """Without what only spreads and widens the others, which whoever reads a table does."""
    left = set(kept)
    for i in sorted(kept, reverse=True):
        node, readers = graph.nodes[i], (graph.nodes[at].refs for at in left)
        spreads = node.op in SPREADS or (node.op == "cast" and widens(graph.types, node))
        if spreads and not any(name in refs for refs in readers for name in node.results):
            left.discard(i)
    return frozenset(left)


def _apart(
    graph: Graph, segment: Segment, kept: frozenset[int], left: frozenset[int], tables: bool
) -> tuple[Segment, ...]:
    """A rest as what is kept and what is not; as it is where nothing of use is kept."""
    read = {*segment.outputs, *(n for i in left for n in graph.needs(i))}
    try:
        first = _rest(graph, kept, read, keep=True)
        if first is None or not (first.inputs or tables):
            return (segment,)
        second = _rest(graph, left, set(segment.outputs), keep=False)
    except UnsupportedError:  # a number between the two, or a type that has no name
        return (segment,)
    return (first,) if second is None else (first, second)


def _rest(graph: Graph, group: frozenset[int], wanted: set[str], keep: bool) -> Segment | None:
    made = graph.results(group, wanted)
    if not made:
        return None
    return Segment(part(graph, group, made, rest=True), matmul=False, kept=keep)
