"""What nvFuser would not have taken is refused when a definition is read, by its line.

A live definition has been through nvFuser, a text through nobody: here it is asked once what all
that read it rely on.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from lowering.ground.errors import UnsupportedError
from wsched.importer.definition import Definition, Node, Ref, Value, text_of
from wsched.importer.dimensions import check_dimensions, check_type
from wsched.importer.ops import MATMULS, arity_of
from wsched.importer.ranks import Ranks, argument_of
from wsched.importer.signatures import needed, parameters

__all__ = ["MOST_ELEMENTS", "check_consistent", "too_many"]


def check_consistent(definition: Definition) -> None:
    """Refuse inputs whose arguments contradict each other, operations on what is no tensor, and
    those that name dimensions or types that they cannot have.

    Args:
        definition: complete, as :meth:`~wsched.importer.definition.Definition.check_complete` has
            it.

    Raises:
        UnsupportedError: so it is; with the line.
    """
    ranks = Ranks()
    for node in definition.nodes:
        number = ranks.makes_number(node)
        _check_numbers(node)
        _check_there(node)
        if node.op == "define_tensor":
            _check_input(node)
        elif node.op in MATMULS:
            _check_operands(node, ranks)
        elif not number and (parameters(node.op) or ("",))[0] == "arg":
            _check_tensors(node, (node.argument("arg", 0),), ranks)
        check_type(node)
        if not number:
            check_dimensions(node, ranks)
        ranks.enter(node)
    _check_outputs(definition, ranks)


def _check_input(node: Node) -> None:
    """Extents are numbers, and everything that is said of dimensions is said of each."""
    shape = node.get("shape")
    if node.get("strides") is not None:
        raise _refusal(node, "strides", "an integer for each of the sizes")
    if shape is None:
        return
    if not isinstance(shape, tuple) or not all(type(n) is int and n >= -1 for n in shape):
        raise _refusal(node, "shape", "a list of extents, -1 where one is symbolic")
    if too_many([n for n in shape if isinstance(n, int)]):
        raise _refusal(node, "shape", f"fewer than {MOST_ELEMENTS} elements")
    contiguity = node.get("contiguity")
    of_each = (True, False, None)
    if isinstance(contiguity, tuple) and (
        len(contiguity) != len(shape) or not all(c in of_each for c in contiguity)
    ):
        raise _refusal(node, "contiguity", f"a list of {len(shape)} of True, False and None")
    order = node.get("stride_order")
    ranks = list(range(len(shape)))
    if order and (not isinstance(order, tuple) or sorted(order, key=str) != ranks):
        raise _refusal(node, "stride_order", f"the numbers {text_of(tuple(ranks))} in some order")


MOST_ELEMENTS = 1 << 59
"""What torch counts the bytes of in 63 bits, whatever the type; a GPU has less than 2**48."""


def too_many(shape: Sequence[int]) -> bool:
    """Whether no tensor of that shape is anywhere; a dimension of none counts as one."""
    return prod(max(n, 1) for n in shape) >= MOST_ELEMENTS


def _refusal(node: Node, name: str, supported: str) -> UnsupportedError:
    given = node.get("sizes" if name == "strides" else "shape")
    shape = f" of shape {text_of(given)}" if name != "shape" else ""
    what = f"line {node.line}: {node.results[0]}{shape} with {name}={text_of(node.get(name))}"
    return UnsupportedError(what, supported)


_INTEGERS = range(-(2**63), 2**64)
"""What an integer of nvFuser's or torch's may be."""

_SHOWN = 128
"""Bits of a number that an error shows; Python does not even print those of any length."""


def _check_numbers(node: Node) -> None:
    """Numbers are such that a kernel, nvFuser and torch can be given them; a scalar is one."""
    call = f"line {node.line}: fd.{'' if node.op.startswith('define_') else 'ops.'}{node.op}"
    for value in node.values:
        if type(value) is int and value not in _INTEGERS:
            bits = value.bit_length()
            shown = text_of(value) if bits <= _SHOWN else f"an integer of {bits} bits"
            raise UnsupportedError(f"{call} with {shown}", "integers of 64 bits")
    if node.op == "define_scalar" and isinstance(value := node.argument("value", 0), str | tuple):
        raise UnsupportedError(f"{call} of {text_of(value)}", "a number, or None for an input")


def _check_there(node: Node) -> None:
    """Arguments that an operation cannot be without are there, and operands are values."""
    call, names = f"line {node.line}: fd.ops.{node.op}", needed(node.op)
    if arity_of(node.op) is None:
        for name in names:
            if argument_of(node, name) is None:
                raise UnsupportedError(f"{call} without {name}", f"calls with {', '.join(names)}")
        return
    if len(node.arguments) < len(names):
        count = len(node.operands)
        raise UnsupportedError(f"{call} of {count} operands", f"of {len(names)}")
    for value in node.operands:
        open_end = value is None and node.op == "clamp"
        if not (isinstance(value, Ref | bool | int | float | complex) or open_end):
            raise UnsupportedError(f"{call} of {text_of(value)}", "tensors and numbers")


def _check_outputs(definition: Definition, ranks: Ranks) -> None:
    """What the caller is given is no list."""
    for name in definition.outputs:
        node = definition.node(name)
        if node is None or node.op != "shape" or len(node.results) > 1:
            continue
        if ranks.get(node.operands[0]) != 1:
            what = f"line {node.line}: fd.ops.shape as an output"
            raise UnsupportedError(what, "tensors and numbers")


def _check_operands(node: Node, ranks: Ranks) -> None:
    """Both operands of a product are tensors."""
    if len(node.factors) < 2:
        call = f"line {node.line}: fd.ops.{node.op}"
        raise UnsupportedError(f"{call} of {len(node.factors)} operands", "of two")
    _check_tensors(node, node.factors, ranks)


def _check_tensors(node: Node, given: tuple[Value, ...], ranks: Ranks) -> None:
    """Operands of what is not done to numbers are tensors."""
    for value in given:
        if not ranks.is_tensor(value):
            what = f"line {node.line}: fd.ops.{node.op} of {text_of(value)}, which is no tensor,"
            raise UnsupportedError(what, "tensors")
