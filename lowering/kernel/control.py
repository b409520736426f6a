"""Control statements: bindings, loops, branches, sections and roles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowering.ground.expr import ONE, Expr, Special, Var, free_vars
from lowering.ground.frozen import quick
from lowering.kernel.operands import Body, Frag, Stmt
from lowering.kernel.traits import Threads, Traits

__all__ = [
    "EVENTS",
    "Break",
    "Carry",
    "Elect",
    "Event",
    "For",
    "If",
    "Let",
    "OnWarp",
    "Role",
    "Roles",
    "Section",
    "SetMaxNReg",
    "one_thread",
]


@quick
@dataclass(frozen=True, slots=True)
class Let(Stmt):
    """``let var = value``; with ``once`` it is computed here, never again where it is used (else
    the compiler may do so, in a loop too, to save a register); for i32 only.
    """

    OP: ClassVar[str] = "let"
    TRAITS: ClassVar[Traits] = Traits(binds=("var",))
    var: Var
    value: Expr
    once: bool = False


@quick
@dataclass(frozen=True, slots=True)
class Carry:
    """A loop-carried value: ``var`` inside the loop, ``init`` before it, ``result`` after it.

    A fragment carried in flight may start from a settled one, not the other way round.
    """

    var: Var | Frag
    init: Expr | Frag
    result: Var | Frag


EVENTS = ("load", "transform", "main_loop", "epilogue")
"""What a loop may be to a tile: it fills a ring with the tile's operands from global memory, or
with what is computed of them; it adds up the tile's product; or it computes with the sums.
"""


@dataclass(frozen=True, slots=True)
class Event:
    """What a loop is to a tile, said by who makes the loop; a time line shows it by this name.

    ``name`` is one of :data:`EVENTS`, ``tile`` a number among the tiles of the CTA. Where that
    depends on the loop's variable, each trip is the event of a tile; else the whole loop is one.
    """

    name: str
    tile: Expr


@quick
@dataclass(frozen=True, slots=True)
class For(Stmt):
    """``for var in start .. stop step step``; the body ends by yielding the next carried values.

    Start, stop and step may be run-time values, uniform over the warps that execute the loop.
    ``unroll`` asks the emitter for full unrolling and needs constant bounds. ``event`` is what the
    loop is to a tile, None where it is nothing by itself (and after ``trace``).
    """

    OP: ClassVar[str] = "for"
    TRAITS: ClassVar[Traits] = Traits(binds=("var", "carries"), flying=("carries", "yields"))
    var: Var
    start: Expr
    stop: Expr
    body: Body
    step: Expr = ONE
    carries: tuple[Carry, ...] = ()
    yields: tuple[Expr | Frag, ...] = ()
    unroll: bool = False
    event: Event | None = None

    @property
    def of_one_tile(self) -> bool:
        """Whether all trips together are the event of one tile."""
        return self.event is not None and self.var not in free_vars(self.event.tile)


@dataclass(frozen=True, slots=True)
class Break(Stmt):
    """Leave the loop whose body this stands in directly, if ``cond``, uniform over each warp.

    The results of the loop are then what its carried values are in this trip; no fragment among
    them has been consumed yet.
    """

    OP: ClassVar[str] = "break"
    TRAITS: ClassVar[Traits] = Traits(synchronizes=True)
    cond: Expr


@quick
@dataclass(frozen=True, slots=True)
class If(Stmt):
    """``if cond { then } else { other }``; ``cond`` is uniform over each executing warp."""

    OP: ClassVar[str] = "if"
    cond: Expr
    then: Body
    other: Body = ()


@quick
@dataclass(frozen=True, slots=True)
class Elect(Stmt):
    """One thread of each executing warp runs the body (``elect.sync``; always the same lane)."""

    OP: ClassVar[str] = "elect"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.WARP)
    body: Body


@quick
@dataclass(frozen=True, slots=True)
class OnWarp(Stmt):
    """``on %of index { body }``: warp ``index`` of the CTA runs the body (``of`` is ``warp``), or
    that of each warpgroup (``warpgroup.warp``).

    No other condition asks which warp executes it, so that who does what is known without running
    the kernel.
    """

    OP: ClassVar[str] = "on"
    TRAITS: ClassVar[Traits] = Traits(threads=Threads.WARP)
    index: int
    body: Body
    of: str = "warp"

    def runs(self, warp: int) -> bool:
        """Whether that warp of the CTA runs the body."""
        return self.index == (warp if self.of == "warp" else warp % 4)

    @property
    def cond(self) -> Expr:
        """The same, asked of the executing warp."""
        return Special(self.of).eq(self.index)


def one_thread(*stmts: Stmt, of: str = "warp", index: int = 0) -> OnWarp:
    """Statements for one thread, the same one every time.

    Args:
        stmts: what it runs.
        of: ``warp``, one thread of the CTA, or ``warpgroup.warp``, one of each warpgroup.
        index: of the thread's warp there.
    """
    return OnWarp(index, (Elect(stmts),), of)


@dataclass(frozen=True, slots=True)
class Section(Stmt):
    """A sub-DAG's loop nest (tile level, until ``warp_specialize``).

    Its statements say who runs it: what only issues copies is for one thread, all else is shared
    by ``groups`` warpgroups, and ``group`` is the index of the executing one. ``registers`` per
    thread are what the schedule gives to those who run it. Its name is for the reader.
    """

    OP: ClassVar[str] = "section"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.WARP,
        binds=("group",),
        until="interleave_loads",
    )
    name: str
    body: Body
    groups: int = 1
    group: Var | None = None
    registers: int | None = None


@quick
@dataclass(frozen=True, slots=True)
class Role:
    """Warps ``first_warp .. first_warp + warps`` run ``body``.

    In a role of whole warpgroups ``group`` is the index of the executing one within the role. Other
    roles have none, and hold nothing that warpgroups execute together. ``registers`` per thread are
    what the schedule gives to the role (None after ``reallocate_registers``).
    """

    name: str
    first_warp: int
    warps: int
    body: Body
    group: Var | None = None
    registers: int | None = None

    @property
    def span(self) -> range:
        """Its warps."""
        return range(self.first_warp, self.first_warp + self.warps)

    @property
    def whole(self) -> bool:
        """Whether its warps are whole warpgroups."""
        return self.first_warp % 4 == self.warps % 4 == 0


@dataclass(frozen=True, slots=True)
class Roles(Stmt):
    """Every warp of the CTA runs exactly one role; no role returns early.

    At the top of a kernel, or directly in a role, whose warps it divides among roles of their own.
    """

    OP: ClassVar[str] = "roles"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.WARP,
        binds=("roles",),
        since="warp_specialize",
    )
    roles: tuple[Role, ...]


@dataclass(frozen=True, slots=True)
class SetMaxNReg(Stmt):
    """``setmaxnreg.{inc,dec}.sync.aligned``: the executing warpgroup's registers per thread.

    All four warps execute the same statement. ``inc`` blocks until the CTA's pool has the
    registers, so a pair whose sum exceeds the pool hangs; ``reallocate_registers`` checks the sum.
    """

    OP: ClassVar[str] = "setmaxnreg"
    TRAITS: ClassVar[Traits] = Traits(
        threads=Threads.WARPGROUP,
        synchronizes=True,
        since="reallocate_registers",
    )
    action: str
    count: int
