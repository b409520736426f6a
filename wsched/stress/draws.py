"""Which form a kernel of a stress run has."""

from __future__ import annotations

import random
from collections.abc import Callable

from wsched.stress.families import Eight, Gated, Grouped, Listed, Reduced
from wsched.stress.form import Form
from wsched.stress.linear import drawn_linear

__all__ = ["drawn_form"]

_OPERANDS = ("BFloat16", "Half")

_FAMILIES: tuple[Callable[[random.Random], Form], ...] = (
    lambda rng: Listed(rng.choice(_OPERANDS), rng.randint(2, 3)),
    lambda rng: Gated(rng.choice(_OPERANDS), rng.choice(("silu", "relu", "sigmoid"))),
    lambda rng: Reduced(
        rng.choice(_OPERANDS), rng.choice(("sum", "max", "min")), rng.randint(0, 1)
    ),
    lambda rng: Eight(rng.random() < 0.5),
    lambda rng: Grouped(rng.choice(_OPERANDS)),
)

_OTHER = 0.4
"""Share of the forms that are of a family of their own."""


def drawn_form(rng: random.Random) -> Form:
    """A product of two matrices with a random epilogue, or one of another family."""
    if rng.random() >= _OTHER:
        return drawn_linear(rng)
    return rng.choice(_FAMILIES)(rng)
