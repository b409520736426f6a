"""Rows of results that are added to rows of a tensor, by an index: what a definition says of them.

``fd.ops.index_put_accumulate(acc, index, value)`` is ``acc`` with row ``r`` of ``value`` added to
its row ``index[r]``, each time that the index says so. Where ``value`` is a result of a grouped
matmul, its kernel adds the rows instead of storing them. The definition is read without these
operations, and the results get what they are added to (:class:`~wsched.fusion.Added`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lowering.ground.errors import UnsupportedError
from wsched.fusion import (
    Added,
    DataType,
    Fusion,
    TensorBinding,
)
from wsched.fusion.names import COLS, ROWS, TOKENS
from wsched.importer.definition import Definition, Node, Ref, text_of
from wsched.importer.lift import with_unread
from wsched.importer.operands import dtype_of, fixed_sizes
from wsched.importer.ops import ADDED

__all__ = ["AddedRows", "added_rows", "with_added", "without_added"]

_CALL = f"fd.ops.{ADDED}"
_NAMES = ("acc", "index", "value")
_INDICES = (DataType.Int, DataType.Int32)
_TYPES = (DataType.BFloat16, DataType.Half, DataType.Float)

_SUPPORTED = (
    "results of groups of rows, [M, N], added to an input [T, N] of their type by an input [M] of "
    "Int or Int32, each of which nothing else reads"
)


@dataclass(frozen=True, slots=True)
class AddedRows:
    """One such operation, by names in the definition.

    Args:
        result: what it makes.
        value: the rows.
        index: which row each of them is added to.
        onto: what they are added to.
    """

    result: str
    value: str
    index: str
    onto: str


def added_rows(definition: Definition) -> tuple[AddedRows, ...]:
    """All of a definition that outputs depend on, in its order.

    Raises:
        UnsupportedError: operands or readers that no kernel has.
    """
    found = definition.behind(definition.outputs)
    nodes = [n for n in definition.nodes if n.op == ADDED and n.results[0] in found]
    return tuple(_read(definition, n) for n in nodes)


def _read(definition: Definition, node: Node) -> AddedRows:
    onto, index, value = (node.argument(x, at) for at, x in enumerate(_NAMES))
    if not (isinstance(onto, Ref) and isinstance(index, Ref) and isinstance(value, Ref)):
        raise UnsupportedError(f"{_CALL} of {', '.join(map(text_of, node.operands))}", _SUPPORTED)
    rows = AddedRows(node.results[0], value.name, index.name, onto.name)
    _require(definition, rows.onto, 2, _TYPES)
    _require(definition, rows.index, 1, _INDICES)
    behind = [n for n in definition.nodes if rows.result in n.refs]
    if behind or rows.result not in definition.outputs or rows.value in definition.outputs:
        raise UnsupportedError(f"{rows.result} = {_CALL} that is read", "one that is a result")
    if sum(rows.value in n.refs for n in definition.nodes) > 1:
        raise UnsupportedError(f"{rows.value}, rows of {_CALL}, read twice", _SUPPORTED)
    return rows


def _require(definition: Definition, name: str, rank: int, types: tuple[DataType, ...]) -> None:
    """Refuse an operand that is no input of so many dimensions which nothing else reads."""
    node = definition.node(name)
    read = sum(name in n.refs for n in definition.nodes)
    if node is None or node.op != "define_tensor" or read > 1 or name in definition.outputs:
        raise UnsupportedError(f"{name} of {_CALL}, which is computed or read twice", _SUPPORTED)
    if len(fixed_sizes(node)) != rank or dtype_of(node) not in types:
        found = f"{len(fixed_sizes(node))} dimensions, {dtype_of(node)}"
        raise UnsupportedError(f"{name} of {_CALL} of {found}", _SUPPORTED)


def without_added(definition: Definition, found: tuple[AddedRows, ...]) -> Definition:
    """The definition that stores these rows as they are."""
    gone = {name for a in found for name in (a.result, a.index, a.onto)}
    value = {a.result: a.value for a in found}
    nodes = tuple(n for n in definition.nodes if n.results[0] not in gone)
    return Definition(nodes, tuple(value.get(name, name) for name in definition.outputs))


def with_added(
    fusion: Fusion, definition: Definition, found: tuple[AddedRows, ...]
) -> tuple[Fusion, dict[str, TensorBinding]]:
    """The fusion of :func:`without_added` with what its rows are added to, and how these inputs are
    passed, by their names.

    Raises:
        UnsupportedError: other results than groups' of rows, or of another type.
    """
    bound = dict[str, TensorBinding]()
    outputs, groups = list(fusion.outputs), fusion.groups
    for a in found:
        at = definition.outputs.index(a.result)
        if groups is None or groups.along != ROWS or outputs[at].axes != (ROWS, COLS):
            raise UnsupportedError(f"{a.value} added to rows of {a.onto}", _SUPPORTED)
        for name, axes in ((a.index, (ROWS,)), (a.onto, (TOKENS, COLS))):
            node = definition.node(name)
            assert node is not None
            fusion, bound[name] = with_unread(fusion, axes, fixed_sizes(node), dtype_of(node))
        if bound[a.onto].dtype is not outputs[at].dtype:
            what = f"{a.value} of {outputs[at].dtype} added to {bound[a.onto].dtype}"
            raise UnsupportedError(what, _SUPPORTED)
        sizes = (bound[a.onto].sizes[0], outputs[at].sizes[1])
        outputs[at] = replace(
            outputs[at], added=Added(bound[a.index].tensor, bound[a.onto].tensor), sizes=sizes
        )
    return replace(fusion, outputs=tuple(outputs)), bound
