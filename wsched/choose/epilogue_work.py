"""What an epilogue asks for, in instructions of a thread."""

from __future__ import annotations

from collections import Counter

from wsched.fusion import (
    DataType,
    Fusion,
    IndexOp,
    PointwiseOp,
    ReductionOp,
    TensorBinding,
    inputs_of,
    the_products,
)
from wsched.schedule.matmul.demands import recasts

__all__ = ["FUNCTION", "FUNCTIONS", "MATRIX", "epilogue_matrices", "epilogue_work"]

FUNCTION, MATRIX = 12, 8
"""What a function of several instructions, and reading an element of a matrix, count for."""

FUNCTIONS = frozenset(
    {"div", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt"}
    | {"reciprocal", "tanh", "erf", "erfc", "sigmoid", "silu", "pow"}
)


def epilogue_work(fusion: Fusion) -> int:
    """What the epilogue does for each element of the result beside one cast, in instructions.

    Products that are read in fp32 are rounded and widened first, which is not counted in front of
    what is computed of them: 1.5 instructions. A result that is rounded and widened alone counts as
    one, since it is more than a cast (``Demands.computes``). Products that a sum alone reads are
    instructions of the sum.
    """
    again = recasts(fusion)
    work = sum(to is not DataType.Float for to in again)
    work += sum(isinstance(e, IndexOp) for e in fusion.exprs)
    summed = _only_summed(fusion)
    for e in fusion.exprs:
        if isinstance(e, PointwiseOp) and not (e.op == "mul" and e.output in summed):
            work += FUNCTION if e.op in FUNCTIONS else 1
    return max(work, bool(again)) + MATRIX * len(epilogue_matrices(fusion))


def _only_summed(fusion: Fusion) -> set[str]:
    """Tensors that one sum reads and nothing else (``passes/sum_products.py``)."""
    reads = Counter(name for e in fusion.exprs for name in inputs_of(e))
    sums = {e.input for e in fusion.exprs if isinstance(e, ReductionOp) and e.op == "sum"}
    return {name for name in sums if reads[name] == 1}


def epilogue_matrices(fusion: Fusion) -> list[TensorBinding]:
    """The matrices that an epilogue reads."""
    product = the_products(fusion)[0]
    whole = {str(d.extent) for d in (product.rows, product.cols)}
    return list({b.tensor: b for b in fusion.inputs if whole <= set(b.axes)}.values())
