"""Memory that torch hands out with a band of poison around each tensor: who writes beside one is
found, whatever route made it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Guarded", "guarded"]

BAND = 512
"""Bytes of poison in front of a tensor and behind it: the alignment that torch's allocator has."""

POISON = 0xA5


class Guarded(TorchDispatchMode):
    """Puts bands around what is made empty; those of the tensors that are alive, and of the others,
    are looked at together.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bands: list[torch.Tensor] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        aten = torch.ops.aten
        empty = (aten.empty.memory_format, aten.empty_strided.default, aten.empty_like.default)
        if func not in empty or made.device.type == "meta" or not made.numel():
            return made
        return self._banded(made)

    def _banded(self, made: torch.Tensor) -> torch.Tensor:
        """A tensor like the one that was made, within memory of its own."""
        size = made.element_size()
        last = sum((n - 1) * s for n, s in zip(made.shape, made.stride(), strict=True)) + 1
        count = -(-last * size // BAND) * BAND
        whole = torch.full((2 * BAND + count,), POISON, dtype=torch.uint8, device=made.device)
        self.bands += [whole[:BAND], whole[BAND + last * size :]]
        inside = whole[BAND : BAND + count].view(made.dtype)
        return inside.as_strided(made.shape, made.stride())

    def intact(self) -> bool:
        """Whether all bands are as they were."""
        return all(bool((band == POISON).all()) for band in self.bands)


@contextmanager
def guarded() -> Iterator[Guarded]:
    """All that is made empty meanwhile has bands around it."""
    with Guarded() as found:
        yield found
