"""Which share of the load steps is a CTA's: whole tiles, or an interval of the steps of all tiles.

Most of the proof does not ask (``legality``). What differs is what the load loop counts, what ends
both sides, which loops run on CTAs, and the work that follows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from lowering.ground.expr import ONE, Const, Expr, Var
from wsched.fusion import Groups, IterDomain, IterType, ParallelType
from wsched.schedule.graph import Group, Step
from wsched.schedule.proof.bounds import Guard, guards_above, guards_below
from wsched.schedule.proof.bystanders import check_cta_loops, on_other_ctas
from wsched.schedule.proof.check_interval import check_places, find_interval
from wsched.schedule.proof.dealt import check_dealt, find_dealt
from wsched.schedule.proof.grid import rows_of
from wsched.schedule.proof.interval import DealtLoop, find_dealt_loop
from wsched.schedule.proof.relation import LoadLoop, StepLoop
from wsched.schedule.proof.sides import CTA_INDEX, Sides
from wsched.schedule.proof.trim import Trimmed, find_tail
from wsched.schedule.proof.work import FromQueue, InTurn, OfInterval, Tail, Work
from wsched.schedule.proof.work_of_groups import OfGroups, batch_of_tiles, chunk_of_step
from wsched.schedule.warpgroups import Warpgroups

__all__ = ["Counted", "Proved", "Share", "find_share"]


@dataclass(frozen=True, slots=True)
class Proved:
    """What is known of an edge when its work is settled.

    Args:
        nest: the load loop as loops of its own.
        digits: compute's loops that take part in the load index, slowest first, with their bounds.
        above: what ends the loops of the loads.
        below: what else ends compute's.
        entry: what must hold for a role to have anything to compute, None if it always has.
        outside: how many of ``digits`` choose the tile.
        warpgroups: that compute.
    """

    nest: Sequence[LoadLoop]
    digits: Sequence[Trimmed]
    above: Sequence[Guard]
    below: Sequence[Guard]
    entry: Expr | None
    outside: int
    warpgroups: Warpgroups


@dataclass(frozen=True, slots=True)
class Counted:
    """What both sides count.

    Args:
        digits: compute's loops that take part in the load index.
        cut: groups that the loads split with a tail.
        tails: likewise compute.
    """

    digits: Sequence[StepLoop]
    cut: Sequence[Group]
    tails: Sequence[Group]


@dataclass(frozen=True, slots=True)
class Share(ABC):
    """A share, and what has to be proved of it.

    Args:
        sides: of the edge.
        dealt: the split that deals tiles out at run time, None without one.
    """

    sides: Sides
    dealt: Step | None

    @property
    @abstractmethod
    def whole(self) -> tuple[Group, ...]:
        """The loops that compute's digits count, outermost first."""

    @abstractmethod
    def above(self, counted: Sequence[Group]) -> tuple[Guard, ...]:
        """What ends the loops of the loads; they count ``counted``, slowest first.

        Raises:
            ScheduleError: ``load-bound``.
        """

    @abstractmethod
    def as_loads(self, d: IterDomain) -> bool:
        """Whether a loop of compute runs on those CTAs that load for it."""

    @abstractmethod
    def below(self, counted: Counted, above: Sequence[Guard]) -> tuple[Guard, ...]:
        """What else ends compute's loops; ``above`` ends those of the loads.

        Raises:
            ScheduleError: ``load-cover``, ``load-bound``, ``role``.
        """

    @abstractmethod
    def work(self, proved: Proved) -> Work:
        """Where the CTA's tiles come from.

        Raises:
            ScheduleError: ``load-bound``.
        """


def find_share(sides: Sides) -> Share:
    """The share of an edge: whole tiles, where compute has the loads' loops on CTAs; where it has
    not, they may be dealt an interval.

    Raises:
        ScheduleError: ``load-cover``, where loops on CTAs are not those of compute;
            ``load-bound``, where tiles are dealt out at run time otherwise than one by one to CTAs.
    """
    cta = sides.loads[0].axis_on(ParallelType.BIDx)
    apart = sides.loads[0] in sides.fusion.loads and on_other_ctas(sides)
    steps = find_dealt_loop(sides.graph, sides.load_loops[0], cta) if apart else None
    dealt = find_dealt(sides)
    if steps is None:
        check_cta_loops(sides)
        return _WholeTiles(sides, dealt)
    if dealt is not None:
        tiles = dealt.inputs[0].label
        raise sides.refuse(
            "load-bound",
            f"{tiles} are dealt out at run time, but the load loop {sides.load_loop} is a share of "
            "the steps of all tiles, which every CTA knows",
            (f"split {tiles} with dynamic=False",),
        )
    return _PartOfSteps(sides, dealt, steps)


