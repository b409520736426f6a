"""A rest as nvFuser runs it: each matmul by ATen, and a kernel of what stands between two.

What is made between two matmuls goes through memory where a matmul, or a kernel behind another one,
reads it. So a rest with attention in it reads and writes the scores several times, though none of
them is an input or a result.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from wsched.fusion import DataType
from wsched.importer import Definition, Node
from wsched.importer.ops import PRODUCTS

__all__ = ["Piece", "pieces"]

_SPREADS = frozenset(("broadcast", "broadcast_in_dim", "expand"))


@dataclass(slots=True)
class Piece:
    """A kernel of nvFuser's, or a matmul of ATen's.

    Attributes:
        matmul: the latter; None of a kernel.
        reads: names of what it reads from memory.
        writes: names of what it writes there.
        operations: that it computes, but for a matmul.
    """

    matmul: Node | None
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    operations: list[Node] = field(default_factory=list)


def pieces(definition: Definition, tensors: Container[str]) -> tuple[Piece, ...]:
    """The pieces of a rest: its matmuls in their order, then its kernels in theirs.

    Args:
        definition: of the rest.
        tensors: names of what is no number.
    """
    rest = _Rest(definition, tensors)
    alone = {i: Piece(n) for i, n in enumerate(definition.nodes) if n.op in PRODUCTS}
    kernels = {place: Piece(None) for place in sorted(set(rest.places.values()))}
    of = alone | {i: kernels[place] for i, place in rest.places.items()}
    for i, piece in of.items():
        piece.operations += [] if i in alone else [definition.nodes[i]]
        for name in (s for r in definition.nodes[i].refs for s in rest.sources(r)):
            made = of.get(rest.home[name])
            if made is not piece:
                piece.reads.add(name)
                if made is not None:
                    made.writes.add(name)
    for name in definition.outputs:
        if rest.home[name] in of:
            of[rest.home[name]].writes.add(name)
    return (*alone.values(), *(p for k in kernels.values() for p in _by_result(rest, k)))


def _by_result(rest: _Rest, kernel: Piece) -> Iterator[Piece]:
    """A kernel as nvFuser makes it: with tensors behind each other one for each result, which
    computes all that it needs (of Llama's queries, keys and values with rotary embeddings).
    """
    if not any(n.op == "cat" for n in kernel.operations):
        yield kernel
        return
    nodes, own = rest.definition.nodes, {n.results[0] for n in kernel.operations}
    for result in sorted(kernel.writes, key=rest.home.__getitem__):
        piece, pending, seen = Piece(None, writes={result}), [result], set[str]()
        while pending:
            name = pending.pop()
            node = nodes[rest.home[name]]
            if name != result and rest.lies(name) and node.results[0] not in own:
                piece.reads.add(name)
            elif node.results[0] not in seen:
                seen.add(node.results[0])
                pending += node.refs
        piece.operations = [n for n in kernel.operations if n.results[0] in seen]
        yield piece


@dataclass(frozen=True)
class _Rest:
    """Operations by their position.

    Args:
        definition: of the rest.
        tensors: names of what is no number.
    """

    definition: Definition
    tensors: Container[str]

    @cached_property
    def home(self) -> dict[str, int]:
        """Position of the operation that defines a name."""
        return {name: i for i, node in enumerate(self.definition.nodes) for name in node.results}

    def _is_again(self, i: int) -> bool:
        """Whether each kernel that reads a result makes it for itself: it is larger than what it is
        made of.
        """
        node = self.definition.nodes[i]
        if node.results[0] in self.definition.outputs:
            return False
        to = node.get("dtype")
        wide = node.op == "cast" and isinstance(to, DataType) and to.is_stored and to.bytes >= 4
        return wide or node.op in _SPREADS

    def _is_made(self, i: int) -> bool:
        """Whether it is in a kernel of nvFuser's."""
        node = self.definition.nodes[i]
        given = node.op.startswith("define_") or node.op in PRODUCTS
        return not given and node.results[0] in self.tensors and not self._is_again(i)

    def lies(self, name: str) -> bool:
        """Whether a tensor lies in memory, or could."""
        return name in self.tensors and not self._is_again(self.home[name])

    def sources(self, name: str) -> Iterator[str]:
        """What lies in memory of what is read under a name."""
        i = self.home[name]
        if name in self.tensors and self._is_again(i):
            for source in self.definition.nodes[i].refs:
                yield from self.sources(source)
        elif name in self.tensors:
            yield name

    @cached_property
    def places(self) -> dict[int, int]:
        """For each operation in a kernel how many matmuls in a row are done before that kernel: as
        few as can be, or as many as before its first reader, so that the two are one kernel.
        """
        nodes, least = self.definition.nodes, list[int]()
        for node in nodes:
            before = [self.home[name] for name in node.refs]
            least.append(max((least[j] + (nodes[j].op in PRODUCTS) for j in before), default=0))
        first: dict[int, tuple[int, bool]] = {}
        found: dict[int, int] = {}
        for i in reversed(range(len(nodes))):
            if self._is_made(i):
                place, by_matmul = first.get(i, (least[i], True))
                found[i] = least[i] if by_matmul else place
            elif nodes[i].op not in PRODUCTS:
                continue
            mine = (found[i], False) if i in found else (least[i], True)
            for name in (s for r in nodes[i].refs for s in self.sources(r)):
                j = self.home[name]
                first[j] = min(first.get(j, mine), mine)
        return found
