"""Tensor maps on the machine: who may use a descriptor that changes, and what it says."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowering.machine.errors import FaultError
from lowering.machine.fragment import Array
from lowering.machine.scheduler import Runnable
from lowering.machine.tensors import MappedArray

__all__ = ["Descriptor"]


@dataclass(slots=True, eq=False)
class Descriptor:
    """A descriptor, which may be in device memory and change there.

    ``memory`` is the tensor from the descriptor's address on, ``sizes`` are what it says of it.
    ``version`` counts changes; ``changed`` has those that a warp has not released, ``released`` is
    the last one that was, ``acquired`` what each warp sees. ``flying`` copies read it.
    """

    name: str
    tensor: MappedArray
    memory: Array
    sizes: list[int]
    version: int = 0
    released: int = 0
    changed: dict[Runnable, int] = field(default_factory=dict)
    acquired: dict[Runnable, int] = field(default_factory=dict)
    flying: int = 0

    @staticmethod
    def of(name: str, tensor: MappedArray) -> Descriptor:
        """The descriptor of a tensor, as it is when the kernel starts."""
        return Descriptor(name, tensor, tensor.raw, list(tensor.raw.shape))

    def use(self, warp: Runnable) -> MappedArray:
        """The tensor, for a copy; raises FaultError if the warp does not see what it is now."""
        if not self.tensor.map.device:
            return self.tensor
        if self.acquired.get(warp) != self.version:
            since = "it changed" if self.version else "the kernel began"
            raise FaultError(
                f"{self.name} is in device memory, and the warp has not acquired it since {since}"
            )
        return self.tensor

    def change(self, warp: Runnable) -> None:
        """Note a change; raises FaultError while a copy reads the descriptor."""
        if self.flying:
            raise FaultError(f"{self.name} is changed while a copy uses it")
        self.version += 1
        self.changed[warp] = self.version

    def acquire(self, warp: Runnable) -> None:
        """``fence.proxy.tensormap`` with acquire; raises FaultError if the map says nonsense."""
        self.acquired[warp] = self.released
        if any(n > there for n, there in zip(self.sizes, self.memory.shape, strict=True)):
            said, there = ("x".join(map(str, s)) for s in (self.sizes, self.memory.shape))
            raise FaultError(f"{self.name} is {said} where there are {there} elements")
        self.tensor.raw = self.memory[tuple(slice(n) for n in self.sizes)]
