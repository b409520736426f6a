"""Lane exchange: a fragment's elements from one register layout to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowering.kernel.operands import Frag, Stmt
from lowering.kernel.traits import Threads, Traits

__all__ = ["FragShuffle"]


@dataclass(frozen=True, slots=True)
class FragShuffle(Stmt):
    """``shfl.sync``: ``value`` in the layout of ``out``, element for element the same tile.

    All layouts deal rows out alike, so the four lanes of a row exchange its columns. One layout's
    ``span`` is twice the other's: of accumulators and A of 16 bits on the one hand and A of 8 bits
    on the other, or of A of 32 bits and accumulators. The narrower span is at least 16 bits.

    So what ``ldmatrix`` loads of 8 bits becomes, once it is converted, an A operand of 16 bits, and
    an accumulator that is converted to 8 bits an A operand of 8 bits.
    """

    OP: ClassVar[str] = "frag.shuffle"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.WARPGROUP)
    out: Frag
    value: Frag
