"""Random numbers: a value for each element, by its number and not by who computes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowering.ground.expr import Expr
from lowering.kernel.operands import Frag, Stmt
from lowering.kernel.traits import Threads, Traits

__all__ = ["PHILOX_KEYS", "PHILOX_MULTIPLIERS", "PHILOX_ROUNDS", "FragRandom"]

PHILOX_ROUNDS = 10
PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
PHILOX_KEYS = (0x9E3779B9, 0xBB67AE85)
"""Of Philox4x32 (Salmon et al., SC 2011): factors of each round, and what the keys grow by."""


@dataclass(frozen=True, slots=True)
class FragRandom(Stmt):
    """Uniform fp32 in [0, 1), those of nvFuser's ``rand_like`` with the same state.

    The element in row ``r`` and column ``c`` has the number ``i = first + r * stride + c``, its
    place in the whole tensor, which is not negative. Philox4x32-10 with the key ``seed`` and the
    counter ``offset`` (low 64 bits), ``i // 4`` (high 64 bits) gives four words of 32 bits, each
    operand's low half first; word ``i % 4`` becomes ``w * 2**-32 + 2**-33`` in fp32, and 0 where
    that is rounded to 1.

    ``seed`` and ``offset`` are i64 of any bits, from parameters or memory. torch counts its offset
    in words, so it is divided by 4 in front of this.
    """

    OP: ClassVar[str] = "frag.random"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.WARPGROUP)
    out: Frag
    seed: Expr
    offset: Expr
    first: Expr
    stride: Expr
