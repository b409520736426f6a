"""What is computed: sizes, element type and layout of a matmul."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lowering.ground.errors import UnsupportedError

__all__ = ["ANCHORS", "DTYPES", "LAYOUTS", "Problem", "Shape", "definition_text", "parse_shapes"]

DTYPES = {"bf16": "BFloat16", "fp16": "Half"}
"""Element type of operands and result: name on the command line -> ``nvfuser_direct.DataType``."""

LAYOUTS = ("tn", "nt", "nn", "tt")
"""BLAS letters of A and B: A is K-major for ``t``, M-major for ``n``; B K-major for ``n``."""

# Largest relative Frobenius error against fp32. Rounding the result changes an element by at most
# half a unit in the last place, 2^-8 of it in bf16 and 2^-11 in fp16, and the whole by about
# 0.42 of that: 1.7e-3 and 2.1e-4. The rest is room for the order of summation.
_TOLERANCE = {"bf16": 4e-3, "fp16": 6e-4}


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """Sizes of ``D[M, N] = A[M, K] · B[N, K]ᵀ``."""

    m: int
    n: int
    k: int

    @property
    def flops(self) -> int:
        """Floating-point operations: a multiply and an add per (m, n, k)."""
        return 2 * self.m * self.n * self.k

    @property
    def bytes(self) -> int:
        """Bytes of A, B and D with 16-bit elements."""
        return 2 * (self.m * self.k + self.n * self.k + self.m * self.n)

    def tflops(self, microseconds: float) -> float:
        """TFLOP/s of one matmul that took this long."""
        return self.flops / microseconds / 1e6

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"


ANCHORS = (
    Shape(8192, 8192, 8192),
    Shape(4096, 4096, 4096),
    Shape(4096, 14336, 5120),
    Shape(8192, 28672, 4096),
    Shape(2048, 2048, 2048),
    Shape(4096, 3584, 512),
    Shape(16384, 2048, 7168),
    Shape(512, 8192, 8192),
)
"""The shapes of the performance figures: square, of language models, small K, few tiles."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A matmul; ``dtype`` is a key of :data:`DTYPES`, ``layout`` one of :data:`LAYOUTS`."""

    shape: Shape
    dtype: str = "bf16"
    layout: str = "tn"

    @property
    def a_k_major(self) -> bool:
        """Whether K is the innermost dimension of A in memory."""
        return self.layout[0] == "t"

    @property
    def b_k_major(self) -> bool:
        """Whether K is the innermost dimension of B in memory."""
        return self.layout[1] == "n"

    @property
    def tolerance(self) -> float:
        """Largest relative Frobenius error against fp32 that passes."""
        return _TOLERANCE[self.dtype]


def parse_shapes(text: str) -> tuple[Shape, ...]:
    """Parse ``8192x8192x8192,4096x3584x512``; the word ``anchors`` stands for :data:`ANCHORS`.

    A shape that comes twice is kept once.

    Raises:
        UnsupportedError: a word that is no shape, a size of 0, or no shape at all.
    """
    shapes: list[Shape] = []
    for word in filter(None, (w.strip() for w in text.split(","))):
        if word == "anchors":
            shapes += ANCHORS
            continue
        match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)x([1-9]\d*)", word)
        if match is None:
            raise UnsupportedError(f"the shape {word!r}", "MxNxK, for example 4096x3584x512")
        shapes.append(Shape(*(int(size) for size in match.groups())))
    if not shapes:
        raise UnsupportedError("an empty list of shapes", "MxNxK,... or anchors")
    return tuple(dict.fromkeys(shapes))


def definition_text(problem: Problem) -> str:
    """Return the problem as the text of an nvFuser definition; sizes stay symbolic.

    An operand that is not K-major is the same [M, K] or [N, K] tensor with the other stride order.
    """
    dtype = f"DataType.{DTYPES[problem.dtype]}"
    lines = ["def nvfuser_fusion(fd : FusionDefinition) -> None :"]
    for name, k_major in (("tv0", problem.a_k_major), ("tv1", problem.b_k_major)):
        order = "" if k_major else ", stride_order=[0, 1]"
        lines.append(
            f"    {name} = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], "
            f"dtype={dtype}, is_cpu=False{order})"
        )
    lines += ["    tv2 = fd.ops.linear(tv0, tv1)", "    fd.add_output(tv2)"]
    return "\n".join(lines) + "\n"
