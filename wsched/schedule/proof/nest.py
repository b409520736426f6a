"""The loop nests of a schedule as a tree: loops, and an expression at each leaf.

A tensor is computed in loops of its own, of which it shares the outer ones with what reads it, as
many as its compute-at position says. Loops that are shared in this way are one loop of the tree;
so are the loops of what fills a stage of a circular buffer together, left of the stage, those of
what reads a stage, as far as they step through stages, and those of a tensor that is computed while
a loop of the same kind is open. What is dumped is printed from
this tree, and the lowering walks it for what is computed; the loops that fill a ring it makes from
the relation that was proved of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from weakref import WeakKeyDictionary

from wsched.fusion import (
    BOX,
    Fusion,
    IterDomain,
    PointwiseOp,
    TensorView,
    inputs_of,
    roundings,
)
from wsched.schedule.graph import TransformGraph
from wsched.schedule.proof.bystanders import determined
from wsched.schedule.proof.digits import load_digits

__all__ = [
    "BOX", "Leaf", "Loop", "Node", "Wait", "leaves", "loops", "made_early", "nest", "stepping",
    "waits",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Leaf:
    """The expression that makes a tensor, executed once for each iteration of the loops around."""

    tensor: TensorView


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop.

    Args:
        tensor: the first tensor that is computed in it.
        domain: which of that tensor's loops it is.
        body: what stands in it, in order of execution.
    """

    tensor: TensorView
    domain: IterDomain
    body: tuple[Node, ...]


Node = Loop | Leaf

_Key = tuple[str, int]
"""A loop of a tensor: the tensor's name, and which of its loops outside the box."""


def leaves(node: Node) -> Iterator[TensorView]:
    """The tensors that are computed in a node, in order."""
    if isinstance(node, Leaf):
        yield node.tensor
    else:
        for inner in node.body:
            yield from leaves(inner)


def loops(node: Node) -> Iterator[IterDomain]:
    """A node's loop and those inside it, in order."""
    if isinstance(node, Loop):
        yield node.domain
        for inner in node.body:
            yield from loops(inner)


def nest(fusion: Fusion, graph: TransformGraph, names: Iterable[str]) -> tuple[Node, ...]:
    """The tree of the tensors in ``names`` that have a loop nest.

    Args:
        fusion: the schedule.
        graph: its transform graph.
        names: the tensors of one part.
    """
    return _built(fusion, graph, frozenset(names))[0]


@dataclass(frozen=True, slots=True)
class Wait:
    """A tensor that needs another one first.

    Args:
        reader: the tensor.
        read: what it reads.
        loop: label of the loop that the reader shares with others; empty outside of one.
    """

    reader: str
    read: str
    loop: str


def waits(fusion: Fusion, graph: TransformGraph, names: Iterable[str]) -> tuple[Wait, ...]:
    """Tensors that wait for each other in a circle, because of the loops that they share.

    What each one reads is computed in the loop of the next one's reader, the last one's in that of
    the first. Empty where everything can be computed in some order.

    Args:
        fusion: the schedule.
        graph: its transform graph.
        names: the tensors of one part.
    """
    return _built(fusion, graph, frozenset(names))[1]


_Built = tuple[tuple[Node, ...], tuple[Wait, ...]]
_known: WeakKeyDictionary[TransformGraph, dict[frozenset[str], tuple[Fusion, _Built]]]
_known = WeakKeyDictionary()
"""Of a graph that is still of use the last trees of its parts: what is proved is lowered then."""


def _built(fusion: Fusion, graph: TransformGraph, names: frozenset[str]) -> _Built:
    """The tree of a part, and the circle in it."""
    trees = _known.setdefault(graph, {})
    of, found = trees.get(names, (None, None))
    if found is None or of is not fusion:
        builder = _Builder(fusion, graph, _scheduled(fusion, names))
        found = builder.tree(), builder.circle
        trees[names] = fusion, found
    return found


def stepping(
    graph: TransformGraph, t: TensorView, loads: Iterable[TensorView]
) -> tuple[IterDomain, ...]:
    """The outer loops of a tensor that reads ``loads``, up to the last that is not inside a stage.

    Args:
        graph: the transform graph.
        t: the tensor.
        loads: the circular-buffered tensors that it reads.
    """
    inside = [determined(graph, map(graph.group, x.loop[x.slice_position :])) for x in loads]
    loops = _outside(t)
    steps = (p for p, d in enumerate(loops, 1) if not all(graph.group(d) in i for i in inside))
    return tuple(loops[: max(steps, default=0)])


