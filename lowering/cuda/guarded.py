"""Operations that take fewer instructions for most numbers.

A branch for each element costs as much as it saves, so one question for all of a thread's elements
decides which of two texts runs: the short one, or the one for any number. Results are the same to
the bit.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowering.cuda.trigonometry import FEW_TURNS
from lowering.kernel.nodes import FragPointwise

__all__ = ["Guarded", "guarded"]


@dataclass(frozen=True, slots=True)
class Guarded:
    """A shorter text of an operation.

    Args:
        holds: C++ that says for which elements it may be used.
        plain: the expression.
    """

    holds: str
    plain: str


_TURNS = {
    "sin": Guarded(FEW_TURNS, "sine_of_few_turns({x}, 0)"),
    "cos": Guarded(FEW_TURNS, "sine_of_few_turns({x}, 1)"),
}


def guarded(s: FragPointwise) -> Guarded | None:
    """The shorter text of an operation on fragments; None where it has none."""
    return _TURNS.get(s.op)
