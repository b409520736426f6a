"""Work: where a CTA's tiles come from, and what every part has to know of that.

There are four kinds, with the same members; that of groups of rows has a file of its own. What they
say holds for the producer and for the consumers of an edge alike; the loops that follow from it are
made by ``lowering.nest``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lowering.ground.errors import InternalError
from lowering.ground.expr import ONE, ZERO, Expr, Special, Var
from wsched.schedule.graph import Group
from wsched.schedule.proof.interval import Interval

__all__ = ["FromQueue", "InTurn", "OfInterval", "Slots", "Tail", "Work"]

_CTA, _CTAS, _PART = Special("ctaid.x"), Special("nctaid.x"), Special("ctaid.z")
_ROW = Special("ctaid.y")


@dataclass(frozen=True, slots=True)
class Tail:
    """A predicate ``index < extent`` as the loop bound of both sides.

    Work is dealt out in equal shares, so the last shares reach past the end. ``index`` grows with
    the load index, so both sides end early instead of testing each iteration.

    Args:
        index: what must stay below ``extent``, in compute's loop variables and ``%ctaid.x``.
        extent: the real number of items, e.g. of output tiles.
        items: how many of them this CTA has.
        ended: compute's loops that end early because of it.
        shared: whether CTAs share the items; else each has all of them, beside others.
        item: which of its CTA's items the loops are at, in compute's loop variables.
        steps: load steps of an item.
    """

    index: Expr
    extent: Expr
    items: Expr
    ended: frozenset[Var]
    shared: bool
    item: Expr
    steps: Expr

    @property
    def load_stop(self) -> Expr:
        """Number of load steps of this CTA."""
        return self.items * self.steps

    @property
    def names(self) -> tuple[tuple[str, Expr], ...]:
        """A name for how many tiles the CTA has."""
        return (("tiles", self.items),)


@dataclass(frozen=True, slots=True)
class Slots:
    """Where the parts of one tile meet that several CTAs compute; each stores one, but the last.

    Args:
        own: where this CTA stores its part.
        first: where the others' parts begin, if this CTA completes the tile.
        step: from one of them to the next.
        others: how many there are.
        meeting: the slot at whose counter they are published.
        completes: whether this CTA completes the tile.
    """

    own: Expr
    first: Expr
    step: int
    others: Expr
    meeting: Expr
    completes: Expr


class Work(Protocol):
    """What is known of a CTA's work; extents are over ``%ctaid`` and ``%nctaid``."""

    @property
    def tail(self) -> Tail | None:
        """The predicate that ends both sides' loops where a single one does."""

    @property
    def load_stop(self) -> Expr:
        """Number of load steps of a CTA."""

    @property
    def most_steps(self) -> Expr:
        """No counter of steps of a CTA goes higher."""

    @property
    def most_clusters(self) -> Expr | None:
        """Clusters beyond which none has anything to do; None where the schedule says how many."""

    @property
    def splits(self) -> int:
        """CTAs along z that each run a part of K."""

    @property
    def at_run_time(self) -> bool:
        """Whether it is decided while the kernel runs which tiles a CTA gets."""

    @property
    def ends_within_tiles(self) -> bool:
        """Whether a CTA may begin or end within a tile, as the number of CTAs says."""

    @property
    def fetching_warps(self) -> int:
        """Warps that do nothing but find out which tile is next."""

    @property
    def slots(self) -> Expr | None:
        """Slots for parts of tiles; None where each tile is computed by one CTA."""

    def slots_of(self, tile: Expr) -> Slots:
        """Those of a tile.

        Args:
            tile: its number, in what the kind of work counts: the tiles that the CTA had before,
                or with an interval all tiles.
        """

    @property
    def names(self) -> tuple[tuple[str, Expr], ...]:
        """Words for parts of the bounds, those first that others are made of."""

    @property
    def condition(self) -> str:
        """What holds as long as there is work; empty where each loop has a bound of its own."""

    def counted(self, loop: str) -> str:
        """What the load index counts where the load loop is ``loop``."""

    def share(self, loop: str) -> tuple[str, ...]:
        """Lines on which share of that this CTA has."""


@dataclass(frozen=True, slots=True)
class InTurn:
    """Shares that a CTA knows when it starts: every n-th tile, neighbouring ones, or just one.

    Args:
        load_stop: number of load steps of a CTA.
        tail: the predicate that ends both sides, None where all shares are full or none does alone.
        items: tiles of a CTA at most.
        splits: CTAs along z that each run a part of K, and add up what they have.
        rows: CTAs along y, each with tiles, or with parts of tiles, of its own.
    """

    load_stop: Expr
    tail: Tail | None
    items: Expr
    splits: int = 1
    rows: Expr = ONE

    at_run_time = False
    ends_within_tiles = False
    fetching_warps = 0

    @property
    def most_steps(self) -> Expr:
        """Those that it has."""
        return self.load_stop

    @property
    def most_clusters(self) -> Expr | None:
        """As many as there are tiles that CTAs share."""
        return None if self.tail is None or not self.tail.shared else self.tail.extent

    @property
    def slots(self) -> Expr | None:
        """One for each part of a tile but the last."""
        return None if self.splits == 1 else self._ctas * self.items * (self.splits - 1)

    @property
    def _ctas(self) -> Expr:
        """CTAs with tiles of their own."""
        return _CTAS if self.rows == ONE else _CTAS * self.rows

    def slots_of(self, tile: Expr) -> Slots:
        """Those of the CTA's tile, behind those of its tiles before."""
        others = self.splits - 1
        cta = _CTA if self.rows == ONE else _ROW * _CTAS + _CTA
        first = (tile * self._ctas + cta) * others
        return Slots(first + _PART, first, 1, ZERO + others, first, _PART.eq(others))

    @property
    def names(self) -> tuple[tuple[str, Expr], ...]:
        """The number of tiles."""
        return () if self.tail is None else self.tail.names

    @property
    def condition(self) -> str:
        """The predicate, if it is the only one."""
        return "" if self.tail is None else f"{self.tail.index} < {self.tail.extent}"

    def counted(self, loop: str) -> str:
        """The load loop."""
        return loop

    def share(self, loop: str) -> tuple[str, ...]:
        """All of it."""
        return ()


