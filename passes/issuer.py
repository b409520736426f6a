"""What one thread does of a section with threads: copies, prints, products in tensor memory."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, takewhile

from lowering.ground.expr import Var, free_vars
from lowering.kernel.kernel import Kernel, Ring
from lowering.kernel.nodes import (
    Body,
    Consume,
    Elect,
    Let,
    LoadTile,
    MmaTensor,
    Print,
    Produce,
    Section,
    Stmt,
    one_thread,
)
from lowering.kernel.operands import IN_STAGES
from lowering.kernel.ring_ends import copies, stores, sums
from lowering.kernel.visit import expressions, map_bodies, operands, walk

__all__ = ["Issuer"]


@dataclass(frozen=True, slots=True)
class Issuer:
    """Who issues the copies and the products of a section with threads: one thread of it, or of
    each of its groups. Who issues all that fills a step begins it, too; who issues all that reads
    one waits for it.

    Args:
        kernel: for its rings.
        first_warp: of the role.
        groups: how many warpgroups run it.
        of_group: variables whose values differ between these.
    """

    kernel: Kernel
    first_warp: int
    groups: int
    of_group: frozenset[Var]

    @staticmethod
    def of(kernel: Kernel, section: Section, first_warp: int) -> Issuer:
        """With all bindings that follow from the group's number."""
        found = {section.group} if section.group is not None else set()
        for stmt in walk(section.body):
            if isinstance(stmt, Let) and free_vars(stmt.value) & found:
                found.add(stmt.var)
        return Issuer(kernel, first_warp, section.groups, frozenset(found))

    def issued(self, body: Body) -> Body:
        """``body`` with each run of what is issued under a branch and an ``elect``."""
        out: list[Stmt] = []
        for alone, places in groupby(range(len(body)), lambda n: self.issues(body, n)):
            run = tuple(body[n] for n in places)
            if not alone:
                out += (s if isinstance(s, Elect) else map_bodies(s, self.issued) for s in run)
                continue
            for apart, stmts in groupby(run, self.differs):
                out.append(self.thread(apart, tuple(stmts)))
        return tuple(out)

    def issues(self, body: Body, at: int) -> bool:
        """Whether one thread does a statement of ``body``: it copies, multiplies, prints, begins a
        step that is filled by such copies alone, or waits for one that such products alone read.
        """
        match body[at]:
            case Produce(ring=name):
                ring = self.kernel.ring(name)
                return not any(fill(ring, body) for fill in (stores, copies, sums))
            case Consume(ring=name):
                return _multiplied(self.kernel.ring(name), body[at + 1 :])
        return isinstance(body[at], LoadTile | MmaTensor | Print)

    def differs(self, stmt: Stmt) -> bool:
        """Whether each group has a statement of its own."""
        return any(free_vars(e) & self.of_group for e in expressions(stmt))

    def thread(self, each: bool, stmts: Body) -> Stmt:
        """Statements by one thread, of each group or of the first one."""
        if each or self.groups == 1:
            return one_thread(*stmts, of="warpgroup.warp")
        return one_thread(*stmts, index=self.first_warp)


def _multiplied(ring: Ring, behind: Body) -> bool:
    """Whether products that stand next in a list are all that reads a ring's buffers there."""
    run = tuple(takewhile(lambda s: isinstance(s, Consume | MmaTensor), behind))
    return _names(ring, run) and not _names(ring, behind[len(run) :])


def _names(ring: Ring, body: Body) -> bool:
    """Whether statements name the ring's buffers, at any depth."""
    refs = (x for s in walk(body) for x in operands(s) if isinstance(x, IN_STAGES))
    return any(x.buffer in ring.buffers for x in refs)
