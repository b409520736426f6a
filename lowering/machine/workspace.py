"""What CTAs share in global memory beside tensors: counters, and slots for partial results."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lowering.ground.errors import InternalError
from lowering.kernel.kernel import CounterArray
from lowering.machine.errors import FaultError, MachineError
from lowering.machine.fragment import Array
from lowering.machine.scheduler import Resource, Runnable

__all__ = ["Counters", "Slots", "counters_of"]


@dataclass(slots=True, eq=False)
class Counters(Resource):
    """An array of counters; whoever changes one wakes all that wait for one.

    ``known`` are the events that were released at each.
    """

    name: str
    words: Array
    known: dict[int, int] = field(default_factory=dict)

    def check_left(self, kernel: str) -> None:
        """Raise MachineError unless the grid leaves zeros, which the next one relies on."""
        left = np.flatnonzero(self.words)
        if left.size:
            at = int(left[0])
            why = f"the grid leaves {self.name}[{at}] = {self.words[at]}, not 0"
            raise MachineError(kernel, why, "")


def counters_of(declared: CounterArray, count: int, array: Array | None) -> Counters:
    """The counters behind a declaration; new ones where the run is given none.

    Raises:
        InternalError: ``array`` is not int32 of ``count`` words.
    """
    array = np.zeros(count, np.int32) if array is None else array
    if array.shape != (count,) or array.dtype != np.int32:
        found = f"{array.dtype.name} {list(array.shape)}"
        raise InternalError("machine", f"{declared.name} is {found}, not int32 [{count}]")
    return Counters(declared.name, array)


@dataclass(slots=True, eq=False)
class Slots:
    """The slots of a workspace: by slot and warp of the warpgroup, the event that stored and what.

    Args:
        name: of the workspace.
        count: slots that it has.
    """

    name: str
    count: int
    stored: dict[tuple[int, int], tuple[int, Array]] = field(default_factory=dict)

    def key(self, index: int, warp: Runnable) -> tuple[int, int]:
        """Where a warp stores and loads; raises FaultError out of bounds."""
        if not 0 <= index < self.count:
            raise FaultError(f"{self.name}[{index}] lies outside {self.name}[{self.count}]")
        return index, warp.index % 4
