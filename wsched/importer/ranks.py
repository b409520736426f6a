"""The numbers of dimensions of what a definition names."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

from lowering.ground.errors import UnsupportedError
from lowering.ground.resolve import resolve
from wsched.importer.definition import Definition, Node, Ref, Value
from wsched.importer.dimensions import reduced_dims
from wsched.importer.ops import MATMULS
from wsched.importer.steps import REDUCED

__all__ = ["Ranks", "squeezed"]

_AS_IT_IS = ("expand", "cast", "set", "stride_order")

_REDUCING = frozenset((*REDUCED, "welford"))

# Operations that say what they make: the argument that does, and where it stands.
_SAID = {
    "define_tensor": ("shape", 0),
    "broadcast": ("is_broadcast_dim", 1),
    "broadcast_in_dim": ("shape", 1),
    "normal": ("shape", 2),
    "uniform": ("shape", 2),
}


@dataclass
class Ranks:
    """Numbers of dimensions, each found once.

    Args:
        definition: whose names these are.
        result: of a matmul's result; None where matmuls have no place.
        reduced: whether a reduction has the dimensions that it leaves; else those of its operand.
    """

    definition: Definition
    result: int | None
    reduced: bool = False
    _found: dict[str, int] = field(default_factory=dict)

    def of(self, value: Value) -> int:
        """Number of dimensions of a name; 0 of a number.

        Raises:
            UnsupportedError: it depends on a reduction over dimensions that there are not, or on a
                matmul that has no place.
        """
        return resolve(value.name, self._rank, self._found) if isinstance(value, Ref) else 0

    def _rank(self, name: str) -> Generator[str, int, int]:
        node = self.definition.node(name)
        if node is None or node.op in ("define_scalar", "size"):
            return 0
        if node.op in MATMULS:
            if self.result is None:
                raise UnsupportedError(f"fd.ops.{node.op}", "pointwise operations and reductions")
            return self.result
        if node.op in _SAID:
            said = node.argument(*_SAID[node.op])
            return len(said) if isinstance(said, tuple) else 0
        if node.op in _AS_IT_IS or node.op == "squeeze" or (self.reduced and node.op in _REDUCING):
            inner = node.operands[0]
            rank = (yield inner.name) if isinstance(inner, Ref) else 0
            return rank - self._gone(node, rank)
        most = 0
        for v in node.arguments:
            if isinstance(v, Ref):
                most = max(most, (yield v.name))
        return most

    def _gone(self, node: Node, rank: int) -> int:
        """Dimensions that a squeeze or a reduction of as many does not leave."""
        if node.op == "squeeze":
            return len(squeezed(node))
        if node.op not in _REDUCING:
            return 0
        if node.op in REDUCED and node.argument("keepdim", 2) is True:
            return 0
        return len(reduced_dims(node, rank))


def squeezed(node: Node) -> list[int]:
    """The dimensions that a squeeze takes away."""
    dims = node.argument("dims", 1)
    return [d for d in dims if isinstance(d, int)] if isinstance(dims, tuple) else []
