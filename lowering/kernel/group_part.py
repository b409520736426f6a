"""The part of a group that is a kernel's, where several share groups out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar

from lowering.ground.expr import Expr, Var
from lowering.ground.sharing import EXPRESSIONS, Sharing
from lowering.kernel.control import Let
from lowering.kernel.operands import Stmt
from lowering.kernel.traits import Traits

__all__ = ["GroupPart", "arithmetic"]


@dataclass(frozen=True, slots=True)
class GroupPart(Stmt):
    """``group.part begin, size of whole``: what is this kernel's of a group of ``whole`` elements.

    By the kernel's ``share``, whose rule makes each element one kernel's. ``begin`` counts from the
    group's; it is the group's that are ``size`` from there on: neither is negative, together they
    are no more than ``whole``, which is not negative.
    """

    OP: ClassVar[str] = "group.part"
    TRAITS: ClassVar[Traits] = Traits(binds=("begin", "size"))
    begin: Var
    size: Var
    whole: Expr


def arithmetic(stmt: GroupPart, share: Sharing) -> tuple[Let, ...]:
    """What makes both of ``whole``, step by step; names that no text has stand for what is between.

    None of them is more than ``whole``, a tile and :data:`~lowering.ground.sharing.SAVED`.
    """
    lets, seen = list[Let](), Counter[str]()

    def let(name: str, value: Expr) -> Expr:
        seen[name] += 1
        number = "" if seen[name] == 1 else str(seen[name])
        lets.append(Let(Var(f"%{stmt.size.name}_{name}{number}"), value))
        return lets[-1].var

    part = share.part(stmt.whole, replace(EXPRESSIONS, let=let))
    return *lets, Let(stmt.begin, part.begin), Let(stmt.size, part.size)
