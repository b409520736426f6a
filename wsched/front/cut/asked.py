"""Sizes asked of the inputs: a definition in which ``size`` and ``shape`` depend on nothing made.

A definition may ask for the size of what it has computed. Every segment that needs such a number
would need that tensor, which another segment makes; the same number is a size of an input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from lowering.ground.expr import Const, Expr
from wsched.front.cut.tensors import Tensors
from wsched.importer import Definition, Node, Ref
from wsched.importer.definition import Value

__all__ = ["asked_of_inputs"]


def asked_of_inputs(definition: Definition, tensors: Tensors) -> Definition:
    """The definition with the sizes of computed tensors taken from inputs, where one has them.

    Args:
        definition: as recorded.
        tensors: of it.
    """
    places = dict(_places(definition, tensors))
    given = {n.results[0] for n in definition.inputs}
    nodes: list[Node] = []
    known: dict[str, Value] = {}
    for node in definition.nodes:
        asks = node.op in ("size", "shape") and not given & set(node.refs)
        values = _values(node, tensors, places) if asks else None
        if values is not None:
            made = _numbers(node, values)
            nodes += made
            if node.op == "shape":
                known[node.results[0]] = tuple(Ref(n.results[0]) for n in made)
            continue
        if (element := _element(node, known)) is not None:
            known[node.results[0]] = element
            continue
        nodes.append(_with(node, known) if known else node)
    changed = tuple(nodes) != definition.nodes
    return replace(definition, nodes=tuple(nodes)) if changed else definition


def _places(definition: Definition, tensors: Tensors) -> Iterator[tuple[Expr, tuple[str, int]]]:
    """Each extent of an input, and where it is; of several the first one counts."""
    found = [
        (dim.extent, (node.results[0], at))
        for node in definition.inputs
        if node.results[0] in tensors
        for at, dim in enumerate(tensors[node.results[0]].dims or ())
        if dim.extent is not None
    ]
    yield from reversed(found)


Sized = int | tuple[str, int]
"""A number, or the dimension of an input that it is the size of."""


def _values(
    node: Node, tensors: Tensors, places: Mapping[Expr, tuple[str, int]]
) -> list[Sized] | None:
    """What a ``size`` or ``shape`` asks for; None where no input has it."""
    if node.op == "size":
        number = tensors.numbers.get(node.results[0])
        extents = [number]
    else:
        dims = tensors[node.refs[0]].dims if node.refs and node.refs[0] in tensors else None
        extents = [None] if dims is None else [d.extent for d in dims]
    found: list[Sized] = []
    for extent in extents:
        if isinstance(extent, Const):
            found.append(extent.value)
        elif extent is not None and extent in places:
            found.append(places[extent])
        else:
            return None
    return found


def _numbers(node: Node, values: list[Sized]) -> list[Node]:
    """The operations that make these numbers; those of a ``shape`` are called by its name."""
    single = node.op == "size"
    made = []
    for at, value in enumerate(values):
        name = node.results[0] if single else f"{node.results[0]}[{at}]"
        if isinstance(value, int):
            made.append(Node("define_scalar", (name,), (value,), (), node.line))
        else:
            source, place = value
            made.append(Node("size", (name,), (Ref(source), place), (), node.line))
    return made


def _element(node: Node, known: Mapping[str, Value]) -> Value:
    """What ``shape[0]`` is where the list is known; None of any other operation."""
    if node.op != "at" or node.refs[0] not in known:
        return None
    listed, at = known[node.refs[0]], node.operands[1]
    if not isinstance(listed, tuple) or not isinstance(at, int) or not -len(listed) <= at:
        return None
    return listed[at] if at < len(listed) else None


def _with(node: Node, known: Mapping[str, Value]) -> Node:
    """An operation with what is known in place of its name."""

    def value(v: Value) -> Value:
        if isinstance(v, tuple):
            return tuple(map(value, v))
        return known[v.name] if isinstance(v, Ref) and v.name in known else v

    operands = tuple(map(value, node.operands))
    return replace(node, operands=operands, kwargs=tuple((k, value(v)) for k, v in node.kwargs))
