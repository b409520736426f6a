"""What ties the two sides of a circular-buffered kernel: the load index in compute's loops."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from lowering.ground.expr import ONE, Expr, Var
from wsched.fusion import CircularBuffer, IterDomain, WarpSpecialized
from wsched.schedule.proof.graph import Group
from wsched.schedule.proof.interval import Interval

__all__ = ["LoadLoop", "LoadRelation", "StepLoop", "Tail"]


@dataclass(frozen=True, slots=True)
class LoadLoop:
    """One loop of the nest that the load loop is: ``for group in 0 .. stop``.

    Args:
        group: what it counts.
        weight: load steps of an iteration: the product of the stops of the loops inside it.
        stop: number of iterations of this CTA, over extents, ``%ctaid`` and ``%nctaid``; the same
            at all indices of the loops outside it.
    """

    group: Group
    weight: Expr
    stop: Expr


@dataclass(frozen=True, slots=True)
class StepLoop:
    """A compute loop that takes part in the load index.

    Args:
        domain: the loop, of the consuming tensor.
        var: its index, ``Var(domain.name)``.
        coefficient: load steps between two of its iterations.
        role: whether its iterations are run by different warpgroups.
        stop: number of its iterations, over extents, ``%ctaid``, ``%nctaid``, the variables of
            roles and those of slower step loops. Of a role its extent: what a role does not have
            ends its serial loops early (or see ``LoadRelation.entry``).
    """

    domain: IterDomain
    var: Var
    coefficient: Expr
    role: bool
    stop: Expr

    @property
    def trimmed(self) -> bool:
        """Whether it may end before its extent."""
        return self.stop != self.domain.extent


@dataclass(frozen=True, slots=True)
class Tail:
    """A predicate ``index < extent`` as the loop bound of both sides.

    Work is dealt out in equal shares, so the last shares reach past the end. ``index`` grows with
    the load index, so both sides end early instead of testing each iteration.

    Args:
        index: what must stay below ``extent``, in compute's loop variables and ``%ctaid.x``.
        extent: the real number of items, e.g. of output tiles.
        load_stop: number of load steps of this CTA.
        serial: the compute loop that ends early; None if the role runs one item or none.
        serial_stop: its trip count for a role, in the role's variable; None without ``serial``.
        item: which of its CTA's items the loops are at, in compute's loop variables.
        steps: load steps of an item.
        dynamic: items are dealt out at run time, written ``dealt[item]``. Then ``index`` is what it
            would be if all CTAs asked in turn; what a CTA gets grows as well, so it ends early in
            the same way, but the bounds are not known before the last item.
    """

    index: Expr
    extent: Expr
    load_stop: Expr
    serial: Var | None
    serial_stop: Expr | None
    item: Expr
    steps: Expr
    dynamic: bool = False


@dataclass(frozen=True, slots=True)
class LoadRelation:
    """A legal schedule's load index as a function of the compute side's loops.

    For a fixed role it grows strictly with every step of the compute side's serial loops, and all
    roles together take each value from 0 to ``load_stop - 1`` exactly once.

    Args:
        loads: names of the circular-buffered tensors, all stepped by the same loop.
        compute: name of the tensor that consumes them: the mma's, or a copy in registers; the first
            one where several do.
        readers: names of all that do, in topological order; they share the loops that step.
        loop: the load loop (of the first load tensor).
        index: the load index over compute's loop variables.
        nest: the load loop as loops of its own, slowest first; their indices count the same steps.
        digits: compute's loops that take part in the index, slowest first.
        outside: how many of ``digits`` choose what is accumulated or read, the tile: the others
            run within one of them.
        steps: the same loops as ``digits``, in the order of compute's nest, outermost first.
        buffer: stages, prefetch and type, the same for all loads.
        roles: number of compute warpgroups.
        consumers: how many of them take each step.
        tail: the predicate that bounds both sides where one does, None where all shares are full
            or loops end early one within another.
        entry: what must hold for a role to have anything to compute, over its variable; None where
            it always has or its loops' bounds say so.
        interval: of the merged loop that this CTA runs with stream-K; the load index and that of
            compute's tile loop then count from its start.
        splits: CTAs (BIDz) that each run a part of K and add up what they have.
    """

    loads: tuple[str, ...]
    compute: str
    readers: tuple[str, ...]
    loop: IterDomain
    index: Expr
    nest: tuple[LoadLoop, ...]
    digits: tuple[StepLoop, ...]
    outside: int
    steps: tuple[StepLoop, ...]
    buffer: CircularBuffer
    roles: int
    consumers: int
    tail: Tail | None
    entry: Expr | None = None
    interval: Interval | None = None
    splits: int = 1

    @property
    def combines(self) -> bool:
        """Whether several CTAs compute parts of a tile, which are added up."""
        return self.interval is not None or self.splits > 1

    @property
    def warp_specialized(self) -> bool:
        """Whether a warpgroup of its own loads."""
        return isinstance(self.buffer.type, WarpSpecialized)

    @property
    def registers(self) -> tuple[int, int] | tuple[None, None]:
        """Registers a thread of the (load, compute) warpgroups, None where they stay."""
        kind = self.buffer.type
        pair = kind.num_registers if isinstance(kind, WarpSpecialized) else None
        return pair or (None, None)

    @property
    def role(self) -> StepLoop | None:
        """The step loop dealt out to warpgroups: there is one in ping-pong."""
        return next((s for s in self.steps if s.role), None)

    @property
    def cooperative(self) -> bool:
        """Whether every compute warpgroup consumes every load step."""
        return self.role is None

    @property
    def load_stop(self) -> Expr:
        """Number of load steps of a CTA."""
        if self.interval is not None:
            return self.interval.load_stop - self.interval.start
        if self.tail is not None:
            return self.tail.load_stop
        return prod((n.stop for n in self.nest), start=ONE)

    @property
    def most_steps(self) -> Expr:
        """No counter of steps of a CTA goes higher; over extents, ``%ctaid`` and ``%nctaid``.

        Shares of stream-K are counted from the first step of all tiles, and the bounds of a tile
        and of the one behind it are looked at. Where tiles are dealt out at run time, one CTA may
        get all of them.
        """
        if self.tail is not None and self.tail.dynamic:
            return self.tail.extent * self.tail.steps
        if self.interval is None:
            return self.load_stop
        share, tile = self.interval.share, self.interval.per_tile
        return self.interval.extent + share + tile * (self.roles + 1)

    @property
    def dynamic(self) -> bool:
        """Whether tiles are dealt out to CTAs at run time."""
        return self.tail is not None and self.tail.dynamic

    def __str__(self) -> str:
        loads = ", ".join(self.loads)
        kind = "every compute warpgroup" if self.cooperative else "one compute warpgroup"
        if not self.cooperative and self.consumers > 1:
            kind = f"{self.consumers} compute warpgroups"
        label = self.loop.label if self.interval is None else self.interval.merged.label
        lines = [
            f"{loads}: {label} = {self.index}",
            *(
                f"  {s.var} = {s.domain.label} [{s.domain.parallel}] steps by {s.coefficient}"
                for s in self.steps
            ),
            *([f"  each step is read by {' and '.join(self.readers)}"] if self.readers[1:] else []),
            f"  each step is consumed by {kind} of {self.roles}",
            *self._ends(),
        ]
        if self.interval is not None:
            share, index = self.interval.share, self.interval.index
            begin = index * Var("share")
            lines.append(f"  {self.loop.label} is one share of it, from {begin} on")
            lines.append(f"  share = {share}")
        if self.splits > 1:
            lines.append(f"  the parts of {self.splits} CTAs are added up")
        return "\n".join(lines) + "\n"

    def _ends(self) -> list[str]:
        """The predicate that ends all loops, or the bound of each that ends early."""
        lines = [] if self.entry is None else [f"  where {self.entry}"]
        if self.tail is not None:
            index = f"dealt[{self.tail.item}]" if self.tail.dynamic else self.tail.index
            return [*lines, f"  while {index} < {self.tail.extent}"]
        return lines + [f"  {s.var} < {s.stop}" for s in self.digits if s.trimmed]
