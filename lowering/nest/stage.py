"""One stage of a circular buffer: the box of a tensor that a step brings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Expr
from lowering.nest.domains import repeats, summed
from lowering.nest.tile import Tile, offset_of, tile_of
from wsched.fusion import Fusion, IterDomain, Split, TensorView, roots
from wsched.schedule.graph import Group, TransformGraph

__all__ = ["Stage", "stage_of"]


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a tensor in shared memory.

    Args:
        tile: the box.
        dims: the dimensions of the tensor in the order in which the stage has them; those of
            which it holds one index are left out.
    """

    tile: Tile
    dims: tuple[IterDomain, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Elements along each of ``dims``."""
        return tuple(self.tile.size(d) for d in self.dims)

    def offsets(
        self, graph: TransformGraph, found: Mapping[Group, Expr]
    ) -> Mapping[IterDomain, Expr] | None:
        """Where in the stage an element lies along each dimension of the tensor; None if the
        indices do not say. Loops of a dimension that was cut into pieces count as one.

        Args:
            graph: the transform graph.
            found: index of each group, for the element.
        """
        t, at = self.tile.tensor, dict[IterDomain, Expr]()
        for d in self.tile.order:
            whole = [] if repeats(d) else list(self.tile.dims[t.logical.index(d)])
            for s in reversed(t.transforms):
                if not isinstance(s, Split) or graph.group(s.input) not in found:
                    continue
                if [piece.id for piece in whole[-2:]] == [out.id for out in s.outputs]:
                    whole[-2:] = [s.input]
            offset = offset_of(graph, whole, found)
            if offset is None:
                return None
            at[d] = offset
        return at


def stage_of(fusion: Fusion, graph: TransformGraph, t: TensorView) -> Stage:
    """The stage that the loops right of the slice position are, without those that are summed over.

    What threads store has the order of its dimensions.

    Raises:
        UnsupportedError: they are no box; or, of a load, in another order than memory: TMA cannot
            transpose.
    """
    inside = [d for d in t.loop[t.slice_position :] if not summed(t, d)]
    tile = tile_of(t, inside)
    if t not in fusion.loads:
        pairs = zip(t.logical, tile.dims, strict=True)
        return Stage(tile, tuple(d for d, loops in pairs if loops and not repeats(d)))
    mine = {graph.group(d): d for d in t.logical if not repeats(d)}
    source = fusion.source(t.name)
    held = {d for d, loops in zip(t.logical, tile.dims, strict=True) if loops}
    dims = tuple(d for s in source.in_memory if (d := mine[graph.group(s)]) in held)
    order = [r for d in inside if not repeats(d) for r in roots(t, d)]
    if [d.id for d in dict.fromkeys(order)] != [d.id for d in dims]:
        stage, memory = (", ".join(graph.group(d).label for d in x) for x in (order, dims))
        raise UnsupportedError(
            f"a stage of {t.name} in the order [{stage}] from {source.name}, which is in memory as "
            f"[{memory}],",
            "the order of memory, contiguous dimension last",
            f"Reorder the Bulk loops of {t.name}",
        )
    return Stage(tile, dims)
