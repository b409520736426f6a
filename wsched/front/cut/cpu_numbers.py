"""Tensors of one number on the CPU, a learning rate say, as the numbers that they are.

NvFuser reads such a tensor (``is_cpu=True``, without dimensions) on the host when it launches a
kernel, and writes a ``broadcast``, maybe a ``cast``, in front of the operation that has it for an
operand. In a cut it is a run-time scalar: with a tensor of fractions nvFuser gives either the same
type, that tensor's or Float. What else is done with one (it is expanded, returned, or meets
integers) stays nvFuser's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from wsched.front.cut.given_back import Run
from wsched.front.cut.tensors import Tensors
from wsched.fusion import DataType
from wsched.importer import Definition, Node
from wsched.importer.ops import arity_of

__all__ = ["by_numbers", "given_numbers", "with_numbers"]

_WIDE = (DataType.Float, DataType.Double)
"""What a cast leaves of a number is the number to a kernel, which has it in fp32."""

_FRACTIONS = (DataType.BFloat16, DataType.Half, *_WIDE)


def with_numbers(definition: Definition, tensors: Tensors) -> Definition:
    """The definition with such inputs as run-time scalars; itself without any.

    Args:
        definition: of a call.
        tensors: of it.
    """
    names = dict[str, str]()
    for node in definition.inputs:
        names |= dict.fromkeys(_aliases(definition, tensors, node), node.results[0])
    if not names:
        return definition
    nodes = list[Node]()
    for node in definition.nodes:
        (name, *_) = node.results
        if names.get(name) == name:
            kind = (("dtype", DataType.Double),)
            nodes.append(Node("define_scalar", node.results, (None,), kind, node.line))
        elif name not in names:
            nodes.append(node.reading(names))
    numbers = tuple(dict.fromkeys(names.values()))
    return replace(definition, nodes=tuple(nodes), numbers=numbers)


def given_numbers(definition: Definition, inputs: Sequence[Any]) -> Sequence[Any]:
    """A caller's inputs with the numbers that such tensors hold; any is 1 where nothing is held.

    Args:
        definition: of :func:`with_numbers`.
        inputs: what it is called with.
    """
    if not definition.numbers:
        return inputs
    names = (n.results[0] for n in definition.inputs)
    return [
        _held(value) if name in definition.numbers else value
        for name, value in zip(names, inputs, strict=False)
    ]


def by_numbers(definition: Definition, run: Run) -> Run:
    """A run on what a caller passes.

    Args:
        definition: of :func:`with_numbers`.
        run: of it, on numbers.
    """
    if not definition.numbers:
        return run
    return lambda inputs, key: run(given_numbers(definition, inputs), key)


def _held(value: Any) -> Any:
    """The number in a tensor of one on the CPU; what is none is refused as what it is."""
    device = getattr(value, "device", None)
    if device is None or device.type not in ("cpu", "meta") or value.numel() != 1:
        return value
    return 1.0 if device.type == "meta" else float(value)


def _aliases(definition: Definition, tensors: Tensors, node: Node) -> frozenset[str]:
    """Names of an input on the CPU that is a number to all that read it; none of another one."""
    (name,) = node.results
    cpu = node.op == "define_tensor" and node.get("is_cpu", False) and node.get("shape") == ()
    if not cpu or node.get("dtype", DataType.Float) not in _FRACTIONS:
        return frozenset()
    names = {name}
    for reader in definition.nodes:
        if names.isdisjoint(reader.refs):
            continue
        if reader.op == "broadcast" or (reader.op == "cast" and reader.get("dtype") in _WIDE):
            names |= {*reader.results}
        elif arity_of(reader.op) is None or not _meets(tensors, reader, names):
            return frozenset()
    kept = {*definition.outputs, *definition.into.values()}
    return frozenset(names) if names.isdisjoint(kept) else frozenset()


def _meets(tensors: Tensors, node: Node, names: set[str]) -> bool:
    """Whether an operation has an operand with dimensions and fractions beside these."""
    others = (tensors.types[n] for n in node.refs if n not in names and n in tensors.types)
    return any(t.dims and t.dtype in _FRACTIONS for t in others)
