"""Which inputs of fp32 a definition may have as TF32, and the definition that has them so."""

from __future__ import annotations

from dataclasses import replace

from wsched.fusion import DataType
from wsched.importer.definition import Definition, Node, Ref
from wsched.importer.layout import moves_no_data
from wsched.importer.ops import MATMULS

__all__ = ["as_tf32", "tf32_inputs"]


def tf32_inputs(definition: Definition) -> frozenset[str]:
    """The fp32 inputs that nothing but matmuls reads, as they are or moved.

    The other operand of such a matmul may be anything in fp32: one of TF32 says for both how they
    are multiplied (:func:`~wsched.importer.operands.operand_pair`).
    """
    if not any(n.get("dtype", DataType.Float) is DataType.Float for n in definition.inputs):
        return frozenset()
    readers: dict[str, list[Node]] = {}
    for node in definition.nodes:
        for name in node.refs:
            readers.setdefault(name, []).append(node)
    factors = (v for n in definition.nodes if n.op in MATMULS for v in n.factors)
    found = {_input(definition, value) for value in factors} - {None}
    return frozenset(n for n in found if n and _only_multiplied(n, readers, definition))


def as_tf32(definition: Definition, names: frozenset[str]) -> Definition:
    """It with these inputs, which matmuls alone read, as TF32."""
    return replace(
        definition,
        nodes=tuple(
            retyped(n) if n.is_input and n.results[0] in names else n for n in definition.nodes
        ),
    )


def retyped(node: Node, dtype: DataType = DataType.TF32) -> Node:
    """An input of another type."""
    return replace(
        node, kwargs=(*((k, v) for k, v in node.kwargs if k != "dtype"), ("dtype", dtype))
    )


def _input(definition: Definition, value: object) -> str | None:
    """The fp32 input that an operand is, through what moves no data."""
    node = definition.node(value.name) if isinstance(value, Ref) else None
    while node is not None and _is_moved(node):
        source = node.operands[0]
        node = definition.node(source.name) if isinstance(source, Ref) else None
    if node is None or node.op != "define_tensor":
        return None
    return node.results[0] if node.get("dtype", DataType.Float) is DataType.Float else None


def _is_moved(node: Node) -> bool:
    return moves_no_data(node) or node.op == "broadcast"


def _only_multiplied(name: str, readers: dict[str, list[Node]], definition: Definition) -> bool:
    """Whether nothing but matmuls multiplies a tensor, or what it is moved to; nor is it written.

    A bias of a matmul is added, not multiplied.
    """
    if name in definition.outputs or name in definition.into.values():
        return False
    for node in readers.get(name, ()):
        if node.op in MATMULS:
            multiplied = node.factors.count(Ref(name)) == node.refs.count(name)
        else:
            multiplied = _is_moved(node) and all(
                _only_multiplied(r, readers, definition) for r in node.results
            )
        if not multiplied:
            return False
    return True
