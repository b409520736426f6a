"""Who decides what happens when: by a seed, or against one statement or one warp.

Random orders miss what goes wrong only if *one* thing is late. The two deterministic adversaries
make one statement as late as can be, or one warp, and everything else as early as can be;
``adversaries`` are all that a kernel can have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Atom, Stmt
from lowering.kernel.traits import Memory
from lowering.kernel.visit import bodies, walk

__all__ = [
    "Adversary", "Draws", "HoldBack", "Order", "RunLast", "adversaries", "late",
    "orders_of_draws",
]  # fmt: skip

Order = Literal["eager", "lazy", "random", "fair"]

_WATCHED = Memory.SHARED | Memory.SHARED_ASYNC | Memory.TENSOR


@dataclass(frozen=True, slots=True, eq=False)
class HoldBack:
    """One statement is late, everything else early.

    A warp that comes to it runs on only when no other can; its asynchronous operation takes effect
    when nothing else can happen, and what it stores reaches the async proxy with a fence only.

    Args:
        stmt: the statement itself, from the kernel's body.
    """

    stmt: Stmt


@dataclass(frozen=True, slots=True)
class RunLast:
    """One warp runs only when no other can, step by step; effects are early.

    Args:
        rank: its CTA's in the cluster (of each cluster that runs).
        warp: its number in the CTA.
    """

    rank: int
    warp: int


@dataclass(frozen=True, slots=True)
class Draws:
    """Numbers are drawn from counters one at a time, when nothing else can happen.

    Additions are not held back: sums are the same in any order. ``orders_of_draws`` are all of
    them.

    Args:
        choices: of the warps that wait for their turn, by CTA and warp, whose it is each time;
            behind the end of these the first one's.
        widths: gets how many waited, each time.
    """

    choices: tuple[int, ...] = ()
    widths: list[int] = field(default_factory=list, compare=False)

    def turn(self, waiting: int) -> int:
        """Whose turn it is of so many."""
        at = len(self.widths)
        self.widths.append(waiting)
        return self.choices[at] if at < len(self.choices) else 0


Adversary = Order | HoldBack | RunLast | Draws


def late(adversary: Adversary, stmt: Stmt) -> bool:
    """Whether a warp lets all others run in front of a statement."""
    match adversary:
        case HoldBack(stmt=held):
            return stmt is held
        case Draws():
            return isinstance(stmt, Atom) and stmt.op != "add"
    return False


def orders_of_draws(run: Callable[[Draws], None]) -> Iterator[Draws]:
    """All orders in which numbers can be drawn, each behind the run with it."""
    left: list[tuple[int, ...]] = [()]
    while left:
        choices = left.pop()
        run(draws := Draws(choices))
        yield draws
        for at in range(len(choices), len(draws.widths)):
            before = choices + (0,) * (at - len(choices))
            left += [(*before, n) for n in range(1, draws.widths[at])]


def adversaries(kernel: Kernel) -> Iterator[HoldBack | RunLast]:
    """Each statement that orders warps, or touches memory of an SM, held back; each warp last."""
    for stmt in walk(kernel.body):
        traits = stmt.TRAITS
        if not bodies(stmt) and (traits.synchronizes or traits.touches & _WATCHED):
            yield HoldBack(stmt)
    for rank in range(kernel.cluster):
        yield from (RunLast(rank, warp) for warp in range(kernel.threads // 32))