@dataclass(frozen=True, slots=True)
class _WholeTiles(Share):
    """All steps of some tiles, or with split-K the same part of them."""

    @property
    def whole(self) -> tuple[Group, ...]:
        """The load loops."""
        return tuple(map(self.sides.graph.group, self.sides.load_loops))

    def above(self, counted: Sequence[Group]) -> tuple[Guard, ...]:
        """Shares that are rounded up end with what exists."""
        s = self.sides
        return guards_above(s.graph, s.loads[0], counted, s.on_ctas, s.refuse)

    def as_loads(self, d: IterDomain) -> bool:
        """It is one of theirs."""
        return d.parallel in CTA_INDEX and self.sides.loaded_alike(d)

    def below(self, counted: Counted, above: Sequence[Guard]) -> tuple[Guard, ...]:
        """Splits of compute alone end with what they split."""
        return guards_below(self.sides.graph, counted.tails, above)

    def work(self, proved: Proved) -> Work:
        """In turn, or from the queue where the split that ends both sides deals its tiles out."""
        p = proved
        tail = find_tail(p.nest, p.digits, p.above, p.below) if p.entry is None else None
        if self.dealt is not None:
            check_dealt(self.sides, self.dealt, p.nest, p.above, p.entry)
            assert tail is not None
            tiles = self.dealt.inputs[0]
            return self._of_groups(p, tail, tiles) or FromQueue(tail, tiles)
        self._require_no_groups()
        stop = prod((n.stop for n in p.nest), start=ONE) if tail is None else tail.load_stop
        return InTurn(stop, tail, _items(p), _parts(self.sides), rows_of(self.sides.fusion))

    def _require_no_groups(self) -> None:
        """Which tiles groups have is known at run time only."""
        groups = self.sides.fusion.groups
        if groups is not None:
            raise self.sides.refuse(
                "load-bound",
                f"{groups.along} of {groups.axis} groups, which only the device knows, in tiles "
                "that CTAs know when they start",
                ("split the tiles of all groups with dynamic=True, the inner part on CTAs",),
            )

    def _of_groups(self, p: Proved, tail: Tail, tiles: Group) -> OfGroups | None:
        """Tiles of groups, where there are groups: of each group all, and then of the next."""
        groups = self.sides.fusion.groups
        if groups is None:
            return None
        found = batch_of_tiles(self.sides.graph, tiles, groups)
        if found is None:
            raise self.sides.refuse(
                "load-bound",
                f"{tiles.label} are dealt out at run time, but are not those of {groups.axis} "
                "groups, one group behind the other",
                (f"merge {groups.axis} with the tiles of one group, as the outer one",),
            )
        chunk = self._chunk(p, groups) if self.sides.fusion.sums_of_groups else None
        return OfGroups(tail, tiles, *found, groups, chunk)

    def _chunk(self, p: Proved, groups: Groups) -> Expr | None:
        """What a load step covers of a group that is summed over; None of what is loaded once a
        tile.
        """
        graph = self.sides.graph
        summed = {g for g in graph.groups if graph.producer(g) is None}
        summed = {g for g in summed if g.extent == Var(groups.along)}
        steps = [n.group for n in p.nest[1:] if not summed.isdisjoint(graph.above(n.group))]
        if not steps:
            return None
        found = chunk_of_step(graph, steps[0], groups) if len(steps) == 1 else None
        if found is None:
            names = " and ".join(g.label for g in steps) or "nothing"
            raise self.sides.refuse(
                "load-bound",
                f"{groups.axis} groups share out {groups.along}, of which only the device knows "
                f"how much each has, but the steps of a tile are {names}",
                (f"split {groups.along} once, and load in the outer loop",),
            )
        return found


def _items(p: Proved) -> Expr:
    """Tiles of a CTA: as many as the loops over them have iterations."""
    return prod((x.loop.domain.extent for x in p.digits[: p.outside]), start=ONE)


def _parts(sides: Sides) -> int:
    """CTAs that each sum up a part of K."""
    part = sides.compute.axis_on(ParallelType.BIDz)
    if part is None or part.iter_type is not IterType.Reduction:
        return 1
    return part.extent.value if isinstance(part.extent, Const) else 1


@dataclass(frozen=True, slots=True)
class _PartOfSteps(Share):
    """Stream-K: an interval of the steps of all tiles, with bounds of its own."""

    steps: DealtLoop

    @property
    def whole(self) -> tuple[Group, ...]:
        """The loop that is dealt out."""
        return (self.steps.merged,)

    def above(self, counted: Sequence[Group]) -> tuple[Guard, ...]:
        """What ends it for all CTAs, or for those of one place beside each other."""
        s, merged = self.sides, self.steps.merged
        ctas = {g: e for g, e in s.on_ctas.items() if merged not in s.graph.above(g)}
        return guards_above(s.graph, s.loads[0], counted, ctas, s.refuse)

    def as_loads(self, d: IterDomain) -> bool:
        """Those along x have shares, which ``below`` looks at; others are on the loads' CTAs."""
        along_x = d.parallel is ParallelType.BIDx
        return along_x or (d.parallel in CTA_INDEX and self.sides.loaded_alike(d))

    def below(self, counted: Counted, above: Sequence[Guard]) -> tuple[Guard, ...]:
        """Splits of compute alone end with what they split."""
        check_places(self.sides, self.steps)
        return guards_below(self.sides.graph, counted.tails, above)

    def work(self, proved: Proved) -> Work:
        """The interval."""
        found = find_interval(self.sides, self.steps, proved.nest)
        parts, rows = _parts(self.sides), rows_of(self.sides.fusion)
        return OfInterval(found, proved.warpgroups.count, parts, rows)
