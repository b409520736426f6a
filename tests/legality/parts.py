"""What the oracle reads off a fusion before it counts anything: who loads, who computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from lowering.ground.expr import Const
from tests.legality.walk import Walk, World, roots
from wsched.fusion import (
    Fusion,
    IterDomain,
    IterType,
    MemoryType,
    ParallelType,
    TensorView,
)
from wsched.schedule.graph import TransformGraph
from wsched.schedule.proof.nest import Leaf, Node, nest

__all__ = [
    "BIDS",
    "BOX",
    "TIDS",
    "Illegal",
    "Parts",
    "Ring",
    "Shapeless",
    "constant",
    "extents_on",
    "serial",
]

BIDS = (ParallelType.BIDx, ParallelType.BIDy, ParallelType.BIDz)
TIDS = (ParallelType.TIDy, ParallelType.TIDz)
BOX = (ParallelType.Bulk, ParallelType.Mma)


class Illegal(Exception):  # noqa: N818
    """The schedule is illegal, and why."""


class Shapeless(Illegal):
    """What one stage or fragment holds has no shape that a kernel could have."""


def serial(loops: tuple[IterDomain, ...]) -> tuple[IterDomain, ...]:
    """Loops that one warp runs in order."""
    return tuple(d for d in loops if d.parallel not in (*BIDS, *TIDS, *BOX))


def constant(loops: tuple[IterDomain, ...], what: str) -> None:
    """Refuse loops whose number is known at run time only."""
    for d in loops:
        if not isinstance(d.extent, Const):
            raise Shapeless(f"{what}: loop {d.label} of {d.extent} has no constant size")


@dataclass(frozen=True)
class Ring:
    """Tensors that fill stages together.

    Args:
        fills: loads, or what one part stores, in order.
        readers: the tensors that read a stage, each with the ones of these that it reads.
        filler: the part that stores them, by its place; None of loads.
    """

    fills: tuple[TensorView, ...]
    readers: tuple[tuple[TensorView, tuple[TensorView, ...]], ...]
    filler: int | None = None

    @property
    def stages(self) -> int:
        """Number of stages."""
        buffer = self.fills[0].circular_buffer
        assert buffer is not None
        return buffer.stages


@dataclass(frozen=True)
class Parts:
    """A fusion cut at its loads and at what is stored for others."""

    fusion: Fusion

    @cached_property
    def sums(self) -> tuple[TensorView, ...]:
        """The accumulators."""
        return tuple(self.fusion.tensor(e.output) for e in self.fusion.mmas)

    @cached_property
    def loads(self) -> tuple[TensorView, ...]:
        """Tensors that TMA fills from global memory."""
        return self.fusion.loads

    @cached_property
    def stored(self) -> tuple[TensorView, ...]:
        """Tensors in shared memory that warps store for others."""
        loads = {t.name for t in self.loads}
        tensors = self.fusion.tensors
        return tuple(t for t in tensors if t.circular_buffer is not None and t.name not in loads)

    @cached_property
    def computed(self) -> tuple[TensorView, ...]:
        """What the compute warps make, in order."""
        loads = {t.name for t in self.loads}
        made = [self.fusion.tensor(e.output) for e in self.fusion.exprs]
        outputs = {b.tensor for b in self.fusion.outputs}
        return tuple(
            t
            for t in made
            if t.name not in loads and (t.memory is not MemoryType.Global or t.name in outputs)
        )

    @cached_property
    def sections(self) -> tuple[tuple[TensorView, ...], ...]:
        """The parts of what is computed: what needs no ring to be read, in order."""
        cut = {t.name for t in self.stored}
        at = {t.name: n for n, t in enumerate(self.computed)}
        for t in self.computed:
            for u in self.fusion.producers(t.name):
                if u.name in at and u.name not in cut:
                    old, new = sorted((at[u.name], at[t.name]))[::-1]
                    at = {name: new if n == old else n for name, n in at.items()}
        return tuple(
            tuple(t for t in self.computed if at[t.name] == n) for n in dict.fromkeys(at.values())
        )

    def section(self, name: str) -> int:
        """The part that computes a tensor, by its place."""
        return next(n for n, ts in enumerate(self.sections) if any(t.name == name for t in ts))

    def run_of(self, reader: TensorView) -> int | None:
        """How many loops of what reads a ring choose one main loop; None where there is none."""
        if reader in self.sums:
            return reader.compute_at
        section = self.sections[self.section(reader.name)]
        return next((t.compute_at for t in self.sums if t in section), None)

    @cached_property
    def paths(self) -> dict[str, tuple[int, ...]]:
        """Where what is computed stands in the loops that are dumped of its part: which of what
        stands in each loop it is in, from the outermost on.
        """
        found: dict[str, tuple[int, ...]] = {}

        def visit(nodes: Sequence[Node], path: tuple[int, ...]) -> None:
            for at, node in enumerate(nodes):
                if isinstance(node, Leaf):
                    found[node.tensor.name] = (*path, at)
                else:
                    visit(node.body, (*path, at))

        graph = TransformGraph(self.fusion)
        for section in self.sections:
            visit(nest(self.fusion, graph, [t.name for t in section]), ())
        return found

    @cached_property
    def rings(self) -> tuple[Ring, ...]:
        """The rings: what one tensor reads of loads, or of a part, is in one of them."""
        read: dict[tuple[str, int | None], list[TensorView]] = {}
        stored = {t.name for t in self.stored}
        for t in (*self.loads, *self.stored):
            filler = self.section(t.name) if t.name in stored else None
            for reader in self.fusion.consumers(t.name):
                read.setdefault((reader.name, filler), []).append(t)
        found: list[Ring] = []
        for (name, filler), fills in read.items():
            joined = [r for r in found if any(t in r.fills for t in fills)]
            readers = [x for r in joined for x in r.readers]
            readers.append((self.fusion.tensor(name), tuple(fills)))
            every = (*self.loads, *self.stored)
            together = tuple(t for t in every if any(t in own for _, own in readers))
            found = [r for r in found if r not in joined]
            found.append(Ring(together, tuple(readers), filler))
        return tuple(found)

    @cached_property
    def deals_steps(self) -> bool:
        """Whether the load steps of all tiles are dealt out to CTAs (stream-K)."""
        k = self.outer + 2
        on_x = ((t, t.axis_on(BIDS[0])) for t in self.loads if len(t.logical) == k + 1)
        of = [roots(t, d) for t, d in on_x if d is not None]
        return any(k in found and len(found) > 1 for found in of)

    @cached_property
    def outer(self) -> int:
        """How many dimensions say which matrix: of a batch one, left of M, N and K."""
        return len(self.sums[0].logical) - 3

    @cached_property
    def splits_k(self) -> bool:
        """Whether CTAs along z have parts of K."""
        on_z = (t.axis_on(ParallelType.BIDz) for t in self.sums)
        return any(d is not None and d.iter_type is IterType.Reduction for d in on_z)


def extents_on(
    parts: Parts, world: World, axes: tuple[ParallelType, ...], tensors: tuple[TensorView, ...]
) -> tuple[int, ...]:
    """Number of CTAs or warpgroups along each axis, the same on all tensors that have a loop there.

    Raises:
        Illegal: two tensors want different numbers.
    """
    found = []
    for axis in axes:
        sizes = {
            Walk(t, world).extent(d): t.name for t in tensors if (d := t.axis_on(axis)) is not None
        }
        if len(sizes) > 1:
            raise Illegal(f"different extents on {axis}: {sizes} in {world}")
        found.append(next(iter(sizes), 1))
    return tuple(found)
