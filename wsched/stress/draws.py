"""Which form a kernel of a stress run has."""

from __future__ import annotations

import random
from collections.abc import Callable

from wsched.stress.families import LARGEST, Eight, Gated, Grouped, Listed, Reduced, Rounded, Summed
from wsched.stress.form import Form
from wsched.stress.linear import drawn_linear
from wsched.stress.several import drawn_several
from wsched.stress.weights import drawn_weights

__all__ = ["drawn_form"]

_OPERANDS = ("BFloat16", "Half")

_FAMILIES: tuple[Callable[[random.Random], Form], ...] = (
    lambda rng: Listed(rng.choice(_OPERANDS), rng.randint(2, 3), rng.random() < 0.3),
    lambda rng: Gated(
        rng.choice(_OPERANDS), rng.choice(("silu", "relu", "sigmoid")), rng.random() < 0.3
    ),
    lambda rng: Reduced(
        rng.choice(_OPERANDS), rng.choice(("sum", "max", "min")), rng.randint(0, 1)
    ),
    lambda rng: Eight(rng.random() < 0.5),
    lambda rng: Grouped(rng.choice(_OPERANDS)),
    lambda rng: Rounded(
        rng.choice(_OPERANDS), rng.choice((*LARGEST,)), rng.choice((0.25, 12.5, 4096.0))
    ),
    lambda rng: Summed(rng.choice(_OPERANDS)),
    drawn_weights,
)

_OTHER, _SEVERAL = 0.35, 0.15
"""Share of the forms that are of a family of their own, and of definitions of several products."""


def drawn_form(rng: random.Random) -> Form:
    """A product of two matrices with a random epilogue, one of another family, or several."""
    way = rng.random()
    if way < _SEVERAL:
        return drawn_several(rng)
    if way < _SEVERAL + _OTHER:
        return rng.choice(_FAMILIES)(rng)
    return drawn_linear(rng)
