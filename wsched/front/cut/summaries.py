"""Reductions of a rest that kernels of wsched's take: the statistics of a norm, a mean, a scale.

A cut leaves what belongs to no matmul to others. Of that, reductions with what is pointwise in
front of them, and what follows of the size that they leave, is a summary. So is what follows
reductions that a matmul's kernel has made: it goes into the kernel that puts their parts together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Expr
from wsched.front.cut.graph import Graph
from wsched.front.cut.part import operations_of, part
from wsched.front.cut.segments import Cut, Segment, rest_segment
from wsched.fusion import DataType
from wsched.importer import Definition, Node, Ref
from wsched.importer.steps import REDUCED
from wsched.importer.summary import import_summary

Kind = tuple[str, int, tuple[int, ...], DataType | None]
"""A reduction, the dimensions of its parts, which of these are reduced, and the type that elements
count as rounded to."""

__all__ = ["behind_parts", "is_finish", "with_summaries"]


def with_summaries(graph: Graph, cut: Cut, known: dict[Segment, tuple[Segment, ...]]) -> Cut:
    """The same cut with summaries of their own in front of each rest; as it is where there are
    none.

    Args:
        graph: of the definition that is cut.
        cut: of it.
        known: what rests of other cuts of it have become; those of this one are added.
    """
    found = list[Segment]()
    for segment in cut.segments:
        if segment.own or segment.kept:
            found.append(segment)
            continue
        if segment not in known:
            known[segment] = tuple(_apart(graph, segment))
        found += known[segment]
    return replace(cut, segments=tuple(found))


def is_finish(segment: Segment) -> bool:
    """Whether a summary has no reduction, but follows those of a matmul's kernel."""
    return segment.summary and not any(n.op in REDUCED for n in segment.definition.nodes)


def behind_parts(definition: Definition, parts: Mapping[str, Kind]) -> Definition:
    """What follows reductions as a definition that reads their parts.

    Args:
        definition: whose inputs are results of reductions.
        parts: of some of them.
    """
    nodes = list[Node]()
    for node in definition.nodes:
        name = node.results[0]
        if name not in parts:
            nodes.append(node)
            continue
        op, rank, over, rounded = parts[name]
        dense = (("shape", (-1,) * rank), ("contiguity", (True,) * rank))
        kind = ("dtype", DataType.Float)
        nodes.append(Node("define_tensor", (f"{name}@parts",), (), (*dense, kind), node.line))
        nodes.append(
            Node(op, (f"{name}@whole",), (Ref(f"{name}@parts"),), (("dims", over),), node.line)
        )
        to = node.get("dtype", DataType.Float)
        for made, read, dtype in (
            (f"{name}@rounded", f"{name}@whole", rounded or DataType.Float),
            (name, f"{name}@rounded", to),
        ):
            nodes.append(Node("cast", (made,), (Ref(read),), (("dtype", dtype),), node.line))
    return Definition(tuple(nodes), definition.outputs)


def _apart(graph: Graph, segment: Segment) -> Iterator[Segment]:
    """A rest as summaries and what is left."""
    inside, wanted = operations_of(graph, segment.definition), set(segment.outputs)
    found, group = list[Segment](), inside
    for roots in _roots(graph, group, segment):
        if roots & inside and not roots <= group:
            continue  # some have a kernel already
        before = graph.reached(roots & group, group | graph.free) & group
        behind = (roots & group) | _behind(graph, group - before, roots)
        left = group & graph.reached(
            (graph.home[n] for n in wanted if graph.home[n] not in behind),
            (group - behind) | graph.free,
        )
        read = wanted | {name for i in left for name in graph.needs(i)}
        made = graph.results(behind, read)
        own = _summary(graph, before | behind, made, roots - group) if made else None
        if own is not None:
            found.append(own)
            group = left
    yield from found
    if not found:
        yield segment
    elif group:
        made = graph.results(group, wanted)
        yield rest_segment(graph, group, made)


def _roots(graph: Graph, group: frozenset[int], segment: Segment) -> Iterator[frozenset[int]]:
    """Reductions that one kernel may have: those of a rest, and those in front of it."""
    inside = [i for i in sorted(group) if graph.nodes[i].op in REDUCED]
    together = dict[tuple[Expr | None, ...], set[int]]()
    for i in inside:
        together.setdefault(_extents(graph, graph.nodes[i].refs[0]), set()).add(i)
    yield from map(frozenset, together.values())
    if len(inside) > 1:
        yield from (frozenset((i,)) for i in inside)
    before = (graph.home[name] for name in segment.inputs)
    if outside := frozenset(i for i in before if _is_reduced(graph, i)):
        yield outside


def _is_reduced(graph: Graph, i: int) -> bool:
    """Whether a kernel makes an operation's result in parts: a reduction, or a cast of one."""
    node = graph.nodes[i]
    if node.op == "cast":
        node = graph.nodes[graph.operands(i)[0]]
    return node.op in REDUCED


def _extents(graph: Graph, name: str) -> tuple[Expr | None, ...]:
    return tuple(d.extent for d in graph.types[name].dims or ())


def _behind(graph: Graph, group: frozenset[int], roots: frozenset[int]) -> frozenset[int]:
    """The pointwise operations that follow reductions and leave as much as they do."""
    found, sizes = set[int](), {_kept(graph, i) for i in roots}
    for i in sorted(group):
        needed = {graph.home[name] for name in graph.needs(i)}
        alone = not needed & (group - found - roots)
        if needed & (found | roots) and alone and graph.is_pointwise(i):
            found |= {i} if _kept(graph, i) in sizes else set()
    return frozenset(found)


def _kept(graph: Graph, i: int) -> tuple[Expr | None, ...] | None:
    """The extents of a result without those of size 1; None of what is expanded."""
    dims = graph.types[graph.nodes[i].results[0]].dims
    if dims is None or any(d.repeated for d in dims):
        return None
    return tuple(d.extent for d in dims if not d.is_one)


def _summary(
    graph: Graph, group: frozenset[int], made: tuple[str, ...], parts: frozenset[int]
) -> Segment | None:
    """Operations as a summary, None where they are none: reductions of one shape."""
    nodes = (graph.nodes[i] for i in group)
    if len({_extents(graph, n.refs[0]) for n in nodes if n.op in REDUCED}) > 1:
        return None
    if len({_extents(graph, n) for i in parts for n in graph.nodes[i].results}) > 1:
        return None
    try:
        definition = part(graph, group, made, rest=True)
        names = [n for i in parts for n in graph.nodes[i].results]
        known = {n: ("sum", len(graph.types[n].dims or ()) + 1, (0,), None) for n in names}
        summary = import_summary(behind_parts(definition, known))
    except UnsupportedError:
        return None
    for result, name in zip(summary.results, made, strict=True):
        dims = graph.types[name].dims or ()
        ones = all(d.is_one for d, at in zip(dims, result.dims, strict=True) if at is None)
        if not ones or any(n.op == "stride_order" for n in definition.nodes):
            return None
    return Segment(definition, matmul=False, summary=True)
