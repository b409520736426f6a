"""Tiles of groups whose ends are read on the device: a warp finds them, a queue takes them to all.

What the legality relation says of load steps stands, as where tiles are dealt out by a counter:
they are. Which tile a ticket is comes from the ends: one thread of each cluster walks over the
groups once, with the number of tiles in front of each, and hands over the tiles whose tickets it
gets; how far it has to go for the next one is hidden behind the tiles that are being computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lowering.ground.dtypes import DType
from lowering.ground.expr import (
    FALSE,
    ONE,
    ZERO,
    Const,
    Expr,
    Special,
    Var,
    maximum,
    minimum,
    select,
    substitute,
)
from lowering.kernel.kernel import GlobalTensor, Ring, Storage
from lowering.kernel.nodes import (
    Body,
    Break,
    Carry,
    Elect,
    EndTickets,
    For,
    GmemRef,
    HandTile,
    If,
    LdGlobalScalar,
    Let,
    StGlobalScalar,
    TakeTicket,
)
from lowering.nest.loops_from_queue import Word
from lowering.nest.scope import Namer, Shared
from lowering.nest.work_loops import BEGIN, END, FIRST, STEPS
from wsched.fusion import Merge
from wsched.schedule.proof.graph import Group, TransformGraph
from wsched.schedule.proof.work_of_groups import OfGroups

__all__ = ["TilesOfGroups"]


@dataclass(frozen=True, slots=True)
class _Found:
    """What the walk knows of the group that it has come to.

    Args:
        group: its number; -1 in front of the first one.
        begin: where it begins.
        end: where it ends.
        before: tiles in front of its own.
        until: tiles up to its last one.
    """

    group: Var
    begin: Var
    end: Var
    before: Var
    until: Var

    @staticmethod
    def new(namer: Namer, behind: str = "") -> _Found:
        """Names for the fields."""
        names = ("group", "begin", "end", "tiles_before", "tiles_until")
        return _Found(*(Var(namer.new(f"{n}{behind}")) for n in names))

    @property
    def all(self) -> tuple[Var, ...]:
        """The fields, in order."""
        return self.group, self.begin, self.end, self.before, self.until

    @property
    def size(self) -> Expr:
        """How much it has."""
        return self.end - self.begin


_FRONT = (Const(-1), ZERO, ZERO, ZERO, ZERO)
"""In front of the first group."""


@dataclass(frozen=True, slots=True)
class TilesOfGroups:
    """Entries that say the group, where it lies, and the tile, by the loops that the tiles of a
    group were merged from.

    Args:
        shared: names that all sections use.
        work: where the tiles come from.
        graph: the transform graph.
        size: CTAs of a cluster, whose first one takes tickets for all.
    """

    shared: Shared
    work: OfGroups
    graph: TransformGraph
    size: int

    remote = True

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
        """What finds tiles, by one thread: a loop over tickets, which goes on from group to group
        until the ticket is a tile of one. One that is no tile is the end: of the walk, and of each
        team of warpgroups a mark.
        """
        namer = self.shared.namer
        entry, ticket, tile = (Var(namer.new(n)) for n in ("entry", "ticket", "tile"))
        start, behind = _Found.new(namer, "_was"), _Found.new(namer, "_last")
        walk, here = self._walk(ticket, start)
        lets, words = self._words(here, tile, here.until <= ticket)
        over = self.end <= words[0]  # as who reads the entry decides
        nothing = [ZERO] * len(words[1:])
        marks = (s for i in range(1, queue.teams)
                 for s in _handed(queue, entry + i, [self.end + i, *nothing], False))  # fmt: skip
        body: Body = (
            TakeTicket(ticket, queue.name, entry),
            walk,
            Let(tile, ticket - here.before),
            *lets,
            *_handed(queue, entry, words, True),
            If(over, (*marks, EndTickets(queue.name, ticket, here.until))),
            Break(over),
        )
        carries = tuple(Carry(*c) for c in zip(start.all, _FRONT, behind.all, strict=True))
        loop = For(entry, ZERO, self.most + 1, body, carries=carries, yields=here.all)
        alone = self.size == 1
        return (Elect((loop if alone else If(Special("cluster.ctarank").eq(0), (loop,)),)),)

    def _walk(self, ticket: Var, start: _Found) -> tuple[For, _Found]:
        """The loop that goes on to the group that a ticket is a tile of, or to the last one; and
        that group.
        """
        namer = self.shared.namer
        here, found = _Found.new(namer), _Found.new(namer, "_found")
        following, read, end = (Var(namer.new(n)) for n in ("next_group", "end_read", "next_end"))
        along = Var(self.work.groups.along)
        body: Body = (
            Break(ticket < here.until),
            LdGlobalScalar(read, GmemRef(self.work.groups.ends, (following,))),
            Let(end, minimum(maximum(read, here.end), along)),
            If(read.eq(end).eq(FALSE), (StGlobalScalar(self._wrong, ONE),)),
        )
        until = here.until + self.work.tiles_of(end - here.end)
        carries = tuple(Carry(*c) for c in zip(here.all, start.all, found.all, strict=True))
        yields = (following, here.end, end, here.until, until)
        return For(
            following, start.group + 1, self.end, body, carries=carries, yields=yields
        ), found

    def _words(self, here: _Found, tile: Var, over: Expr) -> tuple[Body, list[Var]]:
        """The words of the entry of a tile of a group, or of the end, and what computes them."""
        group = minimum(select(over, self.end, here.group), self.end)  # no more, for the proof
        values = {self.work.batch: group, **self._place(here)}
        env = {Var(self.work.groups.along): maximum(here.size, 1)}  # of the end it may be 0
        indices = self.graph.indices({self.work.tiles: tile})
        values |= {g: substitute(indices[g], env) for g in _merged(self.graph, self.work.tiles)}
        named = [Var(self.shared.namer.new("word")) for _ in self.words]
        lets = (Let(v, values[w.group]) for v, w in zip(named, self.words, strict=True))
        return tuple(lets), named

    def _place(self, here: _Found) -> Mapping[Group, Expr]:
        """What an entry says of where the group lies."""
        if self.work.chunk is None:
            return {END: here.end, FIRST: Var(self.work.groups.along) - here.size}
        steps = self.work.steps_of(here.size)
        return {BEGIN: here.begin, FIRST: here.size - steps * self.work.chunk, STEPS: steps}


def _handed(queue: Ring, number: Expr, words: Sequence[Expr], claimed: bool) -> Body:
    """An entry of a queue, for which a ticket has been taken or not."""
    return tuple(HandTile(queue.name, number, word, at, claimed) for at, word in enumerate(words))


def _merged(graph: TransformGraph, g: Group) -> tuple[Group, ...]:
    """The loops that a group was merged from."""
    step = graph.producer(g)
    if step is None or not isinstance(step.transform, Merge):
        return (g,)
    return tuple(x for part in step.inputs for x in _merged(graph, part))
