"""Which results a kernel can store in parts of K, for one behind it to add up."""

from __future__ import annotations

from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError
from wsched.schedule.matmul.demands import Demands
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["not_in_parts", "refuse_parts"]


def refuse_parts(demands: Demands, params: MatmulParams) -> None:
    """Refuse parts that are results where more than rounding is left to do with their sum.

    Raises:
        UnsupportedError: what is stored is no product, or sums are not those that a part has.
    """
    if not params.stores_parts:
        return
    of = not_in_parts(demands) or "accumulators=Half" * params.halves
    if of:
        raise UnsupportedError(
            f"splitk_factor={params.splitk_factor} with splitk_mode=Parallel of {of}",
            "Parallel for one product of fp32 sums that is stored, or rounded once and stored; "
            "Serial",
        )


def not_in_parts(demands: Demands) -> str:
    """What it is whose parts of K cannot be results; empty where they can."""
    operand = demands.operand.element
    found = {
        "groups": demands.grouped,
        "tensors that stand side by side": demands.listed,
        f"{demands.products} products": demands.products > 1,
        "results that are reductions": demands.reductions.results > 0,
        f"{len(demands.results)} results": len(demands.results) != 1,
        "an epilogue that computes": demands.computes,
        "an operand that is computed": demands.computed is not None,
        "operands with scales inside the sum": demands.scaled is not None,
        f"{demands.operand} operands": demands.target.mma.accumulator(operand, operand)
        not in (DType.F32, None),
    }
    return next((of for of, refused in found.items() if refused), "")
