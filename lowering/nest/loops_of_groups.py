"""Tiles of groups whose ends are read on the device: a warp finds them, a queue takes them to all.

What the legality relation says of load steps stands, as where tiles are dealt out by a counter.
Which tile a CTA's number ``m`` is comes from the ends: one thread walks over the groups once, with
the number of tiles in front of each, and hands over every n-th tile; how far it has to go for the
next one is hidden behind the tiles that are being computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lowering.ground.dtypes import DType
from lowering.ground.expr import (
    ZERO,
    Expr,
    Special,
    Var,
    ceildiv,
    maximum,
    minimum,
    substitute,
)
from lowering.kernel.kernel import GlobalTensor, Ring, SharedBuffer, Storage
from lowering.kernel.nodes import (
    Body,
    Break,
    Carry,
    For,
    GmemRef,
    HandTile,
    LdGlobalScalar,
    Let,
    NextTile,
    Section,
)
from lowering.nest.counter import Counter
from lowering.nest.loops_from_queue import STAGES
from lowering.nest.loops_in_turn import LoopsInTurn
from lowering.nest.scope import Shared
from lowering.nest.work_loops import END, FIRST, Head, LoadNest
from wsched.fusion import IterDomain, Merge, unmerge_index
from wsched.schedule.plan import Plan
from wsched.schedule.proof.graph import Group, TransformGraph
from wsched.schedule.proof.grid import cluster_size
from wsched.schedule.proof.relation import LoadLoop, LoadRelation
from wsched.schedule.proof.work_of_groups import OfGroups

__all__ = ["LoopsOfGroups"]


@dataclass(frozen=True, slots=True)
class LoopsOfGroups:
    """Loops over a CTA's tiles that end behind the last group, all others as in turn.

    An entry of the queue says the group, where its rows end and begin, and the tile, by the loops
    that the tiles of a group were merged from.

    Args:
        inner: loops in turn.
        first: the outermost one, over the tiles.
        queue: the ring of the queue's entries.
        words: the ring's buffers, one for each word of an entry.
        work: where the tiles come from.
        graph: the transform graph.
        size: CTAs of a cluster.
    """

    inner: LoopsInTurn
    first: LoadLoop
    queue: Ring
    words: tuple[SharedBuffer, ...]
    work: OfGroups
    graph: TransformGraph
    size: int

    @staticmethod
    def of(inner: LoopsInTurn, plan: Plan, work: OfGroups) -> LoopsOfGroups:
        """The loops of a schedule of groups.

        Args:
            inner: the loops that there would be in turn.
            plan: the schedule.
            work: its work.
        """
        shared, relation = inner.shared, plan.operands
        name, teams = shared.namer.new("queue"), relation.warpgroups.teams
        words = tuple(
            SharedBuffer(shared.namer.new(f"{name}_{g.label}"), DType.S32, 1, (1,))
            for g in (work.batch, END, FIRST, *_merged(plan.graph, work.tiles))
        )
        queue = Ring(name, tuple(w.name for w in words), max(STAGES, teams), teams)
        size = cluster_size(plan.cluster)
        return LoopsOfGroups(inner, relation.nest[0], queue, words, work, plan.graph, size)

    @property
    def shared(self) -> Shared:
        """Names that all sections use."""
        return self.inner.shared

    @property
    def counters(self) -> tuple[Counter, ...]:
        """What the compute side's loops count."""
        return self.inner.counters

    def on_ctas(self, d: IterDomain) -> Expr:
        """The CTA's number."""
        return self.inner.on_ctas(d)

    def loop(self, counter: Counter, turn: Expr) -> Head:
        """A loop in turn, or the one that asks the queue."""
        head = self.inner.loop(counter, turn)
        first = counter.loop == self.first
        return self._handed(head, head.known[counter.loop.group]) if first else head

    def step(self, relation: LoadRelation, found: Mapping[Group, Expr]) -> Expr | None:
        """The step of the CTA's tile, whichever that is."""
        return self.inner.step(relation, found)

    def ordinal(self, known: Mapping[Group, Expr]) -> Expr | None:
        """How many tiles the CTA had before."""
        return self.inner.ordinal(known)

    def earlier(self, known: Mapping[Group, Expr]) -> Expr | None:
        """Entries of the queue that the CTA had before."""
        return self.inner.earlier(known)

    def loads(self, relation: LoadRelation) -> LoadNest:
        """Loops in turn, the outermost of which asks the queue."""
        nest = self.inner.loads(relation)
        head, *others = nest.heads
        return replace(nest, heads=(self._handed(head, head.var), *others))

    def _handed(self, head: Head, number: Expr) -> Head:
        """A loop over a CTA's tiles, which ends before its bound: one for each, one for the end."""
        what = (self.work.batch, END, FIRST, *_merged(self.graph, self.work.tiles))
        words = tuple(Var(self.shared.namer.new(g.label)) for g in what)
        asked = tuple(
            NextTile(word, self.queue.name, number, self._count, at)
            for at, word in enumerate(words)
        )
        entry: Body = (*asked, Break(self._count <= words[0]))
        known = {**head.known, **dict(zip(what, words, strict=True))}
        stop = self.shared.apply(self.work.most) + 1
        return replace(head, stop=stop, known=known, entry=entry, defined=words)

    @property
    def _count(self) -> Expr:
        """How many groups there are: which of them is the end mark."""
        return self.work.batch.extent

    @property
    def storage(self) -> tuple[Storage, ...]:
        """The ends, and the queue."""
        ends = GlobalTensor(self.work.groups.ends, DType.S32, (self._count,))
        return ends, *self.words, self.queue

    def sections(self, registers: int | None) -> tuple[Section, ...]:
        """What finds tiles.

        A loop over groups, which carries where the group begins, the number of its first tile, the
        cluster's next one, and how many the cluster had; and one over the cluster's tiles of a
        group. Behind it an end mark for each team of warpgroups.
        """
        new = self.shared.namer.new
        names = ("begin", "tiles_before", "mine", "entry")
        begin, before, mine, entry = found = tuple(Var(new(n)) for n in names)
        after = tuple(Var(new(f"{n}_end")) for n in names)
        group, read, end, rows, tiles, turns = (
            Var(new(n)) for n in ("group", "end_read", "end", "rows", "tiles_here", "turns")
        )
        last = Var(self.work.groups.rows)
        ctas = self.shared.apply(Special("nctaid.x") // self.size)
        body: Body = (
            LdGlobalScalar(read, GmemRef(self.work.groups.ends, (group,))),
            Let(end, minimum(maximum(read, begin), last)),
            Let(rows, end - begin),
            Let(tiles, self.work.tiles_of(rows)),
            Let(turns, ceildiv(maximum(before + tiles - mine, 0), ctas)),
            self._tiles(group, end, rows, turns, (before, mine, entry), ctas),
        )
        starts = (ZERO, ZERO, Special("ctaid.x") // self.size, ZERO)
        carries = tuple(Carry(*c) for c in zip(found, starts, after, strict=True))
        yields = (end, before + tiles, mine + turns * ctas, entry + turns)
        loop = For(group, ZERO, self._count, body, carries=carries, yields=yields)
        ends = (s for i in range(self.queue.teams)
                for s in self._entry(after[3] + i, (self._count + i,)))  # fmt: skip
        return (Section("load", (loop, *ends), registers=registers),)

    def _tiles(
        self, group: Var, end: Var, rows: Var, turns: Var, carried: tuple[Var, Var, Var], ctas: Expr
    ) -> For:
        """The loop that hands over the cluster's tiles of a group."""
        turn, tile = (Var(self.shared.namer.new(n)) for n in ("turn", "tile"))
        before, mine, entry = carried
        words = [group, end, Var(self.work.groups.rows) - rows]
        env = {Var(self.work.groups.rows): rows}
        indices = _unmerged(self.graph, self.work.tiles, tile)
        words += (substitute(indices[g], env) for g in _merged(self.graph, self.work.tiles))
        named = [Var(self.shared.namer.new("word")) for _ in words]
        lets = (Let(v, e) for v, e in zip(named, words, strict=True))
        body = (Let(tile, mine + turn * ctas - before), *lets, *self._entry(entry + turn, named))
        return For(turn, ZERO, turns, body)

    def _entry(self, number: Expr, words: tuple[Expr, ...] | list[Var]) -> Body:
        """An entry of the queue; what is not said is 0."""
        filled = (*words, *(ZERO for _ in range(len(self.words) - len(words))))
        return tuple(HandTile(self.queue.name, number, word, at) for at, word in enumerate(filled))


def _merged(graph: TransformGraph, g: Group) -> tuple[Group, ...]:
    """The loops that a group was merged from."""
    step = graph.producer(g)
    if step is None or not isinstance(step.transform, Merge):
        return (g,)
    return tuple(x for part in step.inputs for x in _merged(graph, part))


def _unmerged(graph: TransformGraph, g: Group, index: Expr) -> dict[Group, Expr]:
    """Their indices, given that of the group."""
    step = graph.producer(g)
    if step is None or not isinstance(step.transform, Merge):
        return {g: index}
    parts = zip(step.inputs, unmerge_index(step.transform, index), strict=True)
    return {x: e for part, at in parts for x, e in _unmerged(graph, part, at).items()}