def made_early(fusion: Fusion) -> frozenset[str]:
    """What is computed, beside what is reduced, of several tensors that lead to it, and what that
    is made from: as soon as it can be, since behind the reduction these would be held until then in
    its place. Of sums, and what takes the place of sums, which are held anyway, it is made behind.
    """
    reduced = {e.output for e in fusion.exprs if fusion.reduction(e.output) is not None}
    first = {*fusion.made_from(reduced)}
    anyway = {t.name for t in fusion.tensors if t.sums}
    anyway.update(name for r in roundings(fusion) if r.alone for name in r.tensors)
    of, found = dict[str, frozenset[str]](), set[str]()
    for e in fusion.exprs:
        if e.output in first or not isinstance(e, PointwiseOp):
            continue
        held = {n for n in inputs_of(e) if n in first and n not in anyway}
        of[e.output] = frozenset(held).union(*(of.get(n, ()) for n in inputs_of(e)))
        if len(of[e.output]) > 1:
            found.add(e.output)
    return frozenset(fusion.made_from(found)) - first


def _scheduled(fusion: Fusion, names: frozenset[str]) -> list[TensorView]:
    """Those with a loop nest, in topological order, results last."""
    order = [e.output for e in fusion.exprs if e.output in names]
    results = {b.tensor for b in fusion.outputs}
    # What TMA stores of a chunk is stored together, so what threads store is not in between.
    # Reductions come first: what else is made of their inputs is not held meanwhile.
    reduced = {n for n in order if fusion.reduction(n) is not None}
    first = set(fusion.made_from(reduced)) | reduced | made_early(fusion)
    order.sort(key=lambda n: (n in results and n not in reduced, n not in first))
    return [fusion.tensor(n) for n in order if fusion.tensor(n).transforms]


def _outside(t: TensorView) -> list[IterDomain]:
    """The loops around the box."""
    return [d for d in t.loop if d.parallel not in BOX]


