"""Rows of 16 bits by weights of 8 or 4, with scales of groups of K or of all of it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from wsched.fusion import DataType
from wsched.stress.form import Asked, Sizes, Wanted, drawn_size
from wsched.stress.tensors import filled, matrix, poisoned, sparse

if TYPE_CHECKING:
    import torch

__all__ = ["NARROW", "Weights", "drawn_weights"]

NARROW = ("Int8", "UInt8", "Float8_e4m3fn", "Float8_e5m2", "UInt4")
"""Types of weights; of the last one eight are in a word."""

_WORD = 8
_LARGEST = 15
"""Of integers in words."""


@dataclass(frozen=True, slots=True)
class Weights:
    """``wsched.linear``.

    Args:
        operand: nvFuser's type of the rows.
        weights: of the weights.
        group: K that each of the scales is for; 0 of scales of all of K.
        zero: of what each has a zero point: of ``columns``, of ``groups``, or "" of nothing.
        by_groups: whether numbers of groups lie side by side for all rows; else those of a row do.
    """

    operand: str
    weights: str
    group: int = 0
    zero: Literal["", "columns", "groups"] = ""
    by_groups: bool = True
    aligned: bool = True

    def _call(self, *given: Any) -> tuple[str, list[Any]]:
        from wsched.front.linear import linear_call

        x, w, scale, zero = given
        text, inputs = linear_call(x, w, scale, zero, group=self.group or None)
        return str(text), [*inputs]

    @property
    def text(self) -> str:
        """The definition as nvFuser prints one."""
        return self._call(*self._inputs(Sizes(1, 8, 8, 256, 0), 0, "cpu")[:4])[0]

    def sizes(self, rng: random.Random, largest: int) -> Sizes:
        """Rows of 16 bytes: K is a multiple of 32, mostly none of a group."""
        m, n = (drawn_size(rng, largest, 8) for _ in range(2))
        return Sizes(1, m, n, drawn_size(rng, largest, 32), rng.choice((0, 0, 16, 64)))

    def asked(self, sizes: Sizes, seed: int, device: str) -> Asked:
        """Integers times powers of two, with poison around them."""
        x, w, scale, zero, wide = self._inputs(sizes, seed, device)
        _, inputs = self._call(x, w, scale, zero)
        if zero is not None:
            wide = wide - (self._each(zero, sizes) if self.zero == "groups" else zero[:, None])
        made = x.float() @ (wide * self._each(scale, sizes) if self.group else wide).T
        return Asked(inputs, [Wanted(made if self.group else made * scale, self.operand,
                                     sizes.padding)])  # fmt: skip

    def _each(self, numbers: torch.Tensor, sizes: Sizes) -> torch.Tensor:
        """Those of groups for each element of a row."""
        return numbers.repeat_interleave(self.group, 1)[:, : sizes.k]

    def _inputs(self, sizes: Sizes, seed: int, device: str) -> tuple[Any, ...]:
        """Rows, weights, scales, zero points or None, and the weights in fp32."""
        import torch

        generator = torch.Generator(device).manual_seed(seed)
        x = matrix((sizes.m, sizes.k), True, sizes.padding, self.operand, device)
        sparse(x, sizes.k, generator)
        w, wide = self._weights(sizes, generator, device)
        scale = self._numbers(sizes, self.group > 0, device)
        scale.random_(-2, 3, generator=generator).exp2_()
        zero = self._numbers(sizes, self.zero == "groups", device) if self.zero else None
        return x, w, scale, zero if zero is None else filled(zero, generator), wide

    def _numbers(self, sizes: Sizes, of_groups: bool, device: str) -> torch.Tensor:
        """Poison for numbers of columns, or of groups."""
        if not of_groups:
            return poisoned((sizes.n,), 0, "Float", device).tensor
        shape = sizes.n, -(-sizes.k // self.group)
        return matrix(shape, not self.by_groups, sizes.padding, "Float", device)

    def _weights(
        self, sizes: Sizes, generator: torch.Generator, device: str
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The tensor that is passed, and its elements in fp32."""
        import torch

        wide = torch.empty(sizes.n, sizes.k, device=device)
        if self.weights == DataType.UInt4.name:
            wide.random_(0, _LARGEST + 1, generator=generator)
            words = matrix((sizes.n, sizes.k // _WORD), True, sizes.padding, "Int32", device)
            shifts = 4 * torch.arange(_WORD, device=device)
            each = wide.view(sizes.n, -1, _WORD).long() << shifts
            return words.copy_(each.sum(-1).to(torch.int32)), wide
        filled(wide, generator)
        wide = wide.abs() if self.weights == DataType.UInt8.name else wide
        w = matrix((sizes.n, sizes.k), True, sizes.padding, self.weights, device)
        return w.copy_(wide), wide


def drawn_weights(rng: random.Random) -> Weights:
    """Two in three have scales of groups."""
    group = rng.choice((0, 32, 64, 128, 32, 64, 128))
    operand, weights = rng.choice(("BFloat16", "Half")), rng.choice(NARROW)
    zero: Literal["", "columns", "groups"] = rng.choice(("", "", "columns", "groups"))
    if zero == "groups" and not group:
        zero = "columns"
    return Weights(operand, weights, group, zero, rng.random() < 0.8)
