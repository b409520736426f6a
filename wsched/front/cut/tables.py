"""What of a rest depends on no tensor, as a table: a mask, the sines and cosines of positions.

NvFuser computes it wherever it is read: the angle of a position, its sine and its cosine for each
head, and for each score which of two positions comes first, in 64 bits. ``segment_set`` behind it
makes nvFuser store it by a kernel of its own, within the same call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import UnsupportedError
from wsched.doors.fallback import NvfuserError, execute, rebuild
from wsched.front.cut.graph import RANDOM
from wsched.front.cut.infer import infer
from wsched.front.cut.tensors import Tensors
from wsched.importer import Definition, Node, Ref

if TYPE_CHECKING:
    import torch

__all__ = ["SPREADS", "by_nvfuser", "widens", "with_tables"]

_READ_OFTEN = 8
"""What reads a table has at least so many times its elements."""

_WORTHWHILE = 1 << 20
"""And at least so many: below it another kernel takes longer than what it spares."""

_MADE = ("full", "iota")
"""What is as cheap as reading a table of it."""

SPREADS = ("broadcast", "broadcast_in_dim", "expand")
"""What a reader does for itself: the table is what they are of."""

_WHOLE = "@whole"
"""Ends the name of a table before it is stored."""


def by_nvfuser(
    definition: Definition,
    device: torch.device,
    function: Callable[..., list[torch.Tensor]] | None = None,
) -> Callable[[Sequence[Any]], list[torch.Tensor]]:
    """How nvFuser runs a rest: with tables, or as it is from the first refusal of these on.

    Args:
        definition: of the rest.
        device: where it runs. NvFuser has it of the inputs, but of what reads no tensor.
        function: what runs a live definition on its inputs, if not its own ``execute``.

    Raises:
        UnsupportedError: nvFuser is not installed, does not have an operation, or refuses one.
            ``NvfuserError`` by what is returned.
    """
    plain, form = rebuild(definition), with_tables(definition)
    options = {} if definition.reads_tensors else {"device": device}
    tabled: Any = None
    if form is not definition:
        with suppress(UnsupportedError):  # by an nvFuser that has no segment_set
            tabled = rebuild(form)

    def run(values: Sequence[Any]) -> list[torch.Tensor]:
        nonlocal tabled
        asked = tabled  # another thread may be refused meanwhile
        if asked is not None:
            try:
                return execute(asked, values, function, **options)
            except NvfuserError:
                tabled = None
        return execute(plain, values, function, **options)

    return run


def with_tables(definition: Definition) -> Definition:
    """The same with its tables in memory; as it is where there are none."""
    tensors = infer(definition)
    found = {*_tables(definition, tensors)}.difference(definition.outputs)
    if not found:
        return definition
    nodes = list[Node]()
    for node in definition.nodes:
        (name, *_) = node.results
        if name not in found:
            nodes.append(node)
            continue
        whole = name + _WHOLE
        nodes.append(replace(node, results=(whole,)))
        nodes.append(Node("segment_set", (name,), (Ref(whole),), (), node.line))
    return replace(definition, nodes=tuple(nodes))


def _tables(definition: Definition, tensors: Tensors) -> Iterator[str]:
    """Names of what depends on no input and is read by much that does."""
    steady = _steady(definition, tensors)
    for node in definition.nodes:
        (name, *_) = node.results
        if name in steady or name not in tensors.types:
            continue
        for read in steady.intersection(node.refs):
            table = _before_spreads(definition, tensors, read)
            few, many = _elements(tensors, table.results[0]), _elements(tensors, name)
            often = many >= _WORTHWHILE and many >= _READ_OFTEN * few > 0
            if often and table.op not in _MADE and len(table.results) == 1:
                yield table.results[0]


def _steady(definition: Definition, tensors: Tensors) -> set[str]:
    """Names of the tensors that depend on no tensor of the inputs."""
    found = set[str]()
    for node in definition.nodes:
        given = node.op == "define_tensor" or node.op in RANDOM  # other numbers wherever drawn
        read = (n for n in node.refs if n in tensors.types)
        if not given and found.issuperset(read):
            found.update(n for n in node.results if n in tensors.types)
    return found


def _before_spreads(definition: Definition, tensors: Tensors, name: str) -> Node:
    """What a tensor is before it is spread, and widened."""
    while True:
        node = definition.node(name)
        assert node is not None
        if node.op not in SPREADS and not (node.op == "cast" and widens(tensors, node)):
            return node
        (name, *_) = node.refs


def widens(tensors: Tensors, cast: Node) -> bool:
    """Whether a cast makes no elements smaller."""
    kinds = [tensors.types[n].dtype for n in (cast.refs[0], cast.results[0])]
    bytes_of = [k.bytes for k in kinds if k is not None and k.is_stored]
    return len(bytes_of) == 2 and bytes_of[0] <= bytes_of[1]


def _elements(tensors: Tensors, name: str) -> int:
    """Of a tensor; 0 where the definition does not tell it."""
    try:
        return prod(tensors.types[name].shape({}))
    except UnsupportedError:
        return 0
