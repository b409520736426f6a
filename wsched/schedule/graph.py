"""The transform graph: iteration domains that stand for the same loop, and what relates them.

Domains of a producer and its consumer at the same logical position are *mapped*, through
broadcasts, mma, casts, pointwise operations and copies; so are the results of equal transforms of
mapped domains (in nvFuser's words the exact map with broadcasts made concrete). A class of mapped
domains is a *group*. The graph has groups and transforms as nodes; an edge leads from a group into
the transform that consumes it, and from a transform to the groups that it makes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lowering.ground.expr import Const, Expr
from lowering.ground.frozen import quick
from lowering.ground.poly import poly
from wsched.fusion import (
    BroadcastOp,
    Fusion,
    IterDomain,
    Merge,
    Split,
    TensorView,
    Transform,
    inputs_of,
)

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["Group", "Step", "TransformGraph", "divides"]


@quick
@dataclass(frozen=True, slots=True)
class Group:
    """Mapped domains; ``id`` is the smallest of their ids, label and extent are its own."""

    id: int
    label: str
    extent: Expr

    def __hash__(self) -> int:
        return self.id

    def __str__(self) -> str:
        return f"{self.label}{{{self.extent}}}"


@quick
@dataclass(frozen=True, slots=True)
class Step:
    """A transform between groups; ``transform`` is one of those, all equal, that it stands for."""

    transform: Transform
    inputs: tuple[Group, ...]
    outputs: tuple[Group, ...]

    @property
    def groups(self) -> tuple[Group, ...]:
        """What it consumes and makes."""
        return (*self.inputs, *self.outputs)

    @property
    def dynamic(self) -> bool:
        """Whether it deals out indices at run time."""
        return isinstance(self.transform, Split) and self.transform.dynamic

    @property
    def whole(self) -> Group:
        """What is split, or the result of a merge."""
        return (self.inputs if isinstance(self.transform, Split) else self.outputs)[0]

    @property
    def parts(self) -> tuple[Group, ...]:
        """The outer and the inner part of it."""
        return self.outputs if isinstance(self.transform, Split) else self.inputs

    def __str__(self) -> str:
        if isinstance(self.transform, Split):
            dynamic = ", dynamic" if self.dynamic else ""
            return f"split by {self.transform.factor}{dynamic}"
        order = f" traversal {self.transform.traversal}" if self.transform.traversal else ""
        return f"merge{order}"


class TransformGraph:
    """The groups of a fusion and the transforms between them; immutable after construction."""

    def __init__(self, fusion: Fusion) -> None:
        self._of = _made_from(fusion)
        self._leader: dict[int, int] = {}
        self._members: dict[int, list[int]] = {}
        self._places: dict[int, tuple[int, int, int]] = {}
        domains = dict(_domains(fusion))
        for pair in _logical_pairs(fusion):
            self._union(*pair)
        transforms = list(dict.fromkeys(s for t in fusion.tensors for s in t.transforms))
        # As they were made: of two that are equal the first one has the leaders, which stay.
        as_made = sorted(transforms, key=lambda t: t.outputs[0].id)
        while self._map_equal(as_made):
            pass
        self._groups = {
            leader: Group(leader, domains[leader].label, domains[leader].extent)
            for leader in sorted({self._find(d) for d in domains})
        }
        self._digits = self._by_number()
        self.steps = tuple(self._steps(transforms))
        self._producers: dict[Group, Step] = {}
        for step in self.steps:
            for g in step.outputs:
                self._producers.setdefault(g, step)
        self._padded = dict(self._paddings())
        self._of_whole: dict[Group, list[int]] = {}
        self._of_part: dict[Group, list[int]] = {}
        for place, step in enumerate(self.steps):
            self._of_whole.setdefault(step.whole, []).append(place)
            for g in step.parts:
                self._of_part.setdefault(g, []).append(place)

    def describes(self, fusion: Fusion) -> bool:
        """Whether this is the graph of ``fusion``: its dimensions, transforms and expressions are
        those that the graph was made from. Who runs a loop, inlining, memories and buffers may
        differ.
        """
        made = _made_from(fusion)
        same = zip(self._of, made, strict=False)
        return len(self._of) == len(made) and all(a is b for a, b in same)

    @property
    def groups(self) -> tuple[Group, ...]:
        """All groups, by id."""
        return tuple(self._groups.values())

    @property
    def dealt(self) -> tuple[Step, ...]:
        """The splits that deal out indices at run time."""
        return tuple(s for s in self.steps if s.dynamic)

    def group(self, d: IterDomain) -> Group:
        """The group of a domain."""
        return self._groups[self._leader.get(d.id, d.id)]

    def producer(self, g: Group) -> Step | None:
        """The transform that makes a group, None for a logical dimension."""
        return self._producers.get(g)

    def above(self, group: Group) -> set[Group]:
        """A group and all that it was made from."""
        found, pending = set[Group](), [group]
        while pending:
            g = pending.pop()
            if g not in found:
                found.add(g)
                step = self.producer(g)
                pending += () if step is None else step.inputs
        return found

    def padded(self, g: Group) -> Group | None:
        """The group whose two parts ``g`` merges in order, with those behind its end; if any."""
        return self._padded.get(g)

    def padding(self, g: Group) -> tuple[Group, ...]:
        """The groups of which ``g`` is what they pad (see :meth:`padded`)."""
        return tuple(made for made, whole in self._padded.items() if whole is g)

    def tiled(self, g: Group, among: Container[Group]) -> tuple[tuple[Group, int], ...]:
        """The groups that are together the same digits of a number as ``g``, each with what its
        index counts in that of ``g``: split by 16, as split by 32 and then by 16. None if they are
        not all ``among`` these.
        """
        if g.id not in self._places:
            return ()
        whole, stride, size = self._places[g.id]
        found, end = list[tuple[Group, int]](), stride * size
        for other, apart, count in self._digits.get(whole, ()):
            if other in among and apart >= stride and apart * count == end:
                found.append((other, apart // stride))
                end = apart
        return tuple(found) if end == stride else ()

    def known(self, t: TensorView) -> frozenset[Group]:
        """The groups of a tensor's dimensions, of its loops and of all between them."""
        made = (d for s in t.transforms for d in s.outputs)
        return frozenset(map(self.group, (*t.read, *made)))

    def networkx(self) -> nx.DiGraph:
        """Groups and transforms as a directed graph; a node's ``kind`` is "group" or "step"."""
        import networkx

        graph = networkx.DiGraph()
        for g in self.groups:
            graph.add_node(g, kind="group")
        for s in self.steps:
            graph.add_node(s, kind="step")
            graph.add_edges_from([(g, s) for g in s.inputs])
            graph.add_edges_from([(s, g) for g in s.outputs])
        return graph

    def of_whole(self, g: Group) -> Sequence[int]:
        """The places in :attr:`steps` of those between a group and its parts."""
        return self._of_whole.get(g, ())

    def of_part(self, g: Group) -> Sequence[int]:
        """The places of those between a group, another one, and what both are parts of."""
        return self._of_part.get(g, ())

    def digits(self, g: Group) -> tuple[Group, ...]:
        """The groups that are digits of the same number as ``g``, which is one of them; or none."""
        if g.id not in self._places:
            return ()
        return tuple(other for other, _, _ in self._digits[self._places[g.id][0]])

    def _paddings(self) -> Iterator[tuple[Group, Group]]:
        """Merges of both parts of one split, in order, with what was split."""
        for g, merge in self._producers.items():
            if isinstance(merge.transform, Merge) and not merge.transform.traversal:
                outer, inner = map(self.producer, merge.inputs)
                if outer is not None and outer is inner and outer.outputs == merge.inputs:
                    yield g, outer.inputs[0]

    def _by_number(self) -> dict[int, list[tuple[Group, int, int]]]:
        """The groups that are digits of each number, with their strides and how many they are, the
        slowest first.
        """
        found: dict[int, list[tuple[Group, int, int]]] = {}
        for d, (whole, stride, size) in self._places.items():
            found.setdefault(whole, []).append((self._groups[d], stride, size))
        for digits in found.values():
            digits.sort(key=lambda x: x[1:], reverse=True)
        return found

    def _find(self, d: int) -> int:
        return self._leader.get(d, d)

    def _union(self, a: int, b: int) -> int | None:
        """Make one class of two; its members know their leader, the smallest of them.

        The leader that is none any more, None where they were one class.
        """
        first, second = self._leader.get(a, a), self._leader.get(b, b)
        if first == second:
            return None
        if first > second:
            first, second = second, first
        moved = self._members.pop(second, [second])
        self._leader.update(dict.fromkeys(moved, first))
        self._members.setdefault(first, [first]).extend(moved)
        return second

    def _map_equal(self, transforms: list[Transform]) -> bool:
        """Map the results of equal transforms of mapped domains, a merge that undoes a split
        without a tail to its input, and the same digits of a number that was split in several ways
        (see :class:`_Digits`); whether transforms that were looked at have other sources now.
        """
        first: dict[object, Transform] = {}
        whole: dict[tuple[int, ...], Split] = {}
        digits = _Digits()
        asked, gone = set[int](), set[int | None]()
        for t in transforms:
            sources = tuple([self._find(d.id) for d in t.inputs])
            asked.update(sources)
            undone = whole.get(sources) if isinstance(t, Merge) and not t.traversal else None
            if undone is not None and divides(undone):
                gone.add(self._union(undone.input.id, t.outputs[0].id))
            how = (t.factor, t.inner_split, t.dynamic) if isinstance(t, Split) else t.traversal
            other = first.setdefault((type(t), sources, how), t)
            if other is not t:
                gone.update(
                    self._union(a.id, b.id) for a, b in zip(other.outputs, t.outputs, strict=True)
                )
            if isinstance(t, Split):
                parts = self._find(t.outer.id), self._find(t.inner.id)
                whole[parts] = t
                asked.update(parts)
                gone.update(self._union(a, b) for a, b in digits.same(t, self._find))
        self._places = digits.places
        return not asked.isdisjoint(gone)

    def _steps(self, transforms: list[Transform]) -> Iterator[Step]:
        seen = set()
        for t in transforms:
            inputs = tuple(self.group(d) for d in t.inputs)
            outputs = tuple(self.group(d) for d in t.outputs)
            undone = isinstance(t, Merge) and (outputs, inputs) in seen
            if (inputs, outputs) not in seen and not undone:
                seen.add((inputs, outputs))
                yield Step(t, inputs, outputs)


