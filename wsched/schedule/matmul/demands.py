"""What a fusion demands of a schedule: all that decides which are legal."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from wsched.fusion import DataType, Fusion, PointwiseOp, the_matmul
from wsched.schedule.matmul.epilogue_inputs import matrix_inputs
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["Demands"]


@dataclass(frozen=True, slots=True)
class Demands:
    """Types and layouts.

    Args:
        operand: type of the operands.
        results: types of the results.
        matrices: types of the matrices that TMA can load for the epilogue.
        m_major: whether A is M-major in memory.
        n_major: whether B is N-major in memory.
        computes: whether the epilogue does more than cast.
        target: the GPU that it is for.
    """

    operand: DataType
    results: tuple[DataType, ...]
    matrices: tuple[DataType, ...]
    m_major: bool
    n_major: bool
    computes: bool
    target: Target = DEFAULT

    @classmethod
    def of(cls, fusion: Fusion, target: Target = DEFAULT) -> Demands:
        """Those of an unscheduled fusion; UnsupportedError unless it has one matrix product."""
        product = the_matmul(fusion)
        return cls(
            product.a.dtype,
            tuple(b.dtype for b in fusion.outputs),
            tuple(fusion.tensor(name).dtype for name in matrix_inputs(fusion)),
            product.m_major,
            product.n_major,
            any(isinstance(e, PointwiseOp) for e in fusion.exprs),
            target,
        )

    def loaded(self, params: MatmulParams) -> tuple[DataType, ...]:
        """Types of the matrices that the load warpgroup of a schedule loads."""
        return self.matrices if params.loads_epilogue_inputs else ()
