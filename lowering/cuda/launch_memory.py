"""Device memory that a launch needs beside its tensors: counters and workspaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lowering.ground.errors import InternalError
from lowering.ground.expr import evaluate
from lowering.kernel.kernel import Kernel

__all__ = ["Allocate", "Needs"]

Allocate = Callable[[int, int, int, bool], Any]
"""``(stream, device, nbytes, zeroed)`` to a tensor for launches on that stream."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Bytes of each array of counters and of each workspace, for one set of parameters.

    Args:
        kernel: the kernel's name.
        counters: four bytes a counter; zeros at the start of each launch.
        workspaces: four bytes an element.
    """

    kernel: str
    counters: tuple[int, ...]
    workspaces: tuple[int, ...]

    @staticmethod
    def of(kernel: Kernel, values: dict[str, int]) -> Needs:
        """What a launch with these scalar parameters and ``ctas``, the CTAs along x, needs."""
        return Needs(
            kernel.name,
            tuple(4 * evaluate(c.count, values) for c in kernel.counters),
            tuple(4 * w.rows * w.cols * evaluate(w.count, values) for w in kernel.workspaces),
        )

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.counters) + sum(self.workspaces)

    def memory(self, allocate: Allocate | None, stream: int, device: int) -> tuple[Any, Any]:
        """Counters and workspaces of launches on a stream, None without any.

        Whoever launches holds them until the launch is in the stream.

        Raises:
            InternalError: nothing to ask for memory.
        """
        if allocate is None:
            raise InternalError("launch", f"{self.kernel} has counters, but no workspace")
        counters, slots = sum(self.counters), sum(self.workspaces)
        return (
            allocate(stream, device, counters, True) if counters else None,
            allocate(stream, device, slots, False) if slots else None,
        )

    def addresses(self, counters: int, workspaces: int) -> list[int]:
        """Of each array, one after the other from these two on."""
        return [
            start + sum(sizes[:i])
            for start, sizes in ((counters, self.counters), (workspaces, self.workspaces))
            for i in range(len(sizes))
        ]