@dataclass(slots=True)
class _Digits:
    """What splits without a tail make of a number of constant extent, ``whole``: ``size`` digits,
    ``stride`` apart. Split by 32 and then by 16 is split by 16, as far as they are equal.
    """

    places: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    first: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def same(self, t: Split, find: Callable[[int], int]) -> Iterator[tuple[int, int]]:
        """The pairs of domains that are the same digits, one of each pair a result of ``t``."""
        match t.input.extent, t.inner.extent:
            case Const(n), Const(inner) if 1 < inner < n and n % inner == 0 and not t.dynamic:
                top = find(t.input.id), 1, n
                whole, stride, _ = self.places.setdefault(top[0], top)
                made = (t.outer, stride * inner, n // inner), (t.inner, stride, inner)
                for d, apart, size in made:
                    place = whole, apart, size
                    self.places.setdefault(find(d.id), place)
                    yield d.id, self.first.setdefault(place, d.id)


def divides(t: Split) -> bool:
    """Whether a split is known to leave no tail: each term of the extent is a multiple."""
    terms = poly(t.input.extent).terms
    match t.factor:
        case Const(factor):
            return all(n % factor == 0 for _, n in terms)
        case factor:
            return all(factor in monomial for monomial, _ in terms)


def _made_from(fusion: Fusion) -> tuple[object, ...]:
    """Everything of a fusion that a graph depends on."""
    return (fusion.exprs, *(x for t in fusion.tensors for x in (t.root, t.logical, t.transforms)))


def _domains(fusion: Fusion) -> Iterator[tuple[int, IterDomain]]:
    for t in fusion.tensors:
        for d in t.read:
            yield d.id, d
        for s in t.transforms:
            for d in s.outputs:
                yield d.id, d


def _logical_pairs(fusion: Fusion) -> Iterator[tuple[int, int]]:
    """Ids of producer and consumer dimensions that stand for each other."""
    for e in fusion.exprs:
        consumer = fusion.tensor(e.output).read
        if isinstance(e, BroadcastOp):
            consumer = tuple(d for d, new in zip(consumer, e.flags, strict=True) if not new)
        for name in inputs_of(e):
            for p, c in zip(fusion.tensor(name).stored, consumer, strict=True):
                yield p.id, c.id
