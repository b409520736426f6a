"""What a fusion demands of a schedule: all that decides which are legal."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.frozen import quick, replaced
from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from wsched.fusion import (
    DataType,
    Fusion,
    PointwiseOp,
    operands_of,
    roundings,
    the_products,
)
from wsched.schedule.matmul.computed import Computed, element_bytes
from wsched.schedule.matmul.epilogue_inputs import matrix_inputs
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.reductions import NO_REDUCTIONS, Reductions
from wsched.schedule.matmul.scaled import blocks_scaled

__all__ = ["Demands", "recasts"]


def recasts(fusion: Fusion) -> tuple[DataType, ...]:
    """The types that what a product was rounded to is cast to."""
    return tuple(fusion.tensor(name).dtype for r in roundings(fusion) for name in r.again)


@quick
@dataclass(frozen=True, slots=True)
class Demands:
    """Types and layouts.

    Args:
        operand: type of the operands as they are multiplied.
        results: types of the results that are matrices.
        matrices: types of the matrices that TMA can load for the epilogue.
        m_major: whether A is M-major in memory.
        n_major: whether B is N-major in memory.
        computes: whether the epilogue does more than cast once.
        counts: number of As and of Bs; several products share one of them, and there are as many
            as of the other.
        target: the GPU that it is for.
        reductions: results that are reductions.
        promotion: of the product (:class:`wsched.fusion.MmaOp`).
        computed: what is computed on an operand.
        scaled: rows of A and columns of B that a scale inside the sum is for; None without any.
        grouped: whether the device says which rows, columns or slices of K are whose.
        listed: whether tensors stand side by side in one.
        added: whether rows of results are added to others.
    """

    operand: DataType
    results: tuple[DataType, ...]
    matrices: tuple[DataType, ...]
    m_major: bool
    n_major: bool
    computes: bool
    counts: tuple[int, int] = (1, 1)
    target: Target = DEFAULT
    reductions: Reductions = NO_REDUCTIONS
    promotion: int = 0
    computed: Computed | None = None
    scaled: tuple[int, int] | None = None
    grouped: bool = False
    listed: bool = False
    added: bool = False

    @classmethod
    def of(cls, fusion: Fusion, target: Target = DEFAULT) -> Demands:
        """Those of an unscheduled fusion.

        Raises:
            UnsupportedError: it has no matrix product, or several that share neither operand.
        """
        made = the_products(fusion)
        product, (left, right) = made[0], operands_of(made)
        return cls(
            product.operand,
            tuple(b.dtype for b in fusion.matrices),
            tuple(fusion.tensor(name).dtype for name in matrix_inputs(fusion)),
            product.m_major,
            product.n_major,
            any(isinstance(e, PointwiseOp) for e in fusion.exprs) or bool(recasts(fusion)),
            (len(left), len(right)),
            target,
            Reductions.of(fusion),
            product.mma.promotion,
            Computed.of(fusion, product),
            blocks_scaled(product),
            fusion.groups is not None,
            bool(fusion.lists),
            bool(fusion.added),
        )

    @property
    def element_bytes(self) -> tuple[float, float]:
        """Bytes of an element of A and of B in shared memory."""
        return element_bytes(self.operand, self.computed)

    @property
    def products(self) -> int:
        """Products of a tile."""
        return max(self.counts)

    def accumulators(self, rows: int, each: int) -> int:
        """Accumulators of a thread whose warpgroup has so many rows of a tile, ``each`` of a
        product; where sums are promoted also those that wgmmas add to, of the rows of one
        instruction at a time, unless A comes from registers.
        """
        first = rows if self.computed is not None else min(rows, self.target.mma.m)
        return self.products * (each + (each * first // rows if self.promotion else 0))

    @property
    def exchanged(self) -> Demands:
        """Those of the transposed product."""
        return replaced(
            self, m_major=self.n_major, n_major=self.m_major, counts=self.counts[::-1],
            computed=self.computed and self.computed.exchanged,
            scaled=self.scaled and self.scaled[::-1], reductions=self.reductions.exchanged,
        )  # fmt: skip

    def stored(self, params: MatmulParams) -> Demands:
        """Those of a kernel that stores parts of K, where the parameters say so."""
        if not params.stores_parts:
            return self
        return replaced(self, results=(DataType.Float,) * len(self.results))

    def loaded(self, params: MatmulParams) -> tuple[DataType, ...]:
        """Types of the matrices that the load warpgroup of a schedule loads."""
        return self.matrices if params.loads_epilogue_inputs else ()
