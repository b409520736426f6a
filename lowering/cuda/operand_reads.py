"""Registers that a wgmma reads as A: until which wait, and across which loops they are read.

The compiler knows of a wgmma only that its statement reads the registers; it would give them to
something else right behind it. So they are named again behind the ``wgmma.wait`` that covers the
last wgmma that reads them (``pin_words``), and where that comes in a later trip of a loop, their
array is declared in front of the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lowering.cuda.fragments import FragmentPlan
from lowering.ground.errors import InternalError
from lowering.kernel.nodes import (
    Body,
    For,
    Frag,
    FragCast,
    FragColumns,
    FragRows,
    Roles,
    Stmt,
    Wgmma,
    WgmmaCommit,
    WgmmaWait,
)
from lowering.kernel.visit import bodies

__all__ = ["OperandReads", "operand_reads"]

_PENDING_MAX = 8
"""More groups than a ``wgmma.wait`` can leave: beyond it, all of them are old."""

_Groups = dict[str, int]
"""Array -> groups that were committed since a wgmma read it, its own included; 0 before that."""


@dataclass(frozen=True, slots=True)
class OperandReads:
    """What the emitter has to do.

    Args:
        pinned: arrays whose readers a wait covers, by the name of its result.
        carried: types of arrays that are still read when the next trip of a loop begins and that
            the loop makes, by the loop's variable; in order of their names.
    """

    pinned: Mapping[str, set[str]]
    carried: Mapping[str, tuple[Frag, ...]]


def operand_reads(body: Body, plan: FragmentPlan) -> OperandReads:
    """Follow the groups through a kernel's body; through a loop's until nothing new comes.

    Raises:
        InternalError: an array is read when the block that declares it ends, and that is no loop;
            or it is written while it is read.
    """
    walk = _Walk(plan)
    walk.block(body, {})
    return OperandReads(walk.pinned, walk.carried)


@dataclass(slots=True)
class _Walk:
    plan: FragmentPlan
    pinned: dict[str, set[str]] = field(default_factory=dict)
    carried: dict[str, tuple[Frag, ...]] = field(default_factory=dict)
    values: dict[str, Frag] = field(default_factory=dict)

    def block(self, body: Body, groups: _Groups) -> _Groups:
        """A block that declares its arrays itself."""
        after = self.body(body, groups)
        left = sorted(self.plan.arrays[a] for a in self.made(body) & after.keys())
        if left:
            raise InternalError("emit_cuda", f"{left[0]} is left while a wgmma may read it")
        return after

    def body(self, body: Body, groups: _Groups) -> _Groups:
        for stmt in body:
            groups = self.stmt(stmt, dict(groups))
        return groups

    def stmt(self, stmt: Stmt, groups: _Groups) -> _Groups:
        if self.written(stmt) in groups:
            name = self.plan.arrays[self.written(stmt)]
            raise InternalError("emit_cuda", f"{name} is written while a wgmma may read it")
        match stmt:
            case Wgmma(a=Frag(name)):
                groups[self.plan.views[name].array] = 0
            case WgmmaCommit():
                return {a: min(n + 1, _PENDING_MAX) for a, n in groups.items()}
            case WgmmaWait(out=out, pending=pending):
                done = {a for a, n in groups.items() if n > pending}
                self.pinned.setdefault(out.name, set()).update(done)
                return {a: n for a, n in groups.items() if a not in done}
            case For():
                return self.loop(stmt, groups)
            case Roles():
                for inner in bodies(stmt):
                    self.block(inner, groups)
            case _:
                ends = [self.block(inner, groups) for inner in bodies(stmt)]
                for end in ends:
                    groups = _either(groups, end)
        return groups

    def loop(self, loop: For, groups: _Groups) -> _Groups:
        before = groups
        while True:
            after = _either(groups, self.body(loop.body, before))
            if after == before:
                break
            before = after
        kept = sorted(self.made(loop.body) & after.keys())
        self.carried[loop.var.name] = tuple(self.values[a] for a in kept)
        return after

    def written(self, stmt: Stmt) -> str:
        """The array that a statement writes; none where it only names registers anew."""
        out = getattr(stmt, "out", None)
        if not isinstance(out, Frag) or isinstance(stmt, FragColumns | FragRows | WgmmaWait):
            return ""
        if isinstance(stmt, FragCast) and stmt.value.type.dtype is out.type.dtype:
            return ""
        return self.plan.views[out.name].array

    def made(self, body: Body) -> set[str]:
        """Arrays that a block declares: those whose first value is defined in it."""
        found = set()
        for stmt in body:
            out = getattr(stmt, "out", None)
            if isinstance(out, Frag) and self.plan.views[out.name].array == out.name:
                found.add(out.name)
                self.values[out.name] = out
            if isinstance(stmt, For):  # declared in front of that, so here
                found |= {frag.name for frag in self.carried[stmt.var.name]}
        return found


def _either(one: _Groups, other: _Groups) -> _Groups:
    """What may be read behind two ways that a kernel may have come: the younger group counts."""
    return {a: min(one.get(a, _PENDING_MAX), other.get(a, _PENDING_MAX)) for a in one | other}
