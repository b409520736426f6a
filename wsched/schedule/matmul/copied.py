"""What matmul parameters say of the copies between global and shared memory, operand by operand."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.frozen import quick
from wsched.schedule.checked import Checked
from wsched.schedule.options import CachePolicy, MmaInputSmemSwizzle, TensorMapL2Promotion

__all__ = [
    "CachePolicies", "L2Promotions", "SmemSwizzles", "SupportedVectorization", "ThreadLoads",
]  # fmt: skip


@quick
@dataclass(frozen=True, slots=True)
class CachePolicies(Checked):
    """Policies of the TMA copies of the operands A and B and of the results."""

    a: CachePolicy = CachePolicy.EvictNormal
    b: CachePolicy = CachePolicy.EvictNormal
    d: CachePolicy = CachePolicy.EvictNormal

    def __str__(self) -> str:
        return f"a {self.a}, b {self.b}, d {self.d}"


@quick
@dataclass(frozen=True, slots=True)
class L2Promotions(Checked):
    """What the L2 fetches at once for the TMA loads of the operands A and B."""

    a: TensorMapL2Promotion = TensorMapL2Promotion.B256
    b: TensorMapL2Promotion = TensorMapL2Promotion.B256

    def __str__(self) -> str:
        return f"a {self.a}, b {self.b}"


@quick
@dataclass(frozen=True, slots=True)
class SmemSwizzles(Checked):
    """How the operands A and B lie in shared memory."""

    a: MmaInputSmemSwizzle = MmaInputSmemSwizzle.Widest
    b: MmaInputSmemSwizzle = MmaInputSmemSwizzle.Widest

    def __bool__(self) -> bool:
        return self != SmemSwizzles()

    def __str__(self) -> str:
        return f"a {self.a}, b {self.b}"


@quick
@dataclass(frozen=True, slots=True)
class SupportedVectorization(Checked):
    """Elements that a thread accesses at once in global memory.

    ``epilogue``: of the epilogue's inputs and results that threads read and write themselves, 2
    where addresses, row strides and row lengths are multiples of two elements, else 1. nvFuser's
    ``a`` and ``b`` have no counterpart: TMA loads the operands.
    """

    epilogue: int = 2


@quick
@dataclass(frozen=True, slots=True)
class ThreadLoads(Checked):
    """Operands that threads load, whose rows may begin where TMA takes none.

    ``a`` and ``b``: bytes that a thread copies at once of that operand, a power of two from an
    element to 16, of which its address, its strides and its rows are multiples; 0 where TMA loads
    it. ``warpgroups``: those that load, which have a share of the rows of each tile.
    """

    a: int = 0
    b: int = 0
    warpgroups: int = 1

    def __bool__(self) -> bool:
        return self.a > 0 or self.b > 0

    def __str__(self) -> str:
        said = (f"{name} {n} bytes" for name, n in (("a", self.a), ("b", self.b)) if n)
        return (
            ", ".join((*said, f"{self.warpgroups} warpgroup{'s' * (self.warpgroups != 1)}"))
            if self
            else "none"
        )
