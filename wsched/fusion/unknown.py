"""Values that only the device knows, and what is assumed of them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Unknown"]


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that a kernel reads from memory and that stands in extents of loops; all threads of
    a grid read the same one.

    Args:
        name: what the extents call it.
        least: nothing below it is ever read.
        most: nothing above it.
        promise: who sees to that, in words.
    """

    name: str
    least: int
    most: int
    promise: str

    def __str__(self) -> str:
        return f"{self.least} <= {self.name} <= {self.most}: {self.promise}"
