"""Which dimensions of a definition's tensors are one and the same.

As in nvFuser's exact graph: what an operation reads and writes at the same place is one dimension,
a broadcast one and a full one are two, and what the same ``reshape`` or ``slice`` makes of one is
one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from lowering.ground.expr import Const, Expr
from wsched.front.cut.tensors import Dim, Tensors, numbers_of
from wsched.importer import Definition, Node
from wsched.importer.dtypes import POINTWISE
from wsched.importer.ops import FORMS, arity_of
from wsched.importer.ranks import reduced

__all__ = ["Dimensions", "regroup"]

_REDUCTIONS = ("max", "min", "prod", "sum", "var", "var_mean", "welford")
_MAKES = ("full", "iota", "normal", "uniform")
_ALIKE = (
    "argsort", "cast", "cummax", "cummin", "cumprod", "cumsum", "expand", "pad", "rand_like",
    "randn_like", "segment_set", "set", "slice", "stride_order", "triu",
)  # fmt: skip
"""One operand, place by place; where an extent changes, so does the dimension."""


def regroup(
    before: Sequence[Dim], after: Sequence[Dim]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """A reshape as places of operand and result whose products are equal, as few as can be told.

    Places of size 1 are in no group.
    """
    left = [at for at, d in enumerate(before) if not d.is_one]
    right = [at for at, d in enumerate(after) if not d.is_one]
    groups = []
    while left and right:
        a, b = [left.pop(0)], [right.pop(0)]
        x, y = before[a[0]].extent, after[b[0]].extent
        while x is None or x != y:
            if isinstance(x, Const) and isinstance(y, Const):
                side, dims, places = (a, before, left) if x.value < y.value else (b, after, right)
                if not places:
                    break
                side.append(places.pop(0))
                more = dims[side[-1]].extent
                if side is a:
                    x = _times(x, more)
                else:
                    y = _times(y, more)
            else:  # no telling where the next group begins
                a, b = a + left, b + right
                left, right = [], []
                break
        groups.append((tuple(a), tuple(b)))
    return groups


def _times(x: Expr | None, y: Expr | None) -> Expr | None:
    return None if x is None or y is None else x * y


@dataclass(slots=True)
class Dimensions:
    """The dimensions of each tensor, numbered; see :meth:`of`.

    Args:
        definition: whose.
        tensors: of it.
    """

    definition: Definition
    tensors: Tensors
    reduced: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Of a reduction's results: dimensions that are gone."""
    _found: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _parents: list[int] = field(default_factory=list)
    _made: dict[Hashable, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.definition.nodes:
            for name, ids in zip(node.results, self._results(node), strict=False):
                dims = self.dims(name)
                if ids is not None and dims is not None and len(ids) == len(dims):
                    self._found[name] = ids

    def of(self, name: str) -> tuple[int, ...] | None:
        """The dimensions of a tensor, outermost first; None where they cannot be told."""
        ids = self._found.get(name)
        return None if ids is None else tuple(map(self.root, ids))

    def dims(self, name: str) -> tuple[Dim, ...] | None:
        """Their extents."""
        found = self.tensors.types.get(name)
        return None if found is None else found.dims

    def root(self, number: int) -> int:
        """The number by which all know a dimension."""
        while self._parents[number] != number:
            number = self._parents[number]
        return number

    # --- kinds of operations --------------------------------------------------------------------

    def _results(self, node: Node) -> Sequence[tuple[int, ...] | None]:
        if node.op == "define_tensor" or node.op in _MAKES:
            return [self._fresh(name) for name in node.results]
        if node.op in _SEVERAL:
            return _SEVERAL[node.op](self, node)
        if node.op in _ONE:
            return [_ONE[node.op](self, node)]
        if node.op in POINTWISE or arity_of(node.op) is not None:
            return [self._aligned(node.results[0], self._tensors(node))]
        return []

    def _tensors(self, node: Node) -> list[str]:
        """The tensors that an operation reads."""
        return [name for name in node.refs if name in self.tensors]

    def _new(self) -> int:
        self._parents.append(len(self._parents))
        return len(self._parents) - 1

    def _fresh(self, name: str) -> tuple[int, ...] | None:
        dims = self.dims(name)
        return None if dims is None else tuple(self._new() for _ in dims)

    def _derived(self, *key: Hashable) -> int:
        """What is made in this way, one dimension however often."""
        if key not in self._made:
            self._made[key] = self._new()
        return self._made[key]

    def _one(self, numbers: Sequence[int]) -> int:
        first, *others = (self.root(n) for n in numbers)
        for other in others:
            self._parents[other] = first
        return first

    def _operand(self, node: Node, at: int = 0) -> tuple[str, tuple[int, ...]] | None:
        names = self._tensors(node)
        ids = self._found.get(names[at]) if at < len(names) else None
        return None if ids is None else (names[at], ids)

    def _aligned(
        self, result: str, names: Sequence[str], but: int | None = None
    ) -> tuple[int, ...] | None:
        """Place by place, the last ones together; what is broadcast only with its like.

        At ``but`` is a new dimension.
        """
        dims = self.dims(result)
        if dims is None or any(n not in self._found for n in names):
            return None
        found = []
        for at in range(-len(dims), 0):
            alike = [
                self._found[n][at]
                for n in names
                if len(self._found[n]) >= -at
                and at + len(dims) != but
                and _is_flat((self.dims(n) or ())[at]) == _is_flat(dims[at])
            ]
            found.append(self._one(alike) if alike else self._new())
        return tuple(found)

    def _alike(self, node: Node) -> tuple[int, ...] | None:
        source = self._operand(node)
        dims = self.dims(node.results[0])
        if source is None or dims is None or len(dims) != len(source[1]):
            return None
        name, ids = source
        arguments = tuple(map(str, node.kwargs))
        old = self.dims(name) or ()
        return tuple(
            number
            if now == was or (_is_flat(now) and _is_flat(was))
            else self._derived(node.op, self.root(number), at, arguments)
            for at, (number, now, was) in enumerate(zip(ids, dims, old, strict=True))
        )

    def _broadcast(self, node: Node) -> tuple[int, ...] | None:
        source, dims = self._operand(node), self.dims(node.results[0])
        if source is None or dims is None:
            return None
        if node.op == "broadcast":
            flags = node.get("is_broadcast_dim")
            news = flags if isinstance(flags, tuple) else ()
            into = tuple(at for at, new in enumerate(news) if not new)
        else:
            into = numbers_of(node.get("broadcast_dims"))
        by_place = dict(zip(into, source[1], strict=False))
        return tuple(by_place[at] if at in by_place else self._new() for at in range(len(dims)))

    def _permute(self, node: Node) -> tuple[int, ...] | None:
        source = self._operand(node)
        if source is None or self.dims(node.results[0]) is None:
            return None
        return tuple(source[1][at] for at in numbers_of(node.get("dims")))

    def _squeeze(self, node: Node) -> tuple[int, ...] | None:
        source = self._operand(node)
        if source is None:
            return None
        gone = {at % len(source[1]) for at in numbers_of(node.get("dims"))}
        return tuple(number for at, number in enumerate(source[1]) if at not in gone)

    def _select(self, node: Node) -> tuple[int, ...] | None:
        source, along = self._operand(node), node.get("dim")
        if source is None or not isinstance(along, int):
            return None
        return tuple(n for at, n in enumerate(source[1]) if at != along % len(source[1]))

    def _reshape(self, node: Node) -> tuple[int, ...] | None:
        source, after = self._operand(node), self.dims(node.results[0])
        if source is None or after is None:
            return None
        name, ids = source
        found: dict[int, int] = {}
        for a, b in regroup(self.dims(name) or (), after):
            if len(a) == len(b) == 1:
                found[b[0]] = ids[a[0]]
                continue
            key = tuple(self.root(ids[at]) for at in a), tuple(after[at].extent for at in b)
            found |= {at: self._derived("reshape", key, n) for n, at in enumerate(b)}
        return tuple(found[at] if at in found else self._new() for at in range(len(after)))

    def _cat(self, node: Node) -> tuple[int, ...] | None:
        dims, along = self.dims(node.results[0]), node.get("dim")
        if dims is None or not isinstance(along, int):
            return None
        if node.get("manual_padding"):  # of operands that have been padded to the whole
            return self._aligned(node.results[0], self._tensors(node))
        return self._aligned(node.results[0], self._tensors(node), along % len(dims))

    def _reduction(self, node: Node) -> list[tuple[int, ...] | None]:
        source = self._operand(node)
        if source is None:
            return []
        ids = source[1]
        gone = reduced(node, len(ids))
        self.reduced |= dict.fromkeys(node.results, tuple(ids[at] for at in gone))
        if node.get("keepdim"):
            kept = [self._new() if at in gone else n for at, n in enumerate(ids)]
        else:
            kept = [n for at, n in enumerate(ids) if at not in gone]
        return [tuple(kept)] * len(node.results)

    def _topk(self, node: Node) -> list[tuple[int, ...] | None]:
        """The operand's, but for the one along which values are taken."""
        source = self._operand(node)
        if source is None:
            return []
        along = node.get("dim")
        at = (along if isinstance(along, int) else -1) % len(source[1])
        taken = self._new()
        return [tuple(taken if n == at else i for n, i in enumerate(source[1]))] * 2

    def _product(self, node: Node) -> tuple[int, ...] | None:
        a, b = self._operand(node), self._operand(node, 1)
        if a is None or b is None:
            return None
        (name, x), (other, y) = a, b
        if node.op == "linear":
            self._one((x[-1], y[-1]))
            if (bias := self._operand(node, 2)) is not None and bias[1]:
                self._one((y[0], bias[1][-1]))
            return (*x[:-1], *y[:-1])
        self._one((x[-1], y[-2 if len(y) > 1 else 0]))
        outer, inner = (x[:-2], y[:-2]) if len(x) >= len(y) else (y[:-2], x[:-2])
        wide, narrow = (name, other) if len(x) >= len(y) else (other, name)
        batch = list(outer)
        for at in range(-len(inner), 0):
            ours, theirs = ((self.dims(n) or ())[at - 2] for n in (wide, narrow))
            if _is_flat(ours) == _is_flat(theirs):
                batch[at] = self._one((outer[at], inner[at]))
            elif _is_flat(ours):
                batch[at] = inner[at]
        return (*batch, *x[-2:-1], *(y[-1:] if len(y) > 1 else ()))

    def _grouped(self, node: Node) -> tuple[int, ...] | None:
        """Rows and columns, of which groups have some; or groups that each have all of them."""
        found = [self._operand(node, at) for at in range(3)]
        if None in found:
            return None
        a, b, ends = (x[1] for x in found if x is not None)
        if (len(a), len(b)) not in FORMS:
            return None
        self._one((a[-1], b[-2]))
        for matrices in (a[:-2], b[:-2]):
            self._one((*matrices, ends[0]))
        return (*(ends[:1] if len(a) == len(b) else ()), a[-2], b[-1])

    def _selected(self, node: Node) -> tuple[int, ...] | None:
        """The operand's, but for the one along which places are looked up: that is the index's."""
        source, index, along = self._operand(node), self._operand(node, 1), node.get("dim")
        if source is None or index is None or not isinstance(along, int) or len(index[1]) != 1:
            return None
        at = along % len(source[1])
        return (*source[1][:at], *index[1], *source[1][at + 1 :])

    def _looked_up(self, node: Node) -> tuple[int, ...] | None:
        """A table's rows, at each place of an index."""
        index, table = self._operand(node), self._operand(node, 1)
        return None if index is None or table is None else (*index[1], table[1][-1])

    def _gathered(self, node: Node) -> tuple[int, ...] | None:
        """The index's; nothing says that the operand's others are as long."""
        return index[1] if (index := self._operand(node, 1)) else None

    def _taken(self, node: Node) -> tuple[int, ...] | None:
        """Both operands', but for the one along which places are looked up: that is the index's."""
        index, along = self._operand(node, 1), node.get("dim")
        if index is None or not isinstance(along, int):
            return None
        at = along % len(index[1])
        both = self._aligned(node.results[0], self._tensors(node)[:2], at)
        return None if both is None else (*both[:at], index[1][at], *both[at + 1 :])

    def _added(self, node: Node) -> tuple[int, ...] | None:
        """The operand's, whose columns are those of the rows, of which each has an index."""
        found = [x[1] for at in range(3) if (x := self._operand(node, at))]
        onto, index, rows = found if len(found) == 3 else ((), (), ())
        for pair in zip((*index[:1], *onto[1:]), rows, strict=False):
            self._one(pair)
        return onto or None

    def _scattered(self, node: Node) -> tuple[int, ...] | None:
        """The operand's. Index and source have the same, which are also the operand's but for the
        one along which places are looked up, if the index is as long everywhere else.
        """
        source, index, along = self._operand(node), self._operand(node, 1), node.get("dim")
        if source is None or index is None or not isinstance(along, int):
            return None
        if (written := self._operand(node, 2)) is not None:
            for pair in zip(index[1], written[1], strict=False):
                self._one(pair)
        (name, ids), (by, places) = source, index
        kept = [at for at in range(len(ids)) if at != along % len(ids)]
        extents = [[(self.dims(n) or ())[at].extent for at in kept] for n in (name, by)]
        if extents[0] == extents[1] and None not in extents[0]:
            for at in kept:
                self._one((ids[at], places[at]))
        return ids

    def _attention(self, node: Node) -> list[tuple[int, ...] | None]:
        """Result and log-sum-exp: the query's but for the last dimension, which is the value's."""
        found = [self._found.get(name) for name in self._tensors(node)[:3]]
        query, _, value = (*found, None, None, None)[:3]
        if query is None or value is None or None in found:
            return []
        self._one_batch([ids for ids in found if ids is not None])
        return [(*query[:-1], value[-1]), query[:-1]]

    def _gradients(self, node: Node) -> list[tuple[int, ...] | None]:
        """Of query, key and value, each alike."""
        found = [self._found.get(name) for name in self._tensors(node)[1:4]]
        self._one_batch([ids for ids in found if ids is not None])
        return [*found]

    def _one_batch(self, operands: Sequence[tuple[int, ...]]) -> None:
        """Batch and heads are the same of all."""
        for ids in zip(*(ids[:-2] for ids in operands), strict=False):
            self._one(ids)


def _is_flat(dim: Dim) -> bool:
    """Whether nvFuser takes a dimension for a broadcast one."""
    return dim.is_one or dim.repeated


_ONE: dict[str, Callable[[Dimensions, Node], tuple[int, ...] | None]] = {
    "broadcast": Dimensions._broadcast,
    "broadcast_in_dim": Dimensions._broadcast,
    "cat": Dimensions._cat,
    "embedding_fwd": Dimensions._looked_up,
    "gather": Dimensions._gathered,
    "grouped_mm": Dimensions._grouped,
    "index_put_accumulate": Dimensions._added,
    "index_select": Dimensions._selected,
    "linear": Dimensions._product,
    "matmul": Dimensions._product,
    "permute": Dimensions._permute,
    "reshape": Dimensions._reshape,
    "scatter": Dimensions._scattered,
    "select": Dimensions._select,
    "squeeze": Dimensions._squeeze,
    "take_along_axis": Dimensions._taken,
    **dict.fromkeys(_ALIKE, Dimensions._alike),
}
_SEVERAL: dict[str, Callable[[Dimensions, Node], list[tuple[int, ...] | None]]] = {
    "sdpfa_bwd": Dimensions._gradients,
    "sdpfa_fwd": Dimensions._attention,
    "topk": Dimensions._topk,
    **dict.fromkeys(_REDUCTIONS, Dimensions._reduction),
}
