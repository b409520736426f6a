"""What has become of calls: a line for each definition and class of inputs, kept for the report."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.locks import Lock
from lowering.ground.log import log
from wsched.choose.nvfuser_cost import NvfuserCost
from wsched.front.cut.predict import SegmentsCost
from wsched.front.cut.segments import Segment
from wsched.front.cut.shares import Share

__all__ = ["LEDGER", "Ledger", "Tally"]

LINES = 4096
"""Lines that are kept; what comes after the last one is counted in one that says no more."""


@dataclass(eq=False, slots=True)
class Tally:
    """Calls of a definition with inputs of a class.

    Args:
        name: of the definition: its operations, as few words as tell it.
        reason: why nvFuser runs it all; empty if wsched takes a part.
        shares: its matmuls; empty where their sizes are not known.
        cost: predicted of wsched's segments; None where nothing was predicted.
        nvfuser: predicted of nvFuser's own route.
        calls: how many.
        segments: how it is cut, in the order in which they run; empty if it is not taken.
    """

    name: str
    reason: str
    shares: tuple[Share, ...] = ()
    cost: SegmentsCost | None = None
    nvfuser: NvfuserCost | None = None
    calls: int = 0
    segments: tuple[Segment, ...] = ()

    @property
    def saved_us(self) -> float:
        """Predicted microseconds that all calls together took less; 0 of what is not taken."""
        if self.reason or self.cost is None or self.nvfuser is None:
            return 0.0
        return self.calls * (self.nvfuser.us - self.cost.us)

    def told(self) -> str:
        """What has been decided, in a line."""
        if self.reason:
            return f"{self.name}: nvFuser runs it: {self.reason}"
        own = sum(s.matmul for s in self.segments)
        predicted = ""
        if self.cost is not None and self.nvfuser is not None:
            predicted = f", predicted {self.cost.us:.1f} us, nvFuser {self.nvfuser.us:.1f} us"
        return f"{self.name}: {own} kernels of wsched's in {len(self.segments)} parts{predicted}"


class Ledger:
    """The lines of a process, in the order of their first calls.

    A call adds one to the line that it has at hand; two threads that do so at once may lose one.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._lines: list[Tally] = []
        self._more = Tally("further definitions and classes of inputs", "not kept apart")

    def line(self, tally: Tally, calls: int) -> Tally:
        """Keep a line and count calls in it; the one to count further ones in."""
        log("call of nvFuser's", tally.told)
        with self._lock:
            if len(self._lines) >= LINES:
                tally = self._more
            else:
                self._lines.append(tally)
            tally.calls += calls
        return tally

    def lines(self) -> tuple[Tally, ...]:
        """All that have been called."""
        with self._lock:
            return tuple(t for t in (*self._lines, self._more) if t.calls)

    def clear(self) -> None:
        """Begin to count anew; definitions that have been called are counted on."""
        with self._lock:
            for tally in (*self._lines, self._more):
                tally.calls = 0


LEDGER = Ledger()
"""The process'."""
