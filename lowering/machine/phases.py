"""Phases that the order alone decides: one run then speaks for all of its size.

A wait names a phase by its parity, an arrival by coming while it runs, so in another order either
may mean another phase. They cannot where

- an arrival, or bytes, for a phase come behind the end of the phase before,
- a wait that sees the end of a phase comes behind the end of the one before, and
- that phase's successor ends behind the wait.

If that holds of every arrival and wait of a run, all orders have the same phases with the same
arrivals (by induction over any one of them: its first arrival or wait that differed would break one
of the three), so the same order of events, the same waits that end, and, where all conflicting
accesses are ordered (``lowering.machine.races``), the same numbers. Tickets from counters are no
part of it: who draws first is chance, and meant to be.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lowering.kernel.nodes import Stmt
from lowering.kernel.text import print_stmt
from lowering.machine.errors import FaultError
from lowering.machine.order import Actor, Events

__all__ = ["Phases"]


@dataclass(slots=True, eq=False)
class Phases:
    """The phases of a barrier as moments.

    Args:
        events: of the run.
        name: of the barrier.
        ends: moments at which its phases ended, in order.
        waits: those that have seen the end of the last one.
    """

    events: Events
    name: str
    ends: list[int] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)

    def arrive(self, known: int, what: str = "an arrival") -> None:
        """Somebody who comes behind ``known`` counts for the phase that runs.

        Raises:
            FaultError: it might have come before that phase began.
        """
        if self.ends and not known >> self.ends[-1] & 1:
            raise FaultError(
                f"{what} counts for phase {len(self.ends)} of {self.name} by chance: nothing "
                f"orders it behind the end of phase {len(self.ends) - 1}"
            )

    def wait(self, known: int, warp: Actor, stmt: Stmt) -> int:
        """A warp that comes behind ``known`` sees the end of the last phase; the moment.

        Raises:
            FaultError: it might have seen that of the last but two, which has the same parity.
        """
        if len(self.ends) > 1 and not known >> self.ends[-2] & 1:
            raise FaultError(
                f"the wait is for phase {len(self.ends) - 1} of {self.name} by chance: nothing "
                f"orders it behind the end of phase {len(self.ends) - 2}"
            )
        self.waits.append(self.events.moment(warp, stmt))
        return self.waits[-1]

    def end(self, coming: int) -> int:
        """The phase that runs is over, by arrivals that know of ``coming``; the moment.

        Raises:
            FaultError: somebody who waited for the phase before might have come too late for it.
        """
        for wait in self.waits:
            if not coming >> wait & 1:
                late = self.events[wait]
                raise FaultError(
                    f"phase {len(self.ends)} of {self.name} ends, and nothing orders that behind "
                    f"the wait of {late.who} for the phase before: {print_stmt(late.stmt).strip()}"
                )
        self.waits.clear()
        self.ends.append(self.events.moment())
        return self.ends[-1]
