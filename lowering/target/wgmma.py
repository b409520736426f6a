"""Forms of ``wgmma.mma_async``: what the instruction is called, and which immediates it takes.

Which immediates a form has is in the target's table of types.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.target.mma import MmaFamily
from lowering.target.ptx import WARPGROUP

__all__ = ["AT_ONCE", "A_REGISTERS", "WgmmaForm", "pieces_of"]

A_REGISTERS = 4
"""32-bit registers of A of one instruction: 64 rows of 32 bytes over 128 threads."""


@dataclass(frozen=True, slots=True)
class WgmmaForm:
    """A form of ``wgmma.mma_async``.

    Args:
        family: the target's table of forms.
        cols: N.
        a: type of A.
        b: type of B.
        acc: of the accumulators.
        trans_a: A is MN-major in shared memory.
        trans_b: B likewise.
        registers: A comes from registers.
    """

    family: MmaFamily
    cols: int
    a: DType
    b: DType
    acc: DType = DType.F32
    trans_a: bool = False
    trans_b: bool = False
    registers: bool = False

    @property
    def name(self) -> str:
        """What its device function is called."""
        tail = "_trans_a" * self.trans_a + "_trans_b" * self.trans_b + "_reg_a" * self.registers
        types = self.a.value if self.a is self.b else f"{self.a.value}_{self.b.value}"
        return f"wgmma_{self.shape}_{self.acc.value}_{types}{tail}"

    @property
    def shape(self) -> str:
        """M, N and K of it as PTX says them."""
        return f"m{self.family.m}n{self.cols}k{self.family.k(self.a)}"

    @property
    def instruction(self) -> str:
        """The instruction with its types."""
        types = ".".join(d.ptx for d in (self.acc, self.a, self.b))
        return f"wgmma.mma_async.sync.aligned.{self.shape}.{types}"

    @property
    def words(self) -> int:
        """32-bit registers per thread of the accumulators."""
        return self.family.m * self.cols * self.acc.bits // 32 // WARPGROUP

    @property
    def immediates(self) -> tuple[str, ...]:
        """What follows scale-d: factors of A and B, then which of those in shared memory are
        MN-major, as far as the types have them.
        """
        form = self.family.form(self.a, self.b, self.acc)
        if form is None:
            raise InternalError("emit_cuda", f"no instruction {self.instruction}")
        trans = (self.trans_b,) if self.registers else (self.trans_a, self.trans_b)
        factors = ("1", "1") if form.scales else ()
        return *factors, *(str(int(t)) for t in trans if form.transposes)


TOGETHER, TOGETHER_ALONE = 2, 4
"""Instructions that multiply a piece of A in registers, which is made, waited for and fenced off at
once; and where a warpgroup multiplies alone, so that nobody multiplies while it meets. Of bf16 by
int8 with 16 rows 128x16x128 took 22.1 us where pieces of one took 23.1, with 64 rows 128x64x128
26.4 and 28.3 (H200, 2026-11-24). By 128 rows 64x128x128 took 34.4 and 34.7 us of e4m3 with five and
four stages, 33.3 and 33.8 in pieces of four, of int8 34.5 and 35.9, 34.2 and 35.0; with two
warpgroups as long, or longer (H200, 2026-11-28; design/0032)."""


AT_ONCE = 4
"""Warpgroups of a role from which on a step whose sums are read in it makes all of A first: while
one waits for its products the others compute, and each piece is fenced off by four warps that meet.
Of 4 bits by 16 rows with scales of groups, pieces took 19.9 us in place of some 23 by two
warpgroups, 18.7 in place of 17.7 by four (H200, 2026-11-28)."""


def pieces_of(instructions: int, alone: bool = False) -> int:
    """Pieces of a slice of A of so many instructions' K: two at least, where it has as many.

    Args:
        instructions: of the slice.
        alone: whether one warpgroup multiplies.
    """
    sizes = (TOGETHER_ALONE, TOGETHER) if alone else (TOGETHER,)
    whole = next((size for size in sizes if instructions % (2 * size) == 0), 1)
    return instructions // whole
