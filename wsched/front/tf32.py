"""Matmuls of fp32 that read 19 bits of their operands, where a user says that they may."""

from __future__ import annotations

import re
from typing import Any

from lowering.ground.errors import UnsupportedError
from wsched.front.known import recorded
from wsched.fusion import DataType
from wsched.importer.definition import Definition, Node, Ref
from wsched.importer.layout import moves_no_data
from wsched.importer.ops import MATMULS

__all__ = ["with_tf32"]

_FLOAT = re.compile(r"\bdtype=DataType\.Float\b")


def with_tf32(definition: Any) -> str:
    """A definition in which matmuls read the upper 19 bits of their fp32 operands (TF32).

    The tensors, their memory and the results stay fp32; products of fp32 have no instruction of the
    tensor core, and are nvFuser's or torch's without this. It is what torch does while
    ``torch.backends.cuda.matmul.allow_tf32`` is set, and wsched never does by itself::

        if torch.backends.cuda.matmul.allow_tf32:
            fd = wsched.with_tf32(fd)
        out, = wsched.execute(fd, [a, b])

    Args:
        definition: nvFuser's, live or as text.

    Returns:
        Its text, in which inputs of fp32 that only matmuls read have the type ``DataType.TF32``.

    Raises:
        UnsupportedError: a definition that cannot be read, or none of whose matmuls multiplies two
            such inputs.
    """
    text = definition if isinstance(definition, str) else repr(definition)
    found = recorded(text)
    lines = text.splitlines(keepends=True)
    names = _operands(found)
    for node in found.inputs:
        if node.results[0] in names:
            lines[node.line - 1] = _FLOAT.sub("dtype=DataType.TF32", lines[node.line - 1])
    if not names:
        raise UnsupportedError(
            "TF32 in a definition without a matmul of fp32 inputs", "both operands such inputs"
        )
    return "".join(lines)


def _operands(definition: Definition) -> frozenset[str]:
    """The fp32 inputs that nothing but matmuls reads, as they are or moved, of matmuls both of
    whose operands are such.
    """
    readers: dict[str, list[Node]] = {}
    for node in definition.nodes:
        for name in node.refs:
            readers.setdefault(name, []).append(node)
    pairs = [
        [_input(definition, value) for value in node.factors]
        for node in definition.nodes
        if node.op in MATMULS
    ]
    found = {name for pair in pairs for name in pair if name is not None}
    found = {n for n in found if _only_multiplied(n, readers, definition.outputs)}
    while mixed := {n for pair in pairs if not found.issuperset(pair) for n in pair} & found:
        found -= mixed
    return frozenset(found)


def _input(definition: Definition, value: object) -> str | None:
    """The fp32 input that an operand is, through what moves no data."""
    node = definition.node(value.name) if isinstance(value, Ref) else None
    while node is not None and (moves_no_data(node) or node.op == "broadcast"):
        source = node.operands[0]
        node = definition.node(source.name) if isinstance(source, Ref) else None
    if node is None or node.op != "define_tensor" or node.get("dtype") is not DataType.Float:
        return None
    return node.results[0]


def _only_multiplied(name: str, readers: dict[str, list[Node]], outputs: tuple[str, ...]) -> bool:
    """Whether nothing but matmuls reads a tensor, or what it is moved to."""
    if name in outputs:
        return False
    return all(
        node.op in MATMULS
        or ((moves_no_data(node) or node.op == "broadcast")
            and all(_only_multiplied(r, readers, outputs) for r in node.results))
        for node in readers.get(name, ())
    )  # fmt: skip
