"""Tensors with poison around them: whoever reads there computes NaN, whoever writes is found.

Poison is NaN, and of integers a number that nobody computes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wsched.fusion import DataType
from wsched.run.arguments import torch_dtype
from wsched.stress.epilogue import LARGEST

if TYPE_CHECKING:
    import torch

__all__ = ["Poisoned", "filled", "matrix", "poison_in", "poisoned", "sparse"]

_AROUND = 512
"""Elements of poison in front of a tensor and behind it."""

NONZEROS = 40
"""Expected elements of a row of A that are not 0: sums stay below 256, exact in every type."""


_INTEGERS = {1: 113, 4: 1_000_003}
"""Poison of integers, by their bytes: no sum of a launch comes near the larger one."""


@dataclass(frozen=True, slots=True)
class Poisoned:
    """A tensor of poison within memory of poison.

    Args:
        whole: all of the memory, one dimension.
        tensor: what is within.
    """

    whole: torch.Tensor
    tensor: torch.Tensor

    def intact(self) -> torch.Tensor:
        """Whether all around the tensor is as it was: a bool on the device. The tensor is lost."""
        self.tensor.fill_(_poison(self.whole))
        return poison_in(self.whole).all()


def _poison(tensor: torch.Tensor) -> float:
    return float("nan") if tensor.is_floating_point() else _INTEGERS[tensor.element_size()]


def poison_in(tensor: torch.Tensor) -> torch.Tensor:
    """Which elements are poison."""
    return tensor.isnan() if tensor.is_floating_point() else tensor == _poison(tensor)


def poisoned(shape: tuple[int, ...], padding: int, dtype: str, device: str) -> Poisoned:
    """A tensor whose rows have ``padding`` elements of poison behind them."""
    import torch

    kind = torch_dtype(DataType[dtype])
    *outer, cols = shape or (1,)
    pitch, strides = cols + padding, [1]
    for n in (*outer[1:][::-1], 1)[: len(outer)]:
        strides.insert(0, pitch)
        pitch *= n
    rows = 1
    for n in outer:
        rows *= n
    count = rows * (cols + padding)
    whole = torch.empty(2 * _AROUND + count, dtype=kind, device=device)
    whole.fill_(_poison(whole))
    return Poisoned(whole, whole.as_strided(shape, strides if shape else (), _AROUND))


def matrix(
    shape: tuple[int, ...], by_rows: bool, padding: int, dtype: str, device: str
) -> torch.Tensor:
    """A matrix, or several, whose rows lie in memory, or its columns, ``padding`` apart."""
    *batch, rows, cols = shape
    if by_rows:
        return poisoned(shape, padding, dtype, device).tensor
    return poisoned((*batch, cols, rows), padding, dtype, device).tensor.mT


def sparse(
    tensor: torch.Tensor, k: int, generator: torch.Generator, ones: int = NONZEROS
) -> torch.Tensor:
    """Zeros and ones, so many in a row to be expected: sums over K stay small."""
    return _set(tensor, lambda t: t.bernoulli_(min(1.0, ones / k), generator=generator))


def filled(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Integers of small magnitude."""
    return _set(tensor, lambda t: t.random_(-LARGEST, LARGEST + 1, generator=generator))


def _set(tensor: torch.Tensor, draw: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    import torch

    if tensor.element_size() > 1:
        return draw(tensor)
    return tensor.copy_(draw(torch.empty(tensor.shape, device=tensor.device)))
