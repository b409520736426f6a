"""Which loops a statement stands for: all their trips are one execution of what is in them.

What is computed in registers, staged and stored has no order among the elements of a tile: one
statement of a larger tile does what a loop over smaller ones says. Three things ask for that. A
fragment has whole rows and columns of instructions; a tensor that is read outside of its loops is
there as a whole by then; a box that is stored is all that a warpgroup has staged. Where one leaf
asks, all leaves in the loop are lowered at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import ONE
from lowering.nest.accumulator import Accumulator
from lowering.nest.place import is_fragment
from lowering.nest.tile import Tile, tile_of
from wsched.fusion import IterDomain, ParallelType, ReductionOp, TensorView
from wsched.schedule.entries import entry_step, listed
from wsched.schedule.graph import Group
from wsched.schedule.plan import Plan
from wsched.schedule.proof.nest import BOX, Loop, Node, leaves

__all__ = ["PARTS", "AtOnce"]

PARTS = (ParallelType.Serial, ParallelType.Unroll)
"""Loops over parts of what a warpgroup holds."""

_Key = tuple[str, int]
"""A tensor, and a number of loops: of a loop of the tree the first tensor in it, and the loops
around it; of a tile its tensor, and the loops in front of those that it covers.
"""


class AtOnce:
    """The innermost loops of each leaf, whose trips its statement stands for."""

    def __init__(
        self, plan: Plan, nodes: tuple[Node, ...], accumulators: Sequence[Accumulator]
    ) -> None:
        """Decided once for a part.

        Args:
            plan: the schedule.
            nodes: the tree of the part.
            accumulators: what it adds up; what repeats their instructions is no loop for others.
        """
        self.plan, self.fusion, self.graph = plan, plan.fusion, plan.graph
        self.counted = {self.graph.group(s.domain) for r in plan.relations for s in r.digits}
        self.accumulators = {a.tensor.name for a in accumulators}
        self.repeating = frozenset[Group]().union(*(a.repeated for a in accumulators))
        self.around = dict(_around(nodes, ()))
        self.tensors = [self.fusion.tensor(name) for name in self.around]
        self.tiles: dict[_Key, Tile | None] = {}
        may = {t.name: self._repeated(t) for t in self.tensors}
        last = self._ends(may, max)
        self.first = {t.name: self._shared(t, last) for t in self.tensors}
        while (found := self._more()) != self.first:
            self.first = found
        self.last = self._ends(self.first, max)

    def _ends(self, of: Mapping[str, int], end: Callable[[int, int], int]) -> dict[_Key, int]:
        """Of each loop the least or the largest number that its leaves have.

        Loops are told by their first tensor and how many are around them.
        """
        found: dict[_Key, int] = {}
        for name, loops in self.around.items():
            for loop in (_key(x, depth) for depth, x in enumerate(loops)):
                found[loop] = end(found.get(loop, of[name]), of[name])
        return found

    def covers(self, node: Loop, depth: int) -> bool:
        """Whether statements stand for all trips of a loop that is in ``depth`` others."""
        return self.last[_key(node, depth)] <= depth

    def tile(self, t: TensorView) -> Tile:
        """What the statement of a leaf covers.

        Raises:
            UnsupportedError: that is no box.
        """
        first = self.first[t.name]
        return self.tiles.get((t.name, first)) or self._box(t, first)

    def _inside(self, t: TensorView, first: int) -> list[IterDomain]:
        """Those of a leaf's loops from ``first`` on that have trips of their own."""
        loops = _loops(t)[first:]
        return [d for d in loops if d.parallel in PARTS and d.extent != ONE]

    def _repeated(self, t: TensorView) -> int:
        """Where the loops begin that only repeat the fragment of one instruction."""
        loops = _loops(t)
        first = len(loops)
        if any(d.parallel is ParallelType.Bulk for d in t.loop):
            return first
        for depth in reversed(range(len(loops))):
            if loops[depth].extent != ONE:
                group = self.graph.group(loops[depth])
                steps = group in self.counted and t.name not in self.accumulators
                if steps or group not in self.repeating or self._has_two_entries(t, depth):
                    break
                first = depth
        return first

    def _shared(self, t: TensorView, last: Mapping[_Key, int]) -> int:
        """Where those of these loops begin that are so for all leaves in them."""
        loops = self.around[t.name]
        shared = (p for p, loop in enumerate(loops) if last[_key(loop, p)] <= p)
        return next(shared, len(loops))

    def _more(self) -> dict[str, int]:
        """The same with what each leaf asks for, and with what others in those loops do."""
        found = {t.name: self._asked(t) for t in self.tensors}
        least = self._ends(found, min)
        for name, loops in self.around.items():
            for depth, loop in enumerate(loops[: found[name]]):
                if least[_key(loop, depth)] <= depth:
                    found[name] = depth
                    break
        return found

    def _asked(self, t: TensorView) -> int:
        """Where the loops begin that a leaf asks for; as before where they can't be had."""
        first = depth = self.first[t.name]
        while self._read_outside(t, depth) or not self._fits(t, depth):
            outer = self._outer(t, depth)
            if outer is None:
                return first
            depth = outer
        return depth

    def _read_outside(self, t: TensorView, first: int) -> bool:
        """Whether a tensor is read outside of loops that are left in front of ``first``."""
        readers = [r for r in self.fusion.consumers(t.name) if r.name in self.around]
        if t.name in self.accumulators or not readers:
            return False
        loops = _loops(t)[t.compute_at : first]
        return any(d.parallel in PARTS and d.extent != ONE for d in loops)

    def _fits(self, t: TensorView, first: int) -> bool:
        """Whether the box of a leaf, with the loops from ``first`` on, is one of a statement."""
        if t.name in self.accumulators:
            return True
        kinds = {d.parallel for d in t.loop if d.parallel in BOX}
        if kinds == {ParallelType.Mma}:
            tile = self._tile(t, first)
            return tile is not None and is_fragment(self.plan, tile)
        for staged in self.fusion.producers(t.name) if kinds else ():
            if staged.name in self.around:
                box, held = self._tile(t, first), self._tile(staged, self.first[staged.name])
                return box is None or held is None or box.size_by_axis == held.size_by_axis
        return True

    def _tile(self, t: TensorView, first: int) -> Tile | None:
        """The same with the loops from ``first`` on, None if that is no box."""
        key = t.name, first
        if key not in self.tiles:
            try:
                tile = self._box(t, first)
                self.tiles[key] = tile if tile.sizes else None
            except UnsupportedError:
                self.tiles[key] = None
        return self.tiles[key]

    def _box(self, t: TensorView, first: int) -> Tile:
        inside = {d.id for d in self._inside(t, first)}
        return tile_of(t, [d for d in t.loop if d.parallel in BOX or d.id in inside])

    def _outer(self, t: TensorView, first: int) -> int | None:
        """The next loop outside whose trips a statement may stand for; None if there is none."""
        for depth in reversed(range(first)):
            loop = self.around[t.name][depth]
            if loop.domain.parallel in PARTS and loop.domain.extent != ONE:
                return depth if self._has_no_order(loop, depth) else None
        return None

    def _has_no_order(self, loop: Loop, depth: int) -> bool:
        """Whether the trips of a loop in ``depth`` others may be executed together."""
        if self.graph.group(loop.domain) in self.counted:
            return False
        return not any(
            t.name in self.accumulators
            or isinstance(self.fusion.definition(t.name), ReductionOp)
            or self._has_two_entries(t, depth)
            for t in leaves(loop)
        )

    def _has_two_entries(self, t: TensorView, first: int) -> bool:
        """Whether the box of a leaf, with the loops from ``first`` on, may have parts of two of the
        tensors that stand side by side in a list.
        """
        axes = listed(self.fusion, t)
        tile = self._tile(t, first) if axes else None
        return tile is not None and any(
            entry_step(self.fusion, str(d.extent)) % tile.size(d)
            for d in t.logical
            if str(d.extent) in axes
        )


def _loops(t: TensorView) -> list[IterDomain]:
    """The loops of a tensor around its box."""
    return [d for d in t.loop if d.parallel not in BOX]


def _key(loop: Loop, depth: int) -> _Key:
    """A loop of the tree that ``depth`` others are around."""
    return loop.tensor.name, depth


def _around(
    nodes: tuple[Node, ...], loops: tuple[Loop, ...]
) -> Iterator[tuple[str, tuple[Loop, ...]]]:
    """Each leaf's tensor with the loops around it."""
    for node in nodes:
        if isinstance(node, Loop):
            yield from _around(node.body, (*loops, node))
        else:
            yield node.tensor.name, loops
