"""What all warps of a grid see of each other: phases, meetings, words, counters; no data.

Of every kind of statement that changes or awaits any of it ``lowering.proof.events`` says what it
evaluates and what it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lowering.ground.expr import Expr, evaluate
from lowering.kernel.compute import WgmmaCommit, WgmmaFence, WgmmaWait
from lowering.kernel.control import SetMaxNReg
from lowering.kernel.kernel import Kernel, SharedBuffer, TensorBuffer
from lowering.kernel.memory import BulkCommit, BulkWait
from lowering.kernel.stamp import Stamp
from lowering.kernel.sync import (
    FenceMBarrierInit,
    FenceProxyAsync,
    GridDepLaunchDependents,
    GridDepWait,
    MBarrierInit,
    MBarrierInval,
    WarpSync,
)
from lowering.kernel.tensor_memory import (
    Tcgen05Base,
    Tcgen05Dealloc,
    Tcgen05Fence,
    Tcgen05Relinquish,
    Tcgen05WaitLoad,
)
from lowering.kernel.tensors import TensorMap
from lowering.proof.ends import Ends
from lowering.proof.flow import Flow
from lowering.proof.tile import Tile
from lowering.proof.told import Told

__all__ = ["QUIET", "Board", "Env", "Event", "Region", "Walker"]

Env = dict[str, int]

Region = tuple[tuple[int, int], ...]
"""Elements of a tensor: from where up to where along each dimension."""

Met = tuple[int, str, int]
"""A CTA, a named barrier and its number; the name is empty of a sync of the CTA."""

QUIET = frozenset({
    BulkCommit, BulkWait, FenceMBarrierInit, FenceProxyAsync, GridDepLaunchDependents, GridDepWait,
    MBarrierInit, MBarrierInval, SetMaxNReg, Stamp, Tcgen05Base, Tcgen05Dealloc, Tcgen05Fence,
    Tcgen05Relinquish, Tcgen05WaitLoad, WarpSync, WgmmaCommit, WgmmaFence, WgmmaWait,
})  # fmt: skip
"""What synchronizes and awaits nothing of another warp (``registers`` is about setmaxnreg)."""


@dataclass(slots=True)
class Phase:
    """An mbarrier: phases that are over, and what the current one still awaits."""

    done: int
    arrivals: int
    bytes: int = 0


@dataclass(slots=True)
class Meeting:
    """A named barrier, or a sync of a CTA or cluster: how often it came about, and who is there."""

    done: int = 0
    threads: int = 0

    def come(self, threads: int, whole: int) -> None:
        """So many more threads are there, of ``whole``."""
        self.threads += threads
        if self.threads >= whole:
            self.done, self.threads = self.done + 1, self.threads - whole


@dataclass
class Board:
    """What all CTAs of a grid see.

    Args:
        kernel: that they execute.
        grid: CTAs along x; ``rows`` along y.
        sizes: values of the parameters.
        memory: what plain tensors hold.
        writes: what was stored to tensors, or entries of arrays of them.
        wrong: what should not have happened.
        told: parts of sums, and the counters that tell of them.
        within: accesses to stages that the buffers have; ``reached`` are words that were looked at.
    """

    kernel: Kernel
    grid: int
    rows: int
    sizes: Env
    memory: Ends
    phases: dict[tuple[int, str, int], Phase] = field(default_factory=dict)
    meetings: dict[Met, Meeting] = field(default_factory=dict)
    words: dict[tuple[int, str, tuple[int, ...]], int] = field(default_factory=dict)
    counters: dict[tuple[str, int], int] = field(default_factory=dict)
    writes: dict[tuple[str, int], list[Region]] = field(default_factory=dict)
    wrong: set[str] = field(default_factory=set)
    told: Told = field(default_factory=Told)
    within: set[tuple[str, tuple[tuple[int, int], ...]]] = field(default_factory=set)
    reached: set[tuple[str, tuple[int, ...]]] = field(default_factory=set)
    flow: Flow = field(init=False)

    def __post_init__(self) -> None:
        self.awaited = {m.name: m.arrivals for m in self.kernel.mbarriers}
        self.threads = {b.name: b.threads for b in self.kernel.named_barriers}
        self.named = {b.name: b.count for b in self.kernel.named_barriers}
        self.maps = {m.name: m for m in self.kernel.tensor_maps}
        self.buffers: dict[str, SharedBuffer | TensorBuffer] = {}
        self.buffers |= {b.name: b for b in self.kernel.shared}
        self.buffers |= {b.name: b for b in self.kernel.tensors}
        self.flow = Flow.of(self.kernel, self.sizes, self.memory)

    def rows_of(self, tensor: TensorMap) -> int:
        """Rows of the matrix behind a map."""
        return evaluate(tensor.rows, self.sizes)

    def phase(self, cta: int, array: str, index: int) -> Phase:
        """An mbarrier."""
        key = cta, array, index
        found = self.phases.get(key)
        if found is None:
            found = self.phases[key] = Phase(0, self.awaited[array])
        return found

    def arrive(self, cta: int, array: str, index: int, arrivals: int, bytes: int = 0) -> None:
        """Arrivals at an mbarrier; ``bytes`` are announced, or, if negative, have landed."""
        phase = self.phase(cta, array, index)
        phase.arrivals -= arrivals
        phase.bytes += bytes
        if not phase.arrivals and not phase.bytes:
            phase.done, phase.arrivals = phase.done + 1, self.awaited[array]

    def meeting(self, at: Met) -> Meeting:
        """A barrier that warps meet at."""
        found = self.meetings.get(at)
        if found is None:
            found = self.meetings[at] = Meeting()
        return found

    def meet(self, w: Walker, at: Met, threads: int, whole: int) -> bool:
        """Whether ``whole`` threads have met, of whom a walker brings some once."""
        meeting = self.meeting(at)
        if w.joined is None:
            w.joined = meeting.done
            meeting.come(threads, whole)
        if meeting.done == w.joined:
            return False
        w.joined = None
        return True

    def place(self, number: int, rank: int) -> Env:
        """Where the CTA of a rank is, of the cluster of a number, of which x is the fastest."""
        rest, x = divmod(number, self.grid // self.kernel.cluster)
        z, y = divmod(rest, self.rows)
        return {"%ctaid.x": x * self.kernel.cluster + rank, "%ctaid.y": y, "%ctaid.z": z}

    def peer(self, cta: int, rank: int) -> int:
        """Another CTA of the cluster."""
        return cta // self.kernel.cluster * self.kernel.cluster + rank

    def shape(self, name: str) -> tuple[int, int]:
        """Lines and columns of a stage of a buffer."""
        buffer = self.buffers[name]
        lines = buffer.lines if isinstance(buffer, SharedBuffer) else buffer.rows
        return lines, buffer.cols

    def touch(self, name: str, stage: int, *spans: tuple[int, int]) -> None:
        """Note an access to lines and columns of a stage, each from where on how many, that the
        buffer does not have.
        """
        reached = ((stage, 1), *spans)
        if (name, reached) in self.within:
            return
        held = (self.buffers[name].stages, *self.shape(name))
        if any(a < 0 or a + n > most for (a, n), most in zip(reached, held, strict=True)):
            said = ", ".join(f"{a} .. {a + n}" for a, n in spans)
            self.flow.wrong.append(f"{said} of {name}[{stage}] lie outside of it")
        else:
            self.within.add((name, reached))

    def word(self, name: str, at: tuple[int, ...]) -> None:
        """The same of a word, with its stage."""
        if (name, at) not in self.reached:
            self.touch(name, at[0], *((x, 1) for x in (0, *at[1:])[-2:]))
            self.reached.add((name, at))

    def barrier(self, array: str, index: int) -> None:
        """Note a named barrier that there is not."""
        if not 0 <= index < self.named[array]:
            self.flow.wrong.append(f"there is no {array}[{index}]")

    def masked(self, cta: int, mask: Sequence[int]) -> list[int]:
        """The CTAs of the cluster in a mask; without one the CTA itself."""
        if not mask:
            return [cta]
        return [self.peer(cta, r) for r in range(self.kernel.cluster) if mask[0] >> r & 1]


@dataclass(slots=True)
class Walker:
    """An agent of one CTA of a grid, on its way.

    Args:
        cta: its CTA; those of a cluster have numbers in a row.
        board: what all CTAs of the grid see.
        groups: warpgroups whose first warp it is.
        env: values of scalars and special registers, these as ``%name``.
        at: the step that comes next.
        joined: how often the meeting came about that it waits in, if it does.
        frags: what is in its registers.
        group: the number of the warpgroup that its first warp is of.
    """

    cta: int
    board: Board
    groups: int
    env: Env
    at: int = 0
    joined: int | None = None
    frags: dict[str, Tile] = field(default_factory=dict)
    group: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """A kind of statement that changes or awaits something.

    Args:
        asks: the expressions whose values it needs.
        does: with those values and the number of threads, whether it is over, or the names that
            it gives values.
    """

    asks: Callable[[Kernel, Any], tuple[Expr, ...]]
    does: Callable[[Any, Walker, int, list[int]], bool | Env]
