"""A group of operations as a definition of its own."""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Const
from wsched.front.cut.graph import Graph
from wsched.front.cut.tensors import TensorType
from wsched.importer import Definition, Node, Ref
from wsched.importer.definition import Value

__all__ = ["part"]

_AS_MADE = "@made"
"""Ends the name of what is put into rows before it crosses."""


def part(
    graph: Graph, group: frozenset[int], outputs: tuple[str, ...], rest: bool = False
) -> Definition:
    """A group of operations as a definition with these outputs.

    Args:
        graph: what they are of.
        group: positions.
        outputs: names of what others need.
        rest: whether others run it. What they have moved and another segment reads is then put
            into rows, because the reader is told that it lies so.

    Raises:
        UnsupportedError: what it reads of other segments has no memory, or a type that is not
            known.
    """
    made = [graph.home[name] for name in outputs]
    group &= graph.reached(made, group | graph.free)  # what is free may lie between two of them
    nodes: dict[int, list[Node]] = {i: [graph.nodes[i]] for i in group}
    pending = [name for i in group for name in graph.nodes[i].refs]
    declared: set[str] = set()
    while pending:
        name = pending.pop()
        i = graph.home[name]
        if i in group or name in declared:
            continue
        if graph.is_given(i) or i in graph.free:
            nodes[i] = [graph.nodes[i]]
            pending += graph.nodes[i].refs
        else:
            nodes.setdefault(i, []).append(_declared(name, graph.types[name], graph.nodes[i].line))
        declared.add(name)
    ordered = tuple(n for i in sorted(nodes) for n in nodes[i])
    if rest:
        moved = [n for n in outputs if n in graph.types and graph.is_moved(graph.home[n], group)]
        ordered = _in_rows(graph, ordered, [n for n in moved if n not in graph.definition.outputs])
    return Definition(ordered, outputs)


def _in_rows(graph: Graph, nodes: tuple[Node, ...], names: list[str]) -> tuple[Node, ...]:
    """With these results row by row in memory."""

    def renamed(value: Value) -> Value:
        if isinstance(value, tuple):
            return tuple(map(renamed, value))
        moved = isinstance(value, Ref) and value.name in names
        return Ref(f"{value}{_AS_MADE}") if moved else value

    found = []
    for node in nodes:
        results = tuple(r + _AS_MADE if r in names else r for r in node.results)
        kwargs = tuple((k, renamed(v)) for k, v in node.kwargs)
        operands = tuple(map(renamed, node.operands))
        found.append(replace(node, results=results, operands=operands, kwargs=kwargs))
        for name in node.results:
            if name in names:
                rank = len(graph.types[name].dims or ())
                order = ("stride_order", tuple(range(rank))[::-1])
                source = (Ref(name + _AS_MADE),)
                found.append(Node("stride_order", (name,), source, (order,), node.line))
    return tuple(found)


def _declared(name: str, tensor: TensorType, line: int) -> Node:
    """What another segment makes, as an input: row-major and dense."""
    extents = tensor.extents
    if tensor.dtype is None or not tensor.dtype.is_stored or extents is None:
        raise UnsupportedError(
            f"{name}, expanded or of an unknown type, between segments", "tensors in memory"
        )
    shape: tuple[Value, ...] = tuple(e.value if isinstance(e, Const) else -1 for e in extents)
    kwargs: tuple[tuple[str, Value], ...] = (
        ("shape", shape),
        ("contiguity", tuple(None if size == 1 else True for size in shape)),
        ("dtype", tensor.dtype),
        ("is_cpu", False),
    )
    return Node("define_tensor", (name,), (), kwargs, line)
