"""The accumulator: what a warpgroup adds up over the k slices of a tile."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lowering.ground.expr import ONE, Const
from lowering.ground.types import FragmentType
from lowering.nest.domains import summed
from lowering.nest.element import element_type
from lowering.nest.refusal import refused
from lowering.nest.tile import Tile, tile_of
from wsched.fusion import (
    CastOp,
    DataType,
    Fusion,
    IterDomain,
    ParallelType,
    Rounding,
    TensorView,
    roundings,
)
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.proof.nest import BOX
from wsched.schedule.proof.relation import LoadRelation
from wsched.schedule.proof.sides import CTA_INDEX, ROLES

__all__ = ["Accumulator", "require_summed_on_z", "rounded_away"]

_PARTS = "on BIDz a constant number of parts of K, one for each CTA along z"


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A tensor that is added to once a load step.

    Args:
        tensor: the tensor.
        steps: groups of those of its serial loops that step through the ring of what is added.
        tile: what a warpgroup holds of it, and what it adds up in one step.
        repeated: loops that only repeat an instruction within a step.
    """

    tensor: TensorView
    steps: frozenset[Group]
    tile: Tile
    repeated: frozenset[Group]

    @staticmethod
    def of(t: TensorView, relation: LoadRelation, graph: TransformGraph) -> Accumulator:
        """A tensor that consumes a ring.

        Raises:
            UnsupportedError: its loops inside a step are no tile, or it is not complete where what
                reads it is computed.
        """
        for d in t.loop:
            what = f"loop {d.label} {d.extent} [{d.parallel}] of {t.name}"
            one_each = summed(t, d) and d.extent == Const(relation.work.splits)
            if d.parallel is ParallelType.BIDz and not one_each:
                raise refused(t, what, _PARTS)
        stepping = {graph.group(s.domain) for s in relation.steps}
        outside = (*CTA_INDEX, *ROLES)
        inside = [
            d
            for p, d in enumerate(t.loop)
            if graph.group(d) not in stepping
            and d.parallel not in outside
            and not (p < t.compute_at and d.extent == ONE)
        ]
        repeated = frozenset(graph.group(d) for d in inside if d.parallel not in BOX)
        serial = frozenset(graph.group(s.domain) for s in relation.steps if not s.role)
        found = Accumulator(t, serial, tile_of(t, inside), repeated)
        found._require_complete(graph)
        return found

    @property
    def kind(self) -> FragmentType:
        """The fragment that a warpgroup holds."""
        *_, rows, cols = self.tile.sizes
        return FragmentType(element_type(self.tensor.dtype), rows, cols)

    def _require_complete(self, graph: TransformGraph) -> None:
        """It is inlined inside the loops over tiles, and outside those over what it sums over. What
        fills a ring is complete where a step of it is: its steps are tiles.
        """
        t = self.tensor
        if t.circular_buffer is not None:
            return
        serial = [(p, summed(t, d)) for p, d in enumerate(t.loop) if graph.group(d) in self.steps]
        first = next((p for p, over_k in serial if over_k), len(t.loop))
        for p, over_k in serial:
            if not over_k and p > first:
                raise refused(t, f"loop {t.loop[p].label} of {t.name} inside its k slices",
                               "loops over k slices innermost")  # fmt: skip
            if not over_k and p >= t.compute_at:
                while first and t.loop[first - 1].parallel in CTA_INDEX:
                    first -= 1  # parts of K on other CTAs, which are added up
                raise refused(t, f"{t.name} inlined at {t.compute_at}",
                               f"{first}: accumulated over the k slices of a tile")  # fmt: skip
        if first < t.compute_at:
            raise refused(t, f"{t.name} inlined at {t.compute_at}",
                           f"{first}: accumulated over the k slices of a tile")  # fmt: skip


def require_summed_on_z(
    t: TensorView, d: IterDomain, sums: Sequence[Accumulator], graph: TransformGraph
) -> None:
    """As many CTAs as there are parts of a sum stand along z, and none for anything else.

    Args:
        t: a tensor of a part that computes.
        d: one of its loops on CTAs.
        sums: of the part.
        graph: the transform graph.

    Raises:
        UnsupportedError: the loop wants others.
    """
    if d.parallel is not ParallelType.BIDz or d.extent == ONE:
        return
    parts = (graph.group(x) for a in sums for x in a.tensor.loop if x.parallel is d.parallel)
    if graph.group(d) not in parts:
        raise refused(t, f"loop {d.label} {d.extent} [{d.parallel}] of {t.name}", _PARTS)


def rounded_away(fusion: Fusion, accumulators: Sequence[Accumulator]) -> bool:
    """Whether something is computed in fp32 of what sums are rounded to: in registers of its own.

    Nobody reads the sums any more then, which are cleared in each tile: carried from tile to tile,
    as zeros of the first one are, they would keep their registers until the tile's end.
    """
    sums = {a.tensor.name for a in accumulators}
    results = {b.tensor for b in fusion.matrices}
    stored = results.union(fusion.made_from(results))
    return any(
        _reduced_beside(fusion, r, stored)
        and any(fusion.tensor(name).dtype is DataType.Float for name in r.again)
        for r in roundings(fusion)
        if r.sums[0] in sums
    )


def _reduced_beside(fusion: Fusion, rounding: Rounding, stored: Collection[str]) -> bool:
    """Whether what reads the sums beside casts, if anything does, leads to reductions alone, whose
    registers are few.
    """
    readers = (e for name in rounding.sums for e in fusion.uses(name))
    return all(
        isinstance(e, CastOp) or e.output in rounding.sums or e.output not in stored
        for e in readers
    )
