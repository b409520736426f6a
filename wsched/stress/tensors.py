"""Tensors with poison around them: whoever reads there computes NaN, whoever writes is found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wsched.stress.epilogue import LARGEST
from wsched.stress.form import Form, Sizes

if TYPE_CHECKING:
    import torch

__all__ = ["Operands", "Poisoned", "operands", "poisoned"]

_AROUND = 512
"""Elements of poison in front of a tensor and behind it."""

_NONZEROS = 40
"""Expected elements of a row of A that are not 0: sums stay below 256, exact in every type."""


@dataclass(frozen=True, slots=True)
class Poisoned:
    """A tensor of NaN within memory of NaN.

    Args:
        whole: all of the memory, one dimension.
        tensor: what is within.
    """

    whole: torch.Tensor
    tensor: torch.Tensor

    def intact(self) -> torch.Tensor:
        """Whether all around the tensor is as it was: a bool on the device. The tensor is lost."""
        self.tensor.fill_(float("nan"))
        return self.whole.isnan().all()


def poisoned(shape: tuple[int, ...], padding: int, dtype: str, device: str) -> Poisoned:
    """A tensor whose rows have ``padding`` elements of poison behind them."""
    import torch

    kind = {"BFloat16": torch.bfloat16, "Half": torch.float16, "Float": torch.float32}[dtype]
    *outer, cols = shape or (1,)
    pitch, strides = cols + padding, [1]
    for n in (*outer[1:][::-1], 1)[: len(outer)]:
        strides.insert(0, pitch)
        pitch *= n
    rows = 1
    for n in outer:
        rows *= n
    count = rows * (cols + padding)
    whole = torch.full((2 * _AROUND + count,), float("nan"), dtype=kind, device=device)
    return Poisoned(whole, whole.as_strided(shape, strides if shape else (), _AROUND))


@dataclass(frozen=True, slots=True)
class Operands:
    """What a launch reads.

    Args:
        inputs: in the order of the definition.
        product: A times B transposed, in fp32.
        given: the epilogue's inputs by name.
    """

    inputs: list[torch.Tensor]
    product: torch.Tensor
    given: dict[str, torch.Tensor]


def operands(form: Form, sizes: Sizes, seed: int, device: str) -> Operands:
    """Integers, with NaN around them; the same for a seed and a device."""
    import torch

    generator = torch.Generator(device).manual_seed(seed)
    batch = (sizes.batch,) if form.batched else ()

    def matrix(rows: int, by_rows: bool) -> Any:
        shape = (*batch, rows, sizes.k) if by_rows else (*batch, sizes.k, rows)
        made = poisoned(shape, sizes.padding, form.operand, device).tensor
        return made if by_rows else made.mT

    a, b = matrix(sizes.m, form.a_by_rows), matrix(sizes.n, form.b_by_rows)
    a.bernoulli_(min(1.0, _NONZEROS / sizes.k), generator=generator)
    _fill(b, generator)
    given = {}
    for g in form.epilogue.given:
        padding = sizes.padding if g.kind == "matrix" else 0
        shape = g.shape((*batch, sizes.m, sizes.n))
        given[g.name] = _fill(poisoned(shape, padding, g.dtype, device).tensor, generator)
    return Operands([a, b, *given.values()], a.float() @ b.float().mT, given)


def _fill(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Integers of small magnitude."""
    return tensor.random_(-LARGEST, LARGEST + 1, generator=generator)
