"""The order in memory that nvFuser gives a result.

A result that only looks at another tensor is a view of it (nvFuser's
``MarkAliasesPreparePass``). The order of any other is taken from the input with most dimensions
that it depends on (``AllocationDomainPass``): from the fastest of that input's dimensions on, those
that the result has, as long as it has them, are its fastest; the others keep their order before
them. Where several inputs have most and differ, it is row by row. What is written into an input
lies as that does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from wsched.front.cut.dimensions import Dimensions, regroup
from wsched.front.cut.tensors import Dim, Tensors
from wsched.importer import Definition, Node

__all__ = ["Order", "Orders", "by_stride", "declared_order", "with_orders"]

Order = tuple[int, ...]
"""Places of a shape, that of the largest stride first."""

_SETTLED = frozenset(("grouped_mm", "linear", "matmul", "sdpfa_bwd", "sdpfa_fwd", "stride_order"))
_LOOKS = frozenset((
    "broadcast", "expand", "permute", "reshape", "set", "slice", "squeeze", "stride_order",
))  # fmt: skip


def by_stride(order: Order) -> tuple[int, ...]:
    """As ``stride_order`` says it: each dimension's rank by stride, 0 the smallest."""
    return tuple(len(order) - 1 - order.index(at) for at in range(len(order)))


def with_orders(definition: Definition, tensors: Tensors) -> Tensors:
    """The tensors of a definition, with how those results lie that are no rows, and are read."""
    orders, found = Orders(definition, tensors), dict[str, Order | None]()
    read = {name for node in definition.nodes for name in node.refs}
    for name in (n for n in definition.outputs if n in read and n in tensors):
        order, dense = orders.layout(name) or ((), ())
        if order != tuple(range(len(order))) or not all(dense):
            found[name] = order if all(dense) else None
    return replace(tensors, orders=found) if found else tensors


def declared_order(node: Node) -> Order | None:
    """The order that a ``stride_order`` says, of an input or an operation; None without one."""
    said = node.get("stride_order")
    if not isinstance(said, tuple) or not all(isinstance(at, int) for at in said):
        return None
    ranks = [int(str(at)) for at in said]
    return tuple(sorted(range(len(ranks)), key=lambda at: -ranks[at]))


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a view lies: its places, slowest first, and which run on into the next faster one."""

    order: Order
    dense: tuple[bool, ...]


@dataclass(slots=True)
class Orders:
    """What nvFuser finds for each tensor of a definition; see :meth:`of`."""

    definition: Definition
    tensors: Tensors
    dimensions: Dimensions = field(init=False)
    _nodes: dict[str, Node] = field(init=False)
    _into: dict[str, str] = field(init=False)
    _views: dict[str, _Layout | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.dimensions = Dimensions(self.definition, self.tensors)
        self._nodes = {name: n for n in self.definition.nodes for name in n.results}
        self._into = self.definition.into

    def is_settled(self, name: str) -> bool:
        """Whether nvFuser looks for no order: of views, what ATen makes, what has one said."""
        if name in self._into:
            return False
        return self._nodes[name].op in _SETTLED or self._view(name) is not None

    def is_view(self, name: str) -> bool:
        """Whether a tensor is another one, looked at otherwise."""
        return self._view(name) is not None

    def layout(self, name: str) -> tuple[Order, tuple[bool, ...]] | None:
        """How a tensor lies that is a view, or row by row: order, and what runs on into the next.

        None where that is not known.
        """
        found = self._lies(name)
        return None if found is None else (found.order, found.dense)

    def untold(self, name: str) -> Node | None:
        """The operation that hides where a result's dimensions come from; None if none does."""
        if self.dimensions.of(name) is not None:
            return None
        node = self._nodes[name]
        before = (self.untold(n) for n in node.refs if n in self.tensors)
        return next((n for n in before if n is not None), node)

    def of(self, name: str) -> Order | None:
        """The order of a result that is not settled; None where its dimensions cannot be told."""
        if name in self._into:
            dims = self.dimensions.dims(name)
            rows = None if dims is None else tuple(range(len(dims)))
            return declared_order(self._nodes[self._into[name]]) or rows
        target = self.dimensions.of(name)
        if target is None:
            return None
        source = self._model(name)
        if source is None or len(set(target)) < len(target):
            return tuple(range(len(target)))
        return self._mapped(source, name, target)

    # --- the rule -------------------------------------------------------------------------------

    def _model(self, target: str) -> list[tuple[int, bool]] | None:
        """The input that a result's order is taken from: its dimensions, slowest first.

        Beside each whether it is broadcast.
        """
        best: list[tuple[int, bool]] | None = None
        most = 0
        for node in self._inputs_of(target):
            name = node.results[0]
            ids, dims = self.dimensions.of(name), self.dimensions.dims(name)
            if ids is None or dims is None or len(set(ids)) < len(ids):
                continue
            flat = [d.is_one or d.repeated for d in dims]
            found = [(ids[at], flat[at]) for at in declared_order(node) or range(len(ids))]
            count = flat.count(False)
            if count > most:
                best, most = found, count
            elif count == most and best is not None and _full(best) != _full(found):
                best = None
        return best

    def _inputs_of(self, name: str) -> Iterator[Node]:
        """The inputs that a tensor depends on, in the order of the definition."""
        pending, seen = [name], set[str]()
        while pending:
            name = pending.pop()
            if name not in seen and name in self.tensors:
                seen.add(name)
                pending += self._nodes[name].refs
        return (n for n in self.definition.inputs if n.results[0] in seen)

    def _mapped(self, source: list[tuple[int, bool]], name: str, target: tuple[int, ...]) -> Order:
        """A result's places: what the input's fastest dimensions are not, then what they are."""
        gone = {self.dimensions.root(n) for n in self.dimensions.reduced.get(name, ())}
        fastest: list[int] = []
        for number, flat in source[::-1]:
            if number in target:
                fastest.insert(0, target.index(number))
            elif number not in gone and not flat:
                break
        return (*(at for at in range(len(target)) if at not in fastest), *fastest)

    # --- views ----------------------------------------------------------------------------------

    def _view(self, name: str) -> _Layout | None:
        """How a view lies; None of what is no view."""
        if name not in self._views:
            self._views[name] = self._looks(self._nodes[name])
        return self._views[name]

    def _looks(self, node: Node) -> _Layout | None:
        dims = self.dimensions.dims(node.results[0])
        if node.op not in _LOOKS or dims is None or not node.refs:
            return None
        source = node.refs[0]
        before, old = self._lies(source), self.dimensions.dims(source)
        if before is None or old is None:
            return None
        match node.op:
            case "permute":
                said = node.get("dims")
                to = list(said) if isinstance(said, tuple) else []
                return _Layout(tuple(to.index(at) for at in before.order), before.dense)
            case "reshape":
                return _regrouped(before, old, dims)
            case "slice":
                whole = [a == b and a.extent is not None for a, b in zip(old, dims, strict=True)]
                last = old[before.order[-1]] if before.order else None
                runs = (*(whole[at] for at in before.order[1:]), last is None or not last.repeated)
                dense = tuple(d and r for d, r in zip(before.dense, runs, strict=True))
                return _Layout(before.order, dense)
            case "stride_order":
                # A copy unless it lies so already.
                kept = [at for at in before.order if not dims[at].is_one]
                said_order = declared_order(node) or ()
                wanted = [at for at in said_order if not dims[at].is_one]
                return _Layout(said_order, before.dense) if kept == wanted else None
            case "broadcast" | "squeeze":
                return _places_changed(node, before, len(dims))
        return before

    def _lies(self, name: str) -> _Layout | None:
        dims = self.dimensions.dims(name)
        if dims is None:
            return None
        view = self._view(name)
        if view is not None:
            return view
        node = self._nodes[name]
        order = declared_order(node) if node.op in ("define_tensor", "stride_order") else None
        if name in self.definition.outputs and not self.is_settled(name):
            order = self.of(name)
        dense = [True] * len(dims)
        contiguity = node.get("contiguity") if node.op == "define_tensor" else None
        if isinstance(contiguity, tuple) and len(contiguity) == len(dims):
            # By stride; each says whether it runs on into the next faster one.
            dense = [flag is not False for flag in contiguity]
        return _Layout(order or tuple(range(len(dims))), tuple(dense))


