"""What a kernel multiplies and reads beside the product as well, ``x · wᵀ + x``, as two inputs.

A step of Newton and Schulz, ``a · a + 3 a``, and every layer that is added to what it is given read
a tensor so. A kernel loads it in two ways, as slices of K and as a tile of the result, and may well
have a tensor map for each; the importer knows operands by their names. So what is read beside gets
a name of its own, with what leads from the tensor to there: a view that moves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lowering.ground.expr import ONE
from wsched.front.cut.tensors import TensorType
from wsched.front.look import Look, Move
from wsched.importer import Definition, Node, Ref
from wsched.importer.ops import MATMULS

__all__ = ["read_apart"]

_BESIDE = "@beside"
"""Ends the name of what is read beside a product that multiplies it."""


def read_apart(
    definition: Definition, types: Mapping[str, TensorType]
) -> tuple[Definition, dict[str, Look], Mapping[str, TensorType]]:
    """A kernel's part in which no input is an operand and read beside the product, too.

    Args:
        definition: the part.
        types: of its tensors.

    Returns:
        It with the inputs that it reads a second time; each of these as a view, by its name; types
        with theirs.
    """
    led = _led_to_operands(definition, types)
    twice = _of_tensors(definition, types, led)
    beside = {
        ref
        for n in definition.nodes
        if n.results[0] not in led and n.op not in MATMULS
        for ref in n.refs
        if ref in twice
    }
    again = _needed(definition, types, beside) & twice
    if not again:
        return definition, {}, types
    second = {name: name + _BESIDE for name in again}
    nodes: list[Node] = []
    found: dict[str, Look] = {}
    for node in definition.nodes:
        name = node.results[0]
        inside = name in led or node.op in MATMULS
        nodes.append(node if inside else node.reading(second))
        if name in again:
            nodes.append(replace(node.reading(second), results=(second[name],)))
            if node.is_input:
                found[second[name]] = Look(second[name], name, (_still(types[name]),))
    more = {new: types[name] for name, new in second.items()}
    return Definition(tuple(nodes), definition.outputs), found, {**types, **more}


def _led_to_operands(definition: Definition, types: Mapping[str, TensorType]) -> frozenset[str]:
    """Names of tensors on the way to operands, these and the inputs among them."""
    operands = (v for n in definition.nodes if n.op in MATMULS for v in n.factors)
    names = {v.name for v in operands if isinstance(v, Ref)}
    return frozenset(_needed(definition, types, names))


def _needed(definition: Definition, types: Mapping[str, TensorType], names: set[str]) -> set[str]:
    """These tensors and those that lead to them, but for results of matmuls.

    A tensor whose size somebody asks for is not read.
    """
    pending, found = [*names], set[str]()
    while pending:
        name = pending.pop()
        node = definition.node(name)
        if node is not None and node.op not in MATMULS and name in types and name not in found:
            found.add(name)
            pending += node.refs
    return found


def _of_tensors(
    definition: Definition, types: Mapping[str, TensorType], led: frozenset[str]
) -> set[str]:
    """Of what leads to operands what is as large as these: no scale, and nothing made of one alone.

    A scale that is read beside as well is one input, as it has been. So is what is one row again
    and again, which no kernel multiplies as it lies.
    """
    found = set[str]()
    for node in definition.nodes:
        name = node.results[0]
        if name not in led or not (node.is_input or found.intersection(node.refs)):
            continue
        extents = types[name].extents
        if extents is not None and len(extents) > 1 and ONE not in extents:
            found.add(name)
    return found


def _still(tensor: TensorType) -> Move:
    """A view of a tensor as it is."""
    extents = tensor.extents
    assert extents is not None
    return Move("permute", tuple(range(len(extents))), extents)
