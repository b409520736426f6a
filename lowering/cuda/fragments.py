"""Where fragment values live: one register array for all values that are updates of each other.

A wgmma updates its accumulator in place, and a loop carries a fragment from one trip to the next;
were each SSA value an array of its own, the copies between them would be register moves that
serialize the tensor core (ptxas C7515). So a value that is *consumed* shares the array of the one
that consumes it. That is right only if nobody reads a value after it was consumed, which
``plan_fragments`` checks. What a loop makes anew in each trip, without a look at what it carries,
is made in the registers that it carries.

Register order, from the thread's view (``FragmentType``): for each 64-row block, for each 8
columns, the pairs (row, row + 8) x (column, column + 1). 16-bit fragments pack the two columns of
a pair into one register; where all columns are one, the two rows. Where all rows or all columns are
one, a pair has one element, and there is one block or one group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

from lowering.ground.errors import InternalError
from lowering.ground.expr import ZERO, Const, Expr
from lowering.ground.poly import divided
from lowering.ground.types import FragmentType
from lowering.kernel.nodes import (
    Body,
    Elect,
    For,
    Frag,
    FragAddPartial,
    FragBelow,
    FragCast,
    FragColumns,
    FragFill,
    FragLoadGlobal,
    FragPointwise,
    FragRandom,
    FragReduce,
    FragReduceFromShared,
    FragRows,
    FragShuffle,
    FragUpdate,
    If,
    LdMatrix,
    LdShared,
    OnWarp,
    Roles,
    Stmt,
    Tcgen05Load,
    Tcgen05WaitLoad,
    Wgmma,
    WgmmaWait,
)
from lowering.kernel.visit import bodies, defined, used_in

__all__ = ["FragmentPlan", "View", "plan_fragments", "updated"]


@dataclass(frozen=True, slots=True)
class View:
    """Registers of a fragment value: block ``b`` begins at ``array[start + b * block]``.

    ``array`` is the first value of the array, which also declares it.
    """

    array: str
    type: FragmentType
    start: Expr
    block: int

    @property
    def blocks(self) -> int:
        """Number of 64-row blocks."""
        return self.type.blocks

    @property
    def per_block(self) -> int:
        """Registers of one block that belong to this value."""
        return self.type.groups * self.type.group_registers

    def columns(self, start: Expr, out: FragmentType) -> View:
        """The columns from ``start``, that of a group, on, as a view of the same array."""
        skipped = divided(start, out.layout.columns // out.group_registers)
        return View(self.array, out, self.start + skipped, self.block)

    def rows(self, start: Expr, out: FragmentType) -> View:
        """The rows from ``start`` (a multiple of 64) on, as a view of the same array."""
        skipped = divided(start, out.layout.rows) * self.block
        return View(self.array, out, self.start + skipped, self.block)

    def element(self, block: int, row: int, col: int) -> tuple[int, int, int]:
        """Where an element of a block's group of 8 columns lives.

        ``row`` and ``col`` are 0 or 1, the place within the group's pairs; what the value has only
        one of counts as 0. Returns registers from group to group, the register from ``start`` on
        of the first group, and the part of it that an element of fewer than 32 bits takes.
        """
        rows, cols = self.type.group
        index = (row if rows > 1 else 0) * cols + (col if cols > 1 else 0)
        step = self.type.group_registers if self.type.cols > 1 else 0
        first = block * self.block if self.type.rows > 1 else 0
        packed = 32 // self.type.dtype.register_bits
        return step, first + index // packed, index % packed


@dataclass(frozen=True, slots=True)
class FragmentPlan:
    """Views by value, and a name for each array (by ``View.array``).

    An array that a loop carries is called after the carried value, others after their first.
    """

    views: Mapping[str, View]
    arrays: Mapping[str, str]


def updated(s: FragUpdate) -> Frag:
    """What is written of an accumulator: the result, or a part of it, whose name no value has."""
    return s.out if s.part == s.out.type else Frag(f"{s.out.name}.part", s.part)


@dataclass(slots=True)
class _Planner:
    views: dict[str, View] = field(default_factory=dict)
    carried: dict[str, str] = field(default_factory=dict)
    home: dict[str, tuple[int, ...]] = field(default_factory=dict)
    consumed: dict[str, str] = field(default_factory=dict)
    loops: tuple[int, ...] = ()
    count: int = 0

    def declare(self, out: Frag) -> None:
        self.define(out, View(out.name, out.type, ZERO, out.type.block_registers))

    def define(self, out: Frag, view: View) -> None:
        if out.name in self.views:
            raise _error(out, "is defined twice")
        self.views[out.name] = view
        self.home[out.name] = self.loops

    def read(self, value: Frag, by: str) -> View:
        if value.name not in self.views:
            raise _error(value, f"is read by {by} but not defined before")
        if value.name in self.consumed:
            raise _error(value, f"is read by {by} after {self.consumed[value.name]} consumed it")
        return self.views[value.name]

    def consume(self, value: Frag, out: Frag, by: str) -> None:
        """``out`` takes over the registers of ``value`` and of all views of it."""
        view = self.read(value, by)
        if self.home[value.name] != self.loops:
            raise _error(value, f"is consumed by {by} in a loop that does not define it")
        if view.block != view.per_block:
            raise _error(value, f"is a part of {view.array} and cannot be consumed by {by}")
        for name, other in self.views.items():
            if other.array == view.array:
                self.consumed.setdefault(name, by)
        self.define(out, View(view.array, out.type, view.start, view.block))

    def body(self, body: Body) -> None:
        for s in body:
            self.stmt(s)

    def stmt(self, s: Stmt) -> None:
        plan = _PLANS.get(type(s))
        if plan is not None:
            plan(self, s)
        elif isinstance(value := getattr(s, "value", None), Frag):
            self.read(value, s.OP)

    def nested(self, s: Stmt) -> None:
        for inner in bodies(s):
            self.body(inner)

    def made(
        self,
        s: FragFill | FragBelow | FragRandom | FragLoadGlobal | LdMatrix | LdShared | Tcgen05Load,
    ) -> None:
        self.declare(s.out)

    def exchanged(self, s: FragShuffle) -> None:
        self.read(s.value, s.OP)
        self.declare(s.out)

    def computed(self, s: FragPointwise | FragUpdate) -> None:
        for arg in s.args:
            if isinstance(arg, Frag):
                self.read(arg, s.OP)
        if isinstance(s, FragUpdate):
            self.consume(s.acc, s.out, s.OP)
            part, whole = updated(s), self.views[s.out.name]
            if part != s.out:
                columns = whole.columns(Const(s.col), replace(part.type, rows=whole.type.rows))
                self.define(part, columns.rows(Const(s.row), part.type))
        else:
            self.declare(s.out)

    def cast(self, s: FragCast) -> None:
        source = self.read(s.value, s.OP)
        if s.out.type.dtype is s.value.type.dtype:
            self.define(s.out, View(source.array, s.out.type, source.start, source.block))
        else:
            self.declare(s.out)

    def part(self, s: FragColumns | FragRows) -> None:
        source = self.read(s.value, s.OP)
        part = source.columns if isinstance(s, FragColumns) else source.rows
        self.define(s.out, part(s.start, s.out.type))

    def updated(
        self,
        s: FragReduce | Wgmma | WgmmaWait | FragAddPartial | FragReduceFromShared
        | Tcgen05WaitLoad,
    ) -> None:  # fmt: skip
        if isinstance(s, FragReduce):
            self.read(s.value, s.OP)
            if s.factor is not None:
                self.read(s.factor, s.OP)
        elif isinstance(s, Wgmma) and isinstance(s.a, Frag):
            self.read(s.a, s.OP)
        self.consume(s.acc, s.out, s.OP)

    def loop(self, s: For) -> None:
        outer, self.count = self.loops, self.count + 1
        carried = [
            (c.var, c.init, c.result, y)
            for c, y in zip(s.carries, s.yields, strict=True)
            if isinstance(c.var, Frag)
        ]
        inside = (*outer, self.count)
        for var, init, _, _ in carried:
            assert isinstance(init, Frag)
            self.consume(init, var, s.OP)
            self.home[var.name] = inside
            self.carried.setdefault(self.views[var.name].array, var.name)
        self.loops = inside
        self.body(s.body)
        for var, _, _, last in carried:
            assert isinstance(last, Frag)
            if self.read(last, "yield").array != self.views[var.name].array:
                self.replaces(last, var, self._read_since(last, s))
        self.loops = outer
        for _, _, result, last in carried:
            assert isinstance(last, Frag) and isinstance(result, Frag)
            self.home[last.name] = outer
            self.consume(last, result, s.OP)

    def _read_since(self, made: Frag, loop: For) -> set[str]:
        """What a loop reads from the statement on that makes a value, and yields.

        Reads count where they are issued. A wgmma that was issued in front, and not waited for,
        reads its A until it is over: that nobody writes these registers before is claimed of each
        kernel (``registers of operands``), and the machine, which has this plan, faults.
        """
        yielded = {y.name for y in loop.yields if isinstance(y, Frag)}
        array = self.views[made.name].array
        at = next((n for n, s in enumerate(loop.body) if array in defined(s)), 0)
        return used_in(loop.body[at:]) | yielded

    def replaces(self, last: Frag, var: Frag, read: Set[str]) -> None:
        """What a loop makes anew is made in the registers of what it carries, if it does not read
        that any more.
        """
        made, carried = self.views[last.name], self.views[var.name]
        mine = {name for name, view in self.views.items() if view.array == carried.array}
        if mine & read or self.home[last.name] != self.loops or carried.start != ZERO:
            raise _error(last, f"is yielded for {var.name} but lives in other registers")
        for name, view in self.views.items():
            if view.array == made.array:
                self.views[name] = replace(view, array=carried.array)


_PLANS: Mapping[type[Stmt], Callable[[_Planner, Any], None]] = {
    **dict.fromkeys(
        (FragFill, FragBelow, FragRandom, FragLoadGlobal, LdMatrix, LdShared, Tcgen05Load),
        _Planner.made,
    ),
    **dict.fromkeys((FragPointwise, FragUpdate), _Planner.computed),
    **dict.fromkeys((FragColumns, FragRows), _Planner.part),
    **dict.fromkeys(
        (FragReduce, Wgmma, WgmmaWait, FragAddPartial, FragReduceFromShared, Tcgen05WaitLoad),
        _Planner.updated,
    ),
    **dict.fromkeys((If, Elect, OnWarp, Roles), _Planner.nested),
    FragShuffle: _Planner.exchanged,
    FragCast: _Planner.cast,
    For: _Planner.loop,
}
"""What becomes of the values of a kind of statement; others read one at most."""


def plan_fragments(body: Body) -> FragmentPlan:
    """Registers for every fragment value of a kernel body.

    Raises:
        InternalError: a value is read after it was consumed, consumed more often than it is made,
            or a loop yields a value that does not update the one that it carries, but reads it.
    """
    planner = _Planner()
    planner.body(body)
    arrays = {v.array: planner.carried.get(v.array, v.array) for v in planner.views.values()}
    return FragmentPlan(planner.views, arrays)


def _error(value: Frag, why: str) -> InternalError:
    return InternalError("emit_cuda", f"fragment {value.name} {why}")