def _full(dims: list[tuple[int, bool]]) -> list[int]:
    return [number for number, flat in dims if not flat]


def _regrouped(before: _Layout, old: tuple[Dim, ...], new: tuple[Dim, ...]) -> _Layout | None:
    """After a reshape; None where that needs a copy."""
    place = {at: n for n, at in enumerate(before.order)}
    starts: dict[int, tuple[tuple[int, ...], bool]] = {}
    for a, b in regroup(old, new):
        if any(old[at].repeated for at in a) and (len(a), len(b)) != (1, 1):
            return None
        full = [n for n, at in enumerate(before.order) if not old[at].is_one]
        ranks = [full.index(place[at]) for at in a]
        adjacent = ranks == list(range(ranks[0], ranks[0] + len(a)))
        if not adjacent or not all(before.dense[place[at]] for at in a[:-1]):
            return None
        starts[ranks[0]] = b, before.dense[place[a[-1]]]
    order, dense = list[int](), list[bool]()
    for rank in sorted(starts):
        places, last = starts[rank]
        order += places
        dense += [True] * (len(places) - 1) + [last]
    ones = [at for at in range(len(new)) if at not in order]
    return _Layout((*ones, *order), (*(True for _ in ones), *dense))


def _places_changed(node: Node, before: _Layout, rank: int) -> _Layout:
    """After dimensions of size 1 came or went."""
    if node.op == "broadcast":
        flags = node.get("is_broadcast_dim")
        news = list(flags) if isinstance(flags, tuple) else []
        kept = [at for at in range(rank) if not news[at]]
        ones = [at for at in range(rank) if news[at]]
        order = (*ones, *(kept[at] for at in before.order))
        return _Layout(order, (*(True for _ in ones), *before.dense))
    said = node.get("dims")
    width = len(before.order)
    gone = {at % width for at in said if isinstance(at, int)} if isinstance(said, tuple) else set()
    left = [at for at in range(width) if at not in gone]
    pairs = [p for p in zip(before.order, before.dense, strict=True) if p[0] in left]
    return _Layout(tuple(left.index(at) for at, _ in pairs), tuple(d for _, d in pairs))
