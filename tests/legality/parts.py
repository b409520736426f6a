"""What the oracle reads off a fusion before it counts anything: who loads, who computes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from lowering.ground.expr import Const
from tests.legality.walk import Walk, World
from wsched.fusion import (
    Fusion,
    IterDomain,
    IterType,
    MemoryType,
    ParallelType,
    TensorView,
    inputs_of,
)

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
    """Loads that fill stages together.

    Args:
        loads: the loads, in order.
        readers: the tensors that read a stage, each with the loads that it reads.
    """

    loads: tuple[TensorView, ...]
    readers: tuple[tuple[TensorView, tuple[TensorView, ...]], ...]


@dataclass(frozen=True)
class Parts:
    """A fusion cut at its loads."""

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
    def apart(self) -> tuple[tuple[TensorView, ...], ...]:
        """What is computed, in sets that read nothing of each other."""
        found: list[list[TensorView]] = []
        for t in self.computed:
            e = self.fusion.definition(t.name)
            read = () if e is None else inputs_of(e)
            joined = [own for own in found if any(u.name in read for u in own)]
            found = [own for own in found if own not in joined]
            found.append([*(u for own in joined for u in own), t])
        return tuple(map(tuple, found))

    @cached_property
    def rings(self) -> tuple[Ring, ...]:
        """The rings: what one tensor reads is in one of them."""
        read: dict[str, list[TensorView]] = {}
        for t in self.loads:
            for reader in self.fusion.consumers(t.name):
                read.setdefault(reader.name, []).append(t)
        found: list[Ring] = []
        for name, loads in read.items():
            joined = [r for r in found if any(t in r.loads for t in loads)]
            readers = [x for r in joined for x in r.readers]
            readers.append((self.fusion.tensor(name), tuple(loads)))
            together = tuple(t for t in self.loads if any(t in own for _, own in readers))
            found = [r for r in found if r not in joined] + [Ring(together, tuple(readers))]
        return tuple(found)

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
