"""What ties the two sides of a circular-buffered kernel: the load index in compute's loops."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.expr import Expr, Var
from wsched.fusion import CircularBuffer, IterDomain, WarpSpecialized
from wsched.schedule.graph import Group
from wsched.schedule.proof.work import Tail, Work
from wsched.schedule.warpgroups import Warpgroups

__all__ = ["LoadLoop", "LoadRelation", "StepLoop"]


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
class LoadRelation:
    """A legal schedule's load index as a function of the compute side's loops.

    For a fixed role it grows strictly with every step of the compute side's serial loops, and all
    roles together take each value from 0 to ``load_stop - 1`` exactly once.

    Args:
        loads: names of the circular-buffered tensors, all stepped by the same loop.
        compute: name of the tensor that consumes them: the mma's, or a copy in registers; the first
            one where several do.
        readers: names of all that do, in topological order; they share the loops that step.
        label: what the load loop is called, ``tile·k`` (that of the first load tensor).
        index: the load index over compute's loop variables.
        nest: the load loop as loops of its own, slowest first; their indices count the same steps.
        digits: compute's loops that take part in the index, slowest first.
        outside: how many of ``digits`` choose what is accumulated or read, the tile: the others
            run within one of them.
        steps: the same loops as ``digits``, in the order of compute's nest, outermost first.
        buffer: stages, prefetch and type, the same for all loads.
        warpgroups: those that compute, and how many of them take each step.
        work: where tiles come from, and how many load steps that is.
        entry: what must hold for a role to have anything to compute, over its variable; None where
            it always has or its loops' bounds say so.
    """

    loads: tuple[str, ...]
    compute: str
    readers: tuple[str, ...]
    label: str
    index: Expr
    nest: tuple[LoadLoop, ...]
    digits: tuple[StepLoop, ...]
    outside: int
    steps: tuple[StepLoop, ...]
    buffer: CircularBuffer
    warpgroups: Warpgroups
    work: Work
    entry: Expr | None = None

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
    def roles(self) -> tuple[StepLoop, ...]:
        """The step loops that are dealt out to warpgroups, one on each axis, outermost first."""
        return tuple(s for s in self.steps if s.role)

    @property
    def cooperative(self) -> bool:
        """Whether every compute warpgroup consumes every load step."""
        return not self.roles

    @property
    def tail(self) -> Tail | None:
        """The predicate that ends both sides' loops where a single one does."""
        return self.work.tail

    @property
    def load_stop(self) -> Expr:
        """Number of load steps of a CTA."""
        return self.work.load_stop

    @property
    def most_steps(self) -> Expr:
        """No counter of steps of a CTA goes higher; over extents, ``%ctaid`` and ``%nctaid``."""
        return self.work.most_steps

    def __str__(self) -> str:
        loads, taking = ", ".join(self.loads), self.warpgroups.taking
        kind = "every compute warpgroup" if self.cooperative else "one compute warpgroup"
        if not self.cooperative and taking > 1:
            kind = f"{taking} compute warpgroups"
        lines = [
            f"{loads}: {self.work.counted(self.label)} = {self.index}",
            *(
                f"  {s.var} = {s.domain.label} [{s.domain.parallel}] steps by {s.coefficient}"
                for s in self.steps
            ),
            *([f"  each step is read by {' and '.join(self.readers)}"] if self.readers[1:] else []),
            f"  each step is consumed by {kind} of {self.warpgroups.count}",
            *self._ends(),
            *self.work.share(self.label),
        ]
        if self.work.splits > 1:
            lines.append(f"  the parts of {self.work.splits} CTAs are added up")
        return "\n".join(lines) + "\n"

    def _ends(self) -> list[str]:
        """The predicate that ends all tiles, and the bound of each other loop that ends early."""
        lines = [] if self.entry is None else [f"  where {self.entry}"]
        if self.work.condition:
            lines.append(f"  while {self.work.condition}")
        ended = frozenset[Var]() if self.tail is None else self.tail.ended
        trimmed = (s for s in self.digits if s.trimmed and s.var not in ended)
        return lines + [f"  {s.var} < {s.stop}" for s in trimmed]