class _Builder:
    """Puts loops that are one loop together, then what stands in each in order."""

    def __init__(self, fusion: Fusion, graph: TransformGraph, tensors: list[TensorView]) -> None:
        self.fusion, self.graph, self.tensors = fusion, graph, tensors
        self.loops = {t.name: _outside(t) for t in tensors}
        self.leader: dict[_Key, _Key] = {}
        self.circle: tuple[Wait, ...] = ()
        by_name = {t.name: t for t in tensors}
        for t in tensors:
            for p in fusion.producers(t.name):
                if p.name in by_name:
                    self.share(p, t, p.compute_at)
        for a, b in self.readers():
            loads = [p for p in fusion.producers(a.name) if p.circular_buffer is not None]
            self.share(a, b, len(stepping(graph, a, loads)))
        for a, b in pairwise(tensors):
            if _fill_stages(a, b):
                self.loops[b.name] = self.in_step(a, b)
            self.share(a, b, a.slice_position if _fill_stages(a, b) else a.compute_at)

    def readers(self) -> Iterator[tuple[TensorView, TensorView]]:
        """Tensors that read the same ring: the first with each of the others."""
        first: dict[str, TensorView] = {}
        for t in self.tensors:
            for p in self.fusion.producers(t.name):
                if p.circular_buffer is not None and first.setdefault(p.name, t) is not t:
                    yield first[p.name], t

    def share(self, a: TensorView, b: TensorView, limit: int) -> None:
        """The outer loops of two tensors are the same, at most ``limit`` of them."""
        same = self.counts_alike if _fill_stages(a, b) else self.same_loop
        pairs = zip(self.loops[a.name][:limit], self.loops[b.name], strict=False)
        for depth, (x, y) in enumerate(pairs):
            if not same(x, y):
                break
            self.leader[self.find((b.name, depth))] = self.find((a.name, depth))

    def same_loop(self, x: IterDomain, y: IterDomain) -> bool:
        """Whether loops of two tensors were made in the same way and run alike."""
        return x.parallel is y.parallel and self.graph.group(x) == self.graph.group(y)

    def counts_alike(self, x: IterDomain, y: IterDomain) -> bool:
        """Whether they count the same and run alike, in whichever order they were merged."""
        counts = (load_digits(self.graph, [self.graph.group(d)], frozenset())[0] for d in (x, y))
        return self.same_loop(x, y) or (x.parallel is y.parallel and next(counts) == next(counts))

    def in_step(self, a: TensorView, b: TensorView) -> list[IterDomain]:
        """The loops of ``b`` left of the stage that ``a`` fills as well, in the order of those of
        ``a``: loops on CTAs have none.
        """
        loops = self.loops[b.name]
        left, stage = loops[: b.slice_position], loops[b.slice_position :]
        mine = [next((y for y in left if self.counts_alike(x, y)), None)
                for x in self.loops[a.name][: a.slice_position]]  # fmt: skip
        found = [y for y in mine if y is not None]
        return [*found, *stage] if {d.id for d in found} == {d.id for d in left} else loops

    def find(self, key: _Key) -> _Key:
        """The first of the loops that are one with ``key``."""
        passed = []
        while (up := self.leader.get(key, key)) != key:
            passed.append(key)
            key = up
        self.leader.update(dict.fromkeys(passed, key))
        return key

    def tree(self) -> tuple[Node, ...]:
        """All of it."""
        return self.body(self.tensors, 0)

    def body(self, tensors: list[TensorView], depth: int) -> tuple[Node, ...]:
        """What stands in the loops around, which all of ``tensors`` share up to ``depth``."""
        inside: dict[_Key | str, list[TensorView]] = {}
        for t in tensors:
            key = self.find((t.name, depth)) if depth < len(self.loops[t.name]) else t.name
            inside.setdefault(key, []).append(t)
        return tuple(
            Leaf(found[0])
            if isinstance(key, str)
            else Loop(found[0], self.loops[found[0].name][depth], self.body(found, depth + 1))
            for key, found in self.in_order(inside, depth)
        )

    def in_order(
        self, inside: dict[_Key | str, list[TensorView]], depth: int
    ) -> Iterator[tuple[_Key | str, list[TensorView]]]:
        """What makes a tensor before what reads it, else as the tensors come.

        What waits for each other comes as it can; ``circle`` then says so.
        """
        left, place = dict(inside), {key: at for at, key in enumerate(inside)}
        made = {t.name: key for key, found in inside.items() for t in found}
        needed = {
            key: {made[name] for name in self.needs(found) if name in made}
            for key, found in inside.items()
        }
        readers: dict[_Key | str, list[_Key | str]] = {key: [] for key in inside}
        for key, behind in needed.items():
            for read in behind:
                readers[read].append(key)
        ready = [place[key] for key, behind in needed.items() if not behind]  # a heap, as sorted
        keys = list(inside)
        while left:
            if ready:
                key = keys[heappop(ready)]
            else:
                key, self.circle = self.waiting(left, depth)
            yield key, left.pop(key)
            for reader in readers[key]:
                needed[reader].discard(key)
                if not needed[reader] and reader in left:
                    heappush(ready, place[reader])

    def waiting(
        self, left: dict[_Key | str, list[TensorView]], depth: int
    ) -> tuple[_Key | str, tuple[Wait, ...]]:
        """One of those that wait for each other, and a circle in which they do."""
        place = {t.name: key for key, found in left.items() for t in found}
        key, seen, path = next(iter(left)), dict[_Key | str, int](), list[Wait]()
        while key not in seen:
            seen[key] = len(path)
            label = "" if isinstance(key, str) else self.loops[left[key][0].name][depth].label
            t, read = next(
                (t, p.name)
                for t in left[key]
                for p in self.fusion.producers(t.name)
                if place.get(p.name, key) != key
            )
            path.append(Wait(t.name, read, label))
            key = place[read]
        return key, tuple(path[seen[key] :])

    def needs(self, tensors: list[TensorView]) -> set[str]:
        """What ``tensors`` read beside each other."""
        read = {p.name for t in tensors for p in self.fusion.producers(t.name)}
        return read - {t.name for t in tensors}


def _fill_stages(a: TensorView, b: TensorView) -> bool:
    """Whether both fill stages of circular buffers."""
    return a.circular_buffer is not None and b.circular_buffer is not None
