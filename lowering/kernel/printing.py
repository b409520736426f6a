"""Lines that a kernel prints for whoever debugs it; no kernel has them unless its schedule asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowering.ground.expr import TRUE, Expr
from lowering.kernel.operands import Frag, Stmt
from lowering.kernel.traits import Memory, Threads, Traits

__all__ = ["FragPrint", "Print"]


@dataclass(frozen=True, slots=True)
class Print(Stmt):
    """A line with a number, by the executing thread, if ``when`` holds there.

    On a GPU it is ``printf``, whose call ends what is in flight of wgmma, and nothing of tcgen05;
    it orders nothing.

    Args:
        role: what runs it, in words.
        where: the tensor behind whose statement it stands.
        what: the name of the number.
        value: the number.
        when: a predicate.
    """

    OP: ClassVar[str] = "print"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.ONE, writes=Memory.TRACE)
    role: str
    where: str
    what: str
    value: Expr
    when: Expr = TRUE


@dataclass(frozen=True, slots=True)
class FragPrint(Stmt):
    """A line with an element of a fragment, by the thread that holds it, if ``when`` holds.

    Executed by the warp of each warpgroup that holds row ``row``, in wgmma's layout; ``col`` is the
    column. The rest is as of ``print``.
    """

    OP: ClassVar[str] = "frag.print"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.WARP, writes=Memory.TRACE)
    role: str
    where: str
    what: str
    value: Frag
    row: int
    col: int
    when: Expr = TRUE
