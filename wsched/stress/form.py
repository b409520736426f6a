"""What a kernel of a stress run computes, whatever its family: a definition of open sizes."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import exp, log
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

__all__ = ["Asked", "Form", "Sizes", "Wanted", "definition", "drawn_size", "tensor_text"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of one launch.

    Args:
        batch: matrices, or groups; 1 of a form without a batch.
        m, n, k: of each; M is that of all groups.
        padding: elements behind each row of every matrix.
    """

    batch: int
    m: int
    n: int
    k: int
    padding: int

    def __str__(self) -> str:
        batch = f"{self.batch} x " if self.batch > 1 else ""
        return f"{batch}{self.m}x{self.n}x{self.k}, rows {self.padding} elements apart"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A result of a launch.

    Args:
        value: in fp32, not rounded to its type.
        dtype: nvFuser's name of its type.
        padding: elements behind each of its rows.
    """

    value: torch.Tensor
    dtype: str
    padding: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """A launch.

    Args:
        inputs: in the order of the definition.
        wanted: its results.
    """

    inputs: list[torch.Tensor]
    wanted: list[Wanted]


class Form(Protocol):
    """A definition whose sizes are open, what it is run on and what it comes to.

    Attributes:
        aligned: whether all rows begin at multiples of 16 bytes.
    """

    @property
    def aligned(self) -> bool:
        """Whether all rows begin at multiples of 16 bytes."""

    @property
    def text(self) -> str:
        """The definition as nvFuser prints one."""

    def sizes(self, rng: random.Random, largest: int) -> Sizes:
        """Sizes of a launch, no dimension above ``largest``."""

    def asked(self, sizes: Sizes, seed: int, device: str) -> Asked:
        """Inputs with poison around them, the same for a seed and a device, and the results."""


def drawn_size(rng: random.Random, largest: int, step: int = 1) -> int:
    """A size up to ``largest``, all lengths of a number alike; a third just beside a multiple of
    64. Rounded up to a multiple of ``step``.
    """
    found = round(exp(rng.uniform(0, log(largest))))
    if rng.random() < 1 / 3:
        found = 64 * max(1, round(found / 64)) + rng.choice((-8, -1, 0, 1, 8))
    found = min(max(found, 1), largest)
    return step * -(-found // step)


def tensor_text(shape: tuple[int, ...], dtype: str) -> str:
    """A dense tensor of a definition, -1 where its size is open."""
    dense = [None if n == 1 else True for n in shape]
    return (
        f"fd.define_tensor(shape={list(shape)}, contiguity={dense}, dtype=DataType.{dtype}, "
        "is_cpu=False)"
    )


def definition(*lines: str) -> str:
    """The text of a definition."""
    body = "".join(f"    {line}\n" for line in lines)
    return f"def nvfuser_fusion(fd : FusionDefinition) -> None :\n{body}"
