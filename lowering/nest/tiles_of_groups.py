"""Tiles of groups whose ends are read on the device: a warp finds them, a queue takes them to all.

What the legality relation says of load steps stands, as where tiles are dealt out by a counter.
Which tile a CTA's number ``m`` is comes from the ends: one thread walks over the groups once, with
the number of tiles in front of each, and hands over every n-th tile; how far it has to go for the
next one is hidden behind the tiles that are being computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lowering.ground.dtypes import DType
from lowering.ground.expr import (
    FALSE,
    ONE,
    ZERO,
    Expr,
    Special,
    Var,
    ceildiv,
    maximum,
    minimum,
    select,
    substitute,
)
from lowering.kernel.kernel import GlobalTensor, Ring, Storage
from lowering.kernel.nodes import (
    Body,
    Carry,
    For,
    GmemRef,
    GroupPart,
    HandTile,
    If,
    LdGlobalScalar,
    Let,
    StGlobalScalar,
)
from lowering.nest.loops_from_queue import Word
from lowering.nest.scope import Shared
from lowering.nest.work_loops import BEGIN, END, FIRST, STEPS
from wsched.fusion import Merge
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.proof.indices import indices
from wsched.schedule.proof.work_of_groups import OfGroups

__all__ = ["TilesOfGroups"]


@dataclass(frozen=True, slots=True)
class _Found:
    """What the kernel has of a group.

    Args:
        group: its number.
        begin: where it begins.
        end: where it ends.
        size: how much it is.
    """

    group: Var
    begin: Expr
    end: Expr
    size: Expr


@dataclass(frozen=True, slots=True)
class TilesOfGroups:
    """Entries that say the group, where it lies, and the tile, by the loops that the tiles of a
    group were merged from.

    Args:
        shared: names that all sections use.
        work: where the tiles come from.
        graph: the transform graph.
        size: CTAs of a cluster.
    """

    shared: Shared
    work: OfGroups
    graph: TransformGraph
    size: int

    remote = False

    @property
    def words(self) -> tuple[Word, ...]:
        """The group, where it lies, its load steps if these differ, and the tile in its loops."""
        summed = self.work.chunk is not None
        place = (BEGIN, FIRST, STEPS) if summed else (END, FIRST)
        said = (self.work.batch, *place, *_merged(self.graph, self.work.tiles))
        return tuple(Word(g, g.label, g.label) for g in said)

    @property
    def end(self) -> Expr:
        """How many groups there are."""
        return self.work.batch.extent

    @property
    def most(self) -> Expr:
        """One CTA may get all of them."""
        return self.shared.apply(self.work.most)

    @property
    def storage(self) -> tuple[Storage, ...]:
        """The ends, and a word that says whether some are none."""
        ends = GlobalTensor(self.work.groups.ends, DType.S32, (self.end,))
        return ends, GlobalTensor(self.work.groups.wrong, DType.S32, (ONE,))

    @property
    def _wrong(self) -> GmemRef:
        return GmemRef(self.work.groups.wrong, (ZERO,))

    def filling(self, queue: Ring) -> Body:
        """What finds tiles.

        A loop over groups, which carries where the group begins, the number of its first tile, the
        cluster's next one, and how many the cluster had; and one over the cluster's tiles of a
        group. Where small groups are delayed it goes over all of them twice: small ones have no
        tiles the first time, others none the second. Behind it an end mark for each team of
        warpgroups.
        """
        new = self.shared.namer.new
        names = ("begin", "tiles_before", "mine", "entry")
        begin, before, mine, entry = found = tuple(Var(new(n)) for n in names)
        after = tuple(Var(new(f"{n}_end")) for n in names)
        group, read, end, size, tiles, turns = (
            Var(new(n)) for n in ("group", "end_read", "end", "size", "tiles_here", "turns")
        )
        along = Var(self.work.groups.along)
        ctas = self.shared.apply(Special("nctaid.x") // self.size)
        trip, start, which, first = self._order(group, begin)
        whole = _Found(group, first, end, size)
        named, here = self._own(whole) if self.work.groups.sharing else ((), whole)
        body: Body = (
            *which,
            LdGlobalScalar(read, GmemRef(self.work.groups.ends, (group,))),
            Let(end, minimum(maximum(read, first), along)),
            If(read.eq(end).eq(FALSE), (StGlobalScalar(self._wrong, ONE),)),
            Let(size, end - first),
            *named,
            Let(tiles, self._counted(self.work.tiles_of(here.size), size, trip)),
            Let(turns, ceildiv(maximum(before + tiles - mine, 0), ctas)),
            self._tiles(queue, here, turns, (before, mine, entry), ctas),
        )
        starts = (ZERO, ZERO, Special("ctaid.x") // self.size, ZERO)
        carries = tuple(Carry(*c) for c in zip(found, starts, after, strict=True))
        yields = (end, before + tiles, mine + turns * ctas, entry + turns)
        loop = For(trip, start, self.end, body, carries=carries, yields=yields)
        nothing = [ZERO] * (len(queue.buffers) - 1)
        ends = (s for i in range(queue.teams)
                for s in _handed(queue, after[3] + i, (self.end + i, *nothing)))  # fmt: skip
        return loop, *ends

    def _order(self, group: Var, begin: Var) -> tuple[Var, Expr, Body, Expr]:
        """The loop's variable and where it starts; what says which group is a trip's; and where
        that begins, which the trip in front has left.

        Trips below 0 are the first time. So no number is beyond that of groups.
        """
        if not self.work.groups.delayed:
            return group, ZERO, (), begin
        trip, first = (Var(self.shared.namer.new(n)) for n in ("trip", "first"))
        which = Let(group, trip + select(trip < 0, self.end, 0))
        return trip, ZERO - self.end, (which, Let(first, select(group < 1, 0, begin))), first

    def _counted(self, tiles: Expr, size: Var, trip: Var) -> Expr:
        """How many of a group's tiles are dealt out in a trip."""
        if not self.work.groups.delayed:
            return tiles
        small, now = size < self.work.groups.delayed, trip < 0
        return select(small, select(now, 0, tiles), select(now, tiles, 0))

    def _own(self, whole: _Found) -> tuple[Body, _Found]:
        """The kernel's part of a group that several share, and what names it."""
        new = self.shared.namer.new
        front, size, begin = (Var(new(n)) for n in ("part_front", "part_size", "part_begin"))
        named = GroupPart(front, size, whole.size), Let(begin, whole.begin + front)
        return named, _Found(whole.group, begin, begin + size, size)

    def _tiles(
        self, queue: Ring, here: _Found, turns: Var, carried: tuple[Var, Var, Var], ctas: Expr
    ) -> For:
        """The loop that hands over the cluster's tiles of a group."""
        turn, tile = (Var(self.shared.namer.new(n)) for n in ("turn", "tile"))
        before, mine, entry = carried
        values = {self.work.batch: here.group, **self._place(here)}
        env = {Var(self.work.groups.along): here.size}
        found = indices(self.graph, {self.work.tiles: tile})
        values |= {g: substitute(found[g], env) for g in _merged(self.graph, self.work.tiles)}
        words = [values[w.group] for w in self.words]
        named = [Var(self.shared.namer.new("word")) for _ in words]
        lets = (Let(v, e) for v, e in zip(named, words, strict=True))
        handed = _handed(queue, entry + turn, named)
        body = (Let(tile, mine + turn * ctas - before), *lets, *handed)
        return For(turn, ZERO, turns, body)

    def _place(self, here: _Found) -> Mapping[Group, Expr]:
        """What an entry says of where the group lies."""
        if self.work.chunk is None:
            return {END: here.end, FIRST: Var(self.work.groups.along) - here.size}
        steps = self.work.steps_of(here.size)
        return {BEGIN: here.begin, FIRST: here.size - steps * self.work.chunk, STEPS: steps}


def _handed(queue: Ring, number: Expr, words: Sequence[Expr]) -> Body:
    """An entry of a queue."""
    return tuple(HandTile(queue.name, number, word, at) for at, word in enumerate(words))


def _merged(graph: TransformGraph, g: Group) -> tuple[Group, ...]:
    """The loops that a group was merged from."""
    step = graph.producer(g)
    if step is None or not isinstance(step.transform, Merge):
        return (g,)
    return tuple(x for part in step.inputs for x in _merged(graph, part))