@dataclass(frozen=True, slots=True)
class FromQueue:
    """Tiles that CTAs ask for at run time, each for the next one when it has a place for it.

    Args:
        tail: what ends both sides. ``index`` is what it would be if all CTAs asked in turn; what a
            CTA gets grows as well, so it ends early in the same way, but the bounds are not known
            before the last item.
        group: what is dealt out.
    """

    tail: Tail
    group: Group

    splits = 1
    at_run_time = True
    ends_within_tiles = False
    fetching_warps = 1
    slots = None

    @property
    def load_stop(self) -> Expr:
        """As if all CTAs asked in turn."""
        return self.tail.load_stop

    @property
    def most_steps(self) -> Expr:
        """One CTA may get all tiles."""
        return self.tail.extent * self.tail.steps

    @property
    def most_clusters(self) -> Expr | None:
        """As many as there are tiles."""
        return self.tail.extent

    def slots_of(self, tile: Expr) -> Slots:
        """InternalError: no tile is computed in parts."""
        raise InternalError("plan", "tiles that are dealt out at run time are computed in parts")

    @property
    def names(self) -> tuple[tuple[str, Expr], ...]:
        """The number of tiles in equal shares."""
        return self.tail.names

    @property
    def condition(self) -> str:
        """The predicate, of the tile that was dealt out."""
        return f"dealt[{self.tail.item}] < {self.tail.extent}"

    def counted(self, loop: str) -> str:
        """The load loop."""
        return loop

    def share(self, loop: str) -> tuple[str, ...]:
        """Known at run time."""
        return ()


@dataclass(frozen=True, slots=True)
class OfInterval:
    """Stream-K: an interval of the load steps of all tiles, which may begin and end within one.

    The load index, and that of compute's loop over tiles, count from its start.

    Args:
        interval: its bounds.
        roles: number of compute warpgroups.
        splits: CTAs along z that each run an interval of their part of K.
        rows: CTAs along y, each with tiles, or with parts of tiles, of its own.
    """

    interval: Interval
    roles: int
    splits: int = 1
    rows: Expr = ONE

    tail = None
    at_run_time = False
    ends_within_tiles = True
    fetching_warps = 0
    condition = ""

    @property
    def load_stop(self) -> Expr:
        """Steps of the interval."""
        return self.interval.load_stop - self.interval.start

    @property
    def most_steps(self) -> Expr:
        """Counted from the first step of all tiles; the bounds of a tile and of the one behind it
        are looked at, and those of a share with the steps that do not exist.
        """
        i = self.interval
        return i.places + i.share + i.per_tile * (self.roles + 1)

    @property
    def most_clusters(self) -> Expr | None:
        """As many as there are steps."""
        return self.interval.extent

    @property
    def slots(self) -> Expr | None:
        """One a CTA: only the last tile of an interval is completed by another one."""
        return _CTAS if self.rows == ONE else _CTAS * self.rows

    def slots_of(self, tile: Expr) -> Slots:
        """Slots follow the shares; the place in the cluster is counted from its end."""
        i = self.interval
        before = ZERO if self.rows == ONE else _ROW * _CTAS
        own, size = before + i.place, i.size
        opens = tile * i.per_tile
        owner = before + i.share_of(opens) * size + i.place % size
        rest = i.share_of(opens + i.per_tile - 1) - i.index
        return Slots(own, own + size, size, rest, owner, i.start <= opens)

    @property
    def names(self) -> tuple[tuple[str, Expr], ...]:
        """This CTA's share of the steps, and the tiles that it touches."""
        i = self.interval
        return (
            ("place", i.place),
            ("index", i.index),
            ("per_tile", i.per_tile),
            ("steps", i.extent),
            ("share", i.share),
            ("start", i.start),
            ("stop", i.stop),
            ("load_stop", i.load_stop),
            ("first", i.first),
            ("tiles", i.count),
        )

    def counted(self, loop: str) -> str:
        """The merged loop."""
        return self.interval.label

    def share(self, loop: str) -> tuple[str, ...]:
        """Where the interval begins, and how long it is."""
        i = self.interval
        return (
            f"  {loop} is one share of it, from {i.index * Var('share')} on",
            f"  share = {i.share}",
        )
