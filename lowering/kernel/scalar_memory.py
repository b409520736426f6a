"""Scalars that one thread or a warp reads from memory, such as sizes of groups, or writes there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowering.ground.expr import Expr, Var
from lowering.kernel.operands import GmemRef, Stmt
from lowering.kernel.traits import Memory, Threads, Traits

__all__ = ["LOAD_ORDERS", "UNIFORM", "LdGlobalScalar", "StGlobalScalar"]

LOAD_ORDERS = ("weak", "volatile", "relaxed.gpu", "acquire.gpu")
"""PTX's semantics and scope of a load; the first is the default, for what nobody writes meanwhile
and caches may hold.
"""

UNIFORM = ("warp", "cta")


@dataclass(frozen=True, slots=True)
class LdGlobalScalar(Stmt):
    """``ld.order.global``: ``out`` is the element at ``src`` of a plain tensor, in bounds.

    ``out`` is i32 of a tensor of s32, i64 of s64, pred of bool. It may be a loop bound, a
    coordinate or a condition: every thread of a warp gets the same value, and with ``uniform=cta``
    every warp of the CTA that comes here for the same time, which takes memory that nobody writes
    meanwhile. An acquire sees what was written in front of the release that it read from.
    """

    OP: ClassVar[str] = "ld.global.scalar"
    TRAITS: ClassVar[Traits] = Traits(reads=Memory.GLOBAL, synchronizes=True, plain=True)
    out: Var
    src: GmemRef
    order: str = "weak"
    uniform: str = "warp"


@dataclass(frozen=True, slots=True)
class StGlobalScalar(Stmt):
    """``st.global``: the element at ``dst`` of a plain tensor of s32, in bounds, is ``value``.

    Several threads may write one element; any of their values is there when the grid has ended.
    """

    OP: ClassVar[str] = "st.global.scalar"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.ONE, writes=Memory.GLOBAL, plain=True)
    dst: GmemRef
    value: Expr
