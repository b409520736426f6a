"""Expressions between tensors: seven kinds, each with one output. Tensors are named, not held."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.frozen import replaced
from wsched.fusion.types import DataType, LoadStoreOpType

__all__ = [
    "BroadcastOp", "CastOp", "FusionExpr", "IndexOp", "LoadStoreOp", "MmaOp", "PointwiseOp",
    "ReductionOp", "Scale", "Scales", "inputs_of", "rewire",
]  # fmt: skip

# Operations that nvFuser prints between their operands.
_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "eq": "==", "ne": "!=", "logical_and": "&&", "logical_or": "||",
}  # fmt: skip
_PREFIX = {"neg": "-", "logical_not": "!"}


@dataclass(frozen=True, slots=True)
class BroadcastOp:
    """A view of ``input`` with new dimensions where ``flags`` is true; moves no data."""

    output: str
    input: str
    flags: tuple[bool, ...]

    def __str__(self) -> str:
        flags = ", ".join(str(f).lower() for f in self.flags)
        return f"broadcast({self.input}, flags = {{{flags}}})"


@dataclass(frozen=True, slots=True)
class Scale:
    """What blocks of an operand count times: a number for each ``promotion`` of K of its product
    and each ``rows`` of the rows that it has there.

    ``tensor`` is an input of fp32, or of 16 bits, [K blocks, rows] of single rows and
    [row blocks, K blocks] of blocks of several: what a step of the main loop reads of it lies side
    by side. ``zero`` is another one, or "": numbers that are taken from the operand's elements
    first, which is rounded to the operand's type.
    """

    tensor: str
    rows: int
    zero: str = ""

    def __str__(self) -> str:
        behind = f" behind zero points {self.zero}" if self.zero else ""
        return f"{self.tensor} of {self.rows}{behind}"

    @property
    def tensors(self) -> tuple[str, ...]:
        """The inputs."""
        return (self.tensor, self.zero) if self.zero else (self.tensor,)


Scales = tuple[Scale | None, Scale | None]
"""Of A and of B; None of one whose blocks count as they are."""


@dataclass(frozen=True, slots=True)
class MmaOp:
    """``output[m, n] = sum over k of a[m, 1, k] * b[1, n, k]``, in the output's type.

    ``promotion`` is the K after which what the instruction has summed is added to a second
    accumulator, for types that it adds with fewer bits than the output has; 0 for never. With
    ``scales``, of A and of B or of one of them, that counts times these.
    """

    output: str
    a: str
    b: str
    promotion: int = 0
    scales: Scales | None = None

    def __str__(self) -> str:
        promotion = f", promotion = {self.promotion}" if self.promotion else ""
        found = () if self.scales is None else (str(s or "none") for s in self.scales)
        scales = f", scales = {{{', '.join(found)}}}" if self.scales else ""
        return f"mma({self.a}, {self.b}{promotion}{scales})"


@dataclass(frozen=True, slots=True)
class CastOp:
    """``input`` rounded to the output's type, to nearest even; a Bool becomes 0 or 1."""

    output: str
    input: str

    def __str__(self) -> str:
        return f"cast({self.input})"


@dataclass(frozen=True, slots=True)
class LoadStoreOp:
    """A copy of ``input`` between memories."""

    output: str
    input: str
    op: LoadStoreOpType

    def __str__(self) -> str:
        return f"{self.op}({self.input})"


@dataclass(frozen=True, slots=True)
class PointwiseOp:
    """``output = op(inputs)``, element by element, broadcast dimensions repeated.

    ``op`` is a key of ``lowering.kernel.pointwise.OPS``. Inputs are tensors and numbers. It is
    computed in fp32 whatever the types of the tensors, and the result rounded to the output's type.
    """

    output: str
    op: str
    inputs: tuple[str | float, ...]

    def __str__(self) -> str:
        texts = [x if isinstance(x, str) else f"double({x:.17g})" for x in self.inputs]
        if self.op in _INFIX:
            return f" {_INFIX[self.op]} ".join(texts)
        if self.op in _PREFIX:
            return f"{_PREFIX[self.op]}{texts[0]}"
        return f"{self.op}({', '.join(texts)})"


@dataclass(frozen=True, slots=True)
class IndexOp:
    """``output`` is whether the sum of an element's indices, each times its factor, is below
    ``limit``: what comparisons of nvFuser's ``iota`` come to. Whole numbers without bounds.

    Args:
        output: of Bool; repeated along dimensions whose factor is 0.
        factors: of the dimensions of the output, outermost first.
        limit: that the sum is compared with.
    """

    output: str
    factors: tuple[int, ...]
    limit: int

    def __str__(self) -> str:
        return f"index(factors = {{{', '.join(map(str, self.factors))}}}) < {self.limit}"


@dataclass(frozen=True, slots=True)
class ReductionOp:
    """``output`` is ``op`` over those dimensions of ``input`` that the output's are reductions of.

    ``op`` is ``sum``, ``max`` or ``min``. It is computed in fp32, whatever the types of the
    tensors, and the result rounded to the output's type; ``max`` and ``min`` are NaN if an element
    is. Of no elements it is 0, -inf or inf.

    ``rounded`` is a type of 16 bits that each element counts as rounded to, of ``max`` and ``min``
    alone: to round is monotone, so that what all of them come to is rounded in place of each. The
    parts that ``rfactor`` makes are not; whoever puts them together rounds.
    """

    output: str
    input: str
    op: str
    rounded: DataType | None = None

    def __str__(self) -> str:
        rounded = f", rounded = {self.rounded}" if self.rounded else ""
        return f"reduction({self.input}, op = {self.op}{rounded})"


FusionExpr = BroadcastOp | MmaOp | CastOp | LoadStoreOp | PointwiseOp | IndexOp | ReductionOp


def inputs_of(e: FusionExpr) -> tuple[str, ...]:
    """Names of the tensors that ``e`` is computed from, each once; scales are no operands."""
    if isinstance(e, MmaOp):
        return (e.a, e.b)
    if isinstance(e, PointwiseOp):
        return tuple(dict.fromkeys(x for x in e.inputs if isinstance(x, str)))
    return () if isinstance(e, IndexOp) else (e.input,)


def rewire(e: FusionExpr, old: str, new: str) -> FusionExpr:
    """``e`` reading ``new`` where it read ``old``."""
    match e:
        case MmaOp(a=a, b=b):
            return replaced(e, a=new if a == old else a, b=new if b == old else b)
        case PointwiseOp(inputs=inputs):
            return replaced(e, inputs=tuple(new if x == old else x for x in inputs))
        case IndexOp():
            return e
    return replaced(e, input=new) if e.input == old else e
