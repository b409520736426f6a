"""What one statement covers: of each dimension of a tensor a run of neighbours.

A tile-level statement moves or computes a box. Its extents are those of the loops that the
statement stands for: the dimensions of the box, and the serial loops that only repeat an
instruction of it. That the statement does what those loops say takes that they enumerate a run of
neighbours in each dimension, in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import ZERO, Const, Expr
from lowering.nest.cluster import constant
from lowering.nest.domains import repeats
from lowering.nest.refusal import refused
from wsched.fusion import IterDomain, Split, TensorView
from wsched.schedule.graph import Group, TransformGraph

__all__ = ["Tile", "offset_of", "tile_of"]


@dataclass(frozen=True)
class Tile:
    """A box of a tensor.

    Args:
        tensor: the tensor.
        dims: of each of its logical dimensions the loops in the box, the fastest last.
    """

    tensor: TensorView
    dims: tuple[tuple[IterDomain, ...], ...]

    @property
    def domains(self) -> tuple[IterDomain, ...]:
        """All loops in the box."""
        return tuple(d for dim in self.dims for d in dim)

    def size(self, dimension: IterDomain) -> int:
        """Elements along a logical dimension."""
        found = self.dims[self.tensor.logical.index(dimension)]
        return prod(constant(d.extent, f"{self.tensor.name}: {d.label}") for d in found)

    @cached_property
    def order(self) -> tuple[IterDomain, ...]:
        """The dimensions that are stored in the order of the box's loops, each by its fastest one;
        those that it has one index of stay where they are. Of a fragment the last two are rows and
        columns: where the box is of more, as many as it has more come first, of those in which the
        tensor is repeated the ones with the outermost loops.
        """
        loops = [d.id for d in self.tensor.loop]
        dims = zip(self.tensor.logical, self.dims, strict=True)
        fastest = {d.id: loops.index(found[-1].id) for d, found in dims if found}
        moved = [d for d in self.tensor.stored if d.id in fastest]
        turn = iter(sorted(moved, key=lambda d: fastest[d.id]))
        found = [next(turn) if d.id in fastest else d for d in self.tensor.stored]
        outside = [d for d in found if repeats(d) and d.id in fastest][: max(len(moved) - 2, 0)]
        found.sort(key=lambda d: d not in outside)
        return tuple(found)

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """Of each of ``order`` its position among the dimensions that are stored."""
        return tuple(self.tensor.stored.index(d) for d in self.order)

    @property
    def transposed(self) -> bool:
        """Whether the rows of a fragment are the columns of the tensor.

        Raises:
            UnsupportedError: it has another matrix than the two last dimensions.
        """
        *_, row, col = self.axes if len(self.axes) > 1 else (0, 1)
        between = (d for d in self.order[:-2] if not repeats(d))
        if any(self.tensor.stored.index(d) > min(row, col) for d in between):
            loops = [x for found in self.dims for x in found]
            raise _refused(self.tensor, loops, "rows and columns of the last two dimensions")
        return row > col

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Elements along each of ``order``."""
        return tuple(self.size(d) for d in self.order)

    @property
    def size_by_axis(self) -> dict[int, int]:
        """The same by the positions of the dimensions among those that are stored."""
        return dict(zip(self.axes, self.sizes, strict=True))

    def offsets(
        self, graph: TransformGraph, found: Mapping[Group, Expr]
    ) -> tuple[Expr, ...] | None:
        """Where in the box an element lies, along each of ``order``; 0 along those in which the
        tensor is repeated.

        Args:
            graph: the transform graph.
            found: index of each group, for the element.

        Returns:
            None if the indices do not say.
        """
        result = []
        for d in self.order:
            loops = self.dims[self.tensor.logical.index(d)]
            at = offset_of(graph, () if repeats(d) else loops, found)
            if at is None:
                return None
            result.append(at)
        return tuple(result)


def offset_of(
    graph: TransformGraph, loops: Iterable[IterDomain], found: Mapping[Group, Expr]
) -> Expr | None:
    """The number whose digits the indices of some loops are, slowest first; None if one is not
    known.
    """
    at: Expr = ZERO
    for loop in loops:
        if graph.group(loop) not in found:
            return None
        at = at * loop.extent + found[graph.group(loop)]
    return at


def tile_of(t: TensorView, inside: Sequence[IterDomain]) -> Tile:
    """The box that the loops ``inside`` of a tensor are.

    Args:
        t: the tensor.
        inside: some of its loops, outermost first.

    Raises:
        UnsupportedError: they are no box: not neighbours, not in order, reaching beyond the tile
            that they were split from, or of several dimensions in one.
    """
    left = list(inside)
    dims = []
    for order in _in_order(t):
        found = [d for d in inside if d in order]
        if found != order[len(order) - len(found) :]:
            raise _refused(t, inside, f"neighbours in order, as {_names(order)} are")
        dims.append(tuple(found))
        left = [d for d in left if d not in found]
    if left:
        raise _refused(t, left, "loops of one dimension each")
    whole = {d.id for d in t.logical}
    for s in t.transforms:
        if isinstance(s, Split) and s.input.id not in whole and _leaves_a_tail(s):
            wanted = f"a factor of {s.input.extent} for {s.input.label}"
            raise refused(t, f"{s} of {t.name}", wanted)
    return Tile(t, tuple(dims))


def _in_order(t: TensorView) -> list[list[IterDomain]]:
    """Of each dimension the loops that it was made into, from the slowest to the fastest: split,
    and merged again where neighbours are. Ends at a merge with what is no neighbour.
    """
    orders = [[d.id] for d in t.logical]
    home = {order[0]: order for order in orders}
    for s in t.transforms:
        if isinstance(s, Split):
            _put(home, (s.input.id,), (s.outer.id, s.inner.id))
            continue
        parts = (s.outer.id, s.inner.id)
        if not s.traversal and _neighbours(home, parts):
            _put(home, parts, (s.output.id,))
        else:
            for part in parts:
                _cut(home, part)
    loops = {x.id: x for x in t.loop}
    return [[loops[x] for x in order if x in loops] for order in orders]


def _neighbours(home: Mapping[int, list[int]], parts: tuple[int, int]) -> bool:
    order = home.get(parts[0], [])
    return parts in pairwise(order)


def _put(home: dict[int, list[int]], old: tuple[int, ...], new: tuple[int, ...]) -> None:
    """``new`` in place of neighbours in their order, if they stand in one."""
    order = home.get(old[0])
    if order is not None:
        at = order.index(old[0])
        order[at : at + len(old)] = new
        for x in old:
            del home[x]
        home.update(dict.fromkeys(new, order))


def _cut(home: dict[int, list[int]], last: int) -> None:
    """An order without what stands up to ``last``."""
    order = home.get(last)
    if order is not None:
        at = order.index(last) + 1
        for x in order[:at]:
            del home[x]
        del order[:at]


def _leaves_a_tail(s: Split) -> bool:
    whole, part = s.input.extent, s.factor
    return isinstance(whole, Const) and isinstance(part, Const) and whole.value % part.value != 0


def _refused(t: TensorView, loops: Sequence[IterDomain], supported: str) -> UnsupportedError:
    return refused(t, f"a tile of {t.name} over {_names(loops)}", supported)


def _names(loops: Sequence[IterDomain]) -> str:
    return ", ".join(f"{d.label} [{d.parallel}]" for d in loops) or "no loop"
