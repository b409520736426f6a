"""The numbers of dimensions of what a definition names, operation by operation."""

from __future__ import annotations

from dataclasses import dataclass, field

from wsched.importer.definition import Definition, Node, Ref, Value
from wsched.importer.ops import FORMS, GROUPED, HALVES, arity_of
from wsched.importer.signatures import parameters

__all__ = ["REDUCING", "Ranks", "argument_of", "places", "reduced"]

REDUCING = ("max", "min", "prod", "sum", "var", "var_mean", "welford")
"""Operations whose results lack the dimensions that they are over."""

_AS_THEIR_OPERAND = frozenset((
    "argsort", "cast", "cummax", "cummin", "cumprod", "cumsum", "gather", "index_put_accumulate",
    "index_select", "pad", "permute", "rand_like", "randn_like", "scaled_mm", "scatter",
    "segment_set", "set", "slice", "stride_order", "take_along_axis", "topk", "triu",
))  # fmt: skip
"""Operations whose results have as many dimensions as their first operand."""

_MORE = {"embedding_fwd": 1, "select": -1}
"""How many more those have whose results have others: a row of a table for each index, say."""

_SAID = {
    "broadcast": "is_broadcast_dim", "broadcast_in_dim": "shape", "define_tensor": "shape",
    "expand": "shape", "full": "shape", "normal": "shape", "reshape": "new_shape",
    "uniform": "shape",
}  # fmt: skip
"""Operations that say how many: the argument that does."""


@dataclass(slots=True)
class Ranks:
    """A walk over operations in their order, which knows how many dimensions each tensor has."""

    _found: dict[str, int] = field(default_factory=dict)
    _most: dict[str, int] = field(default_factory=dict)
    _tensors: set[str] = field(default_factory=set)

    @classmethod
    def all_of(cls, definition: Definition) -> Ranks:
        """Those of a definition, which has been checked."""
        found = cls()
        for node in definition.nodes:
            found.enter(node)
        return found

    def enter(self, node: Node) -> None:
        """Find those of an operation's results, whose dimensions have been checked."""
        if self.makes_number(node):
            return
        self._tensors.update(node.results)
        if (rank := self._made(node)) is not None:
            self._found |= dict.fromkeys(node.results, rank)
        else:
            most = max((self.of(Ref(name)) for name in node.refs), default=0)
            self._most |= dict.fromkeys(node.results, most)

    def makes_number(self, node: Node) -> bool:
        """Whether an operation makes a scalar: of a tensor's size, or of nothing but scalars."""
        if node.op in ("define_scalar", "size"):
            return True
        pointwise = node.op == "cast" or arity_of(node.op) is not None
        return pointwise and self._tensors.isdisjoint(node.refs)

    def is_tensor(self, value: Value) -> bool:
        """Whether a name is a tensor's."""
        return isinstance(value, Ref) and value.name in self._tensors

    def get(self, value: Value) -> int | None:
        """Dimensions of an operand: of a number none; None where they are not known."""
        if not isinstance(value, Ref):
            return None if isinstance(value, tuple) else 0
        return self._found.get(value.name) if value.name in self._tensors else 0

    def of(self, value: Value) -> int:
        """The same; where they are not known the most that is read there has, which is for somebody
        to refuse who knows what it is for.
        """
        found = self.get(value)
        return self._most.get(str(value), 0) if found is None else found

    def _made(self, node: Node) -> int | None:
        if node.op in _SAID:
            said = argument_of(node, _SAID[node.op])
            return len(said) if isinstance(said, tuple) else None
        if node.op == "iota":
            return 1
        if node.op == "cat":
            listed = node.argument("tensors", 0)
            return self.get(listed[0]) if isinstance(listed, tuple) and listed else None
        if node.op == HALVES:
            return None if (half := self.get(node.operands[0])) is None else half + 1
        if node.op in ("linear", "matmul", GROUPED):
            return self._of_product(node)
        if arity_of(node.op) is not None:
            known = [self.get(v) for v in node.values]
            return None if None in known else max((r for r in known if r is not None), default=0)
        rank = self.get(node.operands[0]) if node.operands else None
        if rank is None:
            return None
        if node.op in _AS_THEIR_OPERAND:
            return rank
        if node.op in _MORE:
            return rank + _MORE[node.op]
        if node.op == "squeeze":
            dims = node.get("dims")
            return rank - len(dims) if isinstance(dims, tuple) else None
        if node.op in REDUCING:
            return rank if argument_of(node, "keepdim") else rank - len(reduced(node, rank))
        return None

    def _of_product(self, node: Node) -> int | None:
        ranks = [self.get(v) for v in node.factors]
        if len(ranks) < 2 or ranks[0] is None or ranks[1] is None:
            return None
        a, b = ranks[0], ranks[1]
        if node.op == GROUPED:
            return (3 if a == b else 2) if (a, b) in FORMS else None
        if node.op == "linear":
            return a + b - 2
        return max(a, b, 2) - (a == 1) - (b == 1)


def argument_of(node: Node, name: str) -> Value:
    """An argument by its name, wherever the call has it."""
    names = parameters(node.op) or ()
    return node.argument(name, names.index(name)) if name in names else node.get(name)


def reduced(node: Node, rank: int) -> set[int]:
    """The dimensions that a reduction of a tensor of that rank is over, all by default."""
    dims = argument_of(node, "dims")
    dims = node.get("dim") if dims is None else dims
    if dims is None:
        return set(range(rank))
    return places(dims if isinstance(dims, tuple) else (dims,), rank)


def places(dims: tuple[Value, ...], rank: int) -> set[int]:
    """Those that are dimensions of so many; below 0 they count from the end."""
    return {d % rank for d in dims if type(d) is int and -rank <= d < rank}
