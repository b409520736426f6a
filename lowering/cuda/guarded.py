"""Operations that take fewer instructions for most numbers.

A branch for each element costs as much as it saves, so one question for all of a thread's elements
decides which of two texts runs: the short one, or the one for any number. Results are the same to
the bit.

A quotient by a number that several elements share is rounded right by a product with its reciprocal
and two corrections, each from an exact remainder (Markstein, 1990), unless numbers are so large or
small that a step leaves fp32's normal numbers. So ``e / sum(e)`` of a softmax takes five operations
an element and a question of three; C++'s division takes fourteen, a call, and a reciprocal from a
unit of which there is one for eight others.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp

from lowering.cuda.trigonometry import FEW_TURNS
from lowering.kernel.nodes import Frag, FragPointwise

__all__ = ["Guarded", "guarded"]

_FEWEST = 8
"""Elements of a thread that share a divisor, so that its reciprocal pays."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """A shorter text of an operation.

    Args:
        holds: C++ that says for which elements it may be used.
        plain: the expression.
        functions: names and texts of the device functions that both call, beside the operation's.
    """

    holds: str
    plain: str
    functions: tuple[tuple[str, str], ...] = ()


_QUOTIENT = """\
// Whether quotient is x / y: no step of it leaves the normal numbers, or x is 0.
__device__ __forceinline__ bool divides(float x, float y) {
  const unsigned bits = 2u * __float_as_uint(x) - 1u;  // of 0 the largest number
  const bool whole = bits >= 0x1affffffu && fabsf(x) <= 0x1p100f;
  return whole && fabsf(y) >= 0x1p-20f && fabsf(y) <= 0x1p20f;
}"""

_BY_RECIPROCAL = """\
// x / y, with the reciprocal of y.
__device__ __forceinline__ float quotient(float x, float y, float reciprocal) {
  const float near = x * reciprocal;
  const float q = fmaf(fmaf(-near, y, x), reciprocal, near);
  return fmaf(fmaf(-q, y, x), reciprocal, q);
}"""

_DIVISION = Guarded(
    "divides({x}, {y})",
    "quotient({x}, {y}, 1.0f / {y})",
    (("divides", _QUOTIENT), ("quotient", _BY_RECIPROCAL)),
)

_TURNS = {
    "sin": Guarded(FEW_TURNS, "sine_of_few_turns({x}, 0)"),
    "cos": Guarded(FEW_TURNS, "sine_of_few_turns({x}, 1)"),
}


def guarded(s: FragPointwise) -> Guarded | None:
    """The shorter text of an operation on fragments; None where it has none."""
    if s.op == "div" and _is_shared(s):
        return _DIVISION
    return _TURNS.get(s.op)


def _is_shared(s: FragPointwise) -> bool:
    """Whether a divisor is the same for several elements of a thread's row."""
    kind, by = s.out.type, s.args[1]
    if kind.groups * kind.group[1] < _FEWEST:
        return False
    if isinstance(by, Frag):
        return by.type.cols == 1
    return abs(frexp(by)[0]) != 0.5  # by a power of two C++ multiplies
