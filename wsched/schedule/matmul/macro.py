"""The matrix instruction of a schedule, under nvFuser's name."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.target.target import Target
from lowering.target.targets import of_macro
from wsched.schedule.checked import Checked, Choice

__all__ = ["MmaArch", "MmaMacro"]


class MmaArch(Choice):
    """Whose instruction a macro is, and how many CTAs issue it together; it says the target."""

    Hopper = 0
    Blackwell1CTA = 1
    Blackwell2CTA = 2


@dataclass(frozen=True, slots=True)
class MmaMacro(Checked):
    """The instruction ``wgmma.mma_async.m<m>n<n>k<k>``; nvFuser's ``Hopper_64_256_16``. With
    another ``arch`` that one's: ``tcgen05.mma`` of ``Blackwell1CTA_128_256_16``, and of
    ``Blackwell2CTA_256_256_16``, whose 256 rows are those of two CTAs, 128 of each.

    ``k`` is that of 16-bit operands; the same 32 bytes of narrower ones have more.
    """

    m: int = 64
    n: int = 256
    k: int = 16
    arch: MmaArch = MmaArch.Hopper

    @property
    def target(self) -> Target:
        """The GPU that has it."""
        return of_macro(self.arch.name)

    def __str__(self) -> str:
        return f"{self.arch.name}_{self.m}_{self.n}_{self.k}"
