"""What warps hand to each other through shared memory by ordinary stores, and whether a barrier
orders it: a warp reads only what it knows to be stored, and overwrites only what it knows to be
read. Barriers share what warps know (``lowering.machine.order``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowering.kernel.tensors import SharedBuffer
from lowering.machine.errors import FaultError
from lowering.machine.fragment import Array
from lowering.machine.scheduler import Runnable

__all__ = ["Handed"]


@dataclass(slots=True, eq=False)
class Handed:
    """A buffer's elements: which store made each, and which load of each warp came last.

    Args:
        name: of the buffer and its CTA.
        buffer: its declaration.
        stores: number of the event that stored each element ``[stages, rows, cols]``, or 0.
        loads: number of the last load of each element, by warp, or 0.
    """

    name: str
    buffer: str
    stores: Array
    loads: Array

    @staticmethod
    def of(buffer: SharedBuffer, ctaid: int, warps: int) -> Handed:
        """Nothing yet, through a buffer of a CTA with so many warps."""
        shape = (buffer.stages, buffer.rows, buffer.cols)
        stores, loads = np.zeros(shape, np.int64), np.zeros((warps, *shape), np.int64)
        return Handed(f"{buffer.name} of CTA {ctaid}", buffer.name, stores, loads)

    def store(self, warp: Runnable, region: tuple[int, slice, slice]) -> None:
        """A warp overwrites a region; raises FaultError if another may still read it."""
        others = np.delete(self.loads, warp.index, 0)[(slice(None), *region)]
        if not self._known(warp, others):
            raise FaultError(
                f"{self.buffer} is overwritten, but no barrier orders that behind its last reading"
            )
        self.stores[region] = self._number(warp)

    def load(self, warp: Runnable, region: tuple[int, slice, slice]) -> None:
        """A warp reads a region; raises FaultError if it may not yet be stored."""
        stored = self.stores[region]
        if not stored.all():
            raise FaultError(f"{self.buffer} is read where nobody has stored")
        if not self._known(warp, stored):
            raise FaultError(f"{self.buffer} is read, but no barrier orders that behind the store")
        self.loads[warp.index][region] = self._number(warp)

    def _number(self, warp: Runnable) -> int:
        assert warp.stmt is not None
        number = warp.scheduler.events.add(warp, warp.stmt)
        warp.known.did(1 << number, warp.elected)
        return number

    def _known(self, warp: Runnable, numbers: Array) -> bool:
        known = warp.known.before(warp.elected)
        return all(known >> n & 1 for n in np.unique(numbers).tolist() if n)
