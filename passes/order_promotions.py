"""Let two warpgroups that share a tile take turns on the tensor core, where each scales and adds
what it has summed several times a step.

Requires: loops whose wgmmas are committed in groups, each of which is waited for at once; all
groups of the role make the same trips.
Guarantees: a warpgroup issues the wgmmas of a group when those of the one before it are nearly
done, and lets the next one in when it has but the last :data:`COVER` cycles of its own in flight,
under which the other's come. So one adds while another one multiplies; without that both may end,
and add, together.

Measured (H200, 2026-11-24): with scales of blocks 256x128 gains 2 % in the mean of five shapes, 7 %
at 512x8192x8192. Sums without scales lose by turns, three warpgroups, and those who add once a
step: what waits for a turn then is longer than what it hides. Such loops stay as they are.

Every ``bar.sync`` meets exactly one ``bar.arrive``: the second warpgroup lets the first one in once
before all turns, and behind all of them the first one waits for that of the second.

After ``order_pingpong``, whose groups have the tensor core for a whole main loop; before
``allocate_mbarriers``, since it asks for steps that are waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lowering.ground.expr import ONE, ZERO, Var, free_vars
from lowering.kernel.kernel import Kernel, NamedBarrierArray
from lowering.kernel.nodes import (
    BarArrive,
    BarSync,
    Body,
    For,
    FragPointwise,
    If,
    NamedBarrierRef,
    Role,
    Stmt,
    WaitFull,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from lowering.kernel.visit import Names, map_bodies, map_roles, used, walk
from lowering.target import ptx
from passes.options import LoweringOptions
from passes.order_pingpong import of_groups
from passes.wgmma_groups import flying

__all__ = ["order_promotions"]

COVER = 128
"""Cycles from where a warpgroup has waited until another one's first wgmma begins."""

CYCLES = 0.5
"""Cycles of a wgmma of 64 rows and 32 bytes of K, for each of its columns."""


def order_promotions(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Turns around groups of wgmmas.

    before, of two groups in a trip::

        for k in a .. n carry (...) {
          wait_full ring, k
          wgmma.fence
          sum_k0: frag<f32, 64x128, async> = wgmma part, ..., accumulate=false
          ...
          sum_k96: frag<f32, 64x128, async> = wgmma sum_k64, ...
          wgmma.commit
          sum: frag<f32, 64x128> = wgmma.wait sum_k96, 0
          scaled: frag<f32, 64x128> = frag.pointwise mul, sum, scale
          ...

    after::

        named_barrier turn[2] threads 256
        if wg == 1 { bar.arrive turn[0] }
        for k in a .. n carry (...) {
          wait_full ring, k
          bar.sync turn[wg]
          wgmma.fence
          ...
          wgmma.commit
          ...
          sum_k96: frag<f32, 64x128, async> = wgmma sum_k64, ...
          wgmma.commit
          sum_last: frag<f32, 64x128, async> = wgmma.wait sum_k96, 1
          bar.arrive turn[1 - wg]
          sum: frag<f32, 64x128> = wgmma.wait sum_last, 0
          ...
        }
        if wg == 0 { bar.sync turn[0] }
    """
    if not options.promotion:
        return kernel
    names = Names(kernel)
    declared: list[NamedBarrierArray] = []

    def role(r: Role) -> Role:
        if r.group is None or r.warps * ptx.WARP != 2 * ptx.WARPGROUP:
            return r
        turn = NamedBarrierArray(names.new("turn"), 2, 2 * ptx.WARPGROUP)
        turns = _Turns(kernel, names, turn, r.group, frozenset(of_groups(r)))
        body = turns.body(r.body)
        if body == r.body:
            return r
        declared.append(turn)
        first = NamedBarrierRef(turn.name, ZERO)
        begin = If(r.group.eq(1), (BarArrive(first),))
        return replace(r, body=(begin, *body, If(r.group.eq(0), (BarSync(first),))))

    return map_roles(kernel, role).declare(*declared)


@dataclass(frozen=True, slots=True)
class _Turns:
    """The warpgroups of a role, and the barriers that let each of them in.

    Args:
        kernel: of its rings.
        names: of the kernel.
        turn: a barrier for each warpgroup.
        wg: index of the warpgroup.
        lets: what depends on it.
    """

    kernel: Kernel
    names: Names
    turn: NamedBarrierArray
    wg: Var
    lets: frozenset[Var]

    def body(self, body: Body) -> Body:
        """A statement list with turns in its loops."""
        out: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, For) and self.shared(stmt):
                stmt = replace(stmt, body=tuple(self.taken(stmt)))
            elif not self.of_one(stmt):
                stmt = map_bodies(stmt, self.body)
            out.append(stmt)
        return tuple(out)

    def of_one(self, stmt: Stmt) -> bool:
        """Whether what is in a statement is not executed equally often by all warpgroups."""
        asked = frozenset[Var]()
        if isinstance(stmt, For):
            asked = free_vars(stmt.start) | free_vars(stmt.stop)
        elif isinstance(stmt, If):
            asked = free_vars(stmt.cond)
        waited = {s.ring for s in walk((stmt,)) if isinstance(s, WaitFull)}
        own = any(self.kernel.ring(name).takers > 1 for name in waited)
        return own or bool(asked & (self.lets | {self.wg}))

    def shared(self, loop: For) -> bool:
        """Whether all warpgroups make the trips of a loop that waits for all that it multiplies,
        several times in a trip, and scales it.
        """
        groups = [s for s in loop.body if isinstance(s, WgmmaCommit)]
        waits = [s for s in loop.body if isinstance(s, WgmmaWait)]
        sums = {s.out.name for s in waits}
        scales = any(isinstance(s, FragPointwise) and used(s) & sums for s in loop.body)
        alone = len(groups) == len(waits) > 1 and not any(s.pending for s in waits)
        return scales and alone and loop.step == ONE and not self.of_one(loop)

    def taken(self, loop: For) -> Iterator[Stmt]:
        """The trips of a loop, with a turn around each group of wgmmas."""
        mine, other = (NamedBarrierRef(self.turn.name, x) for x in (self.wg, 1 - self.wg))
        enter, hand = BarSync(mine), BarArrive(other)
        issued, early = list[Wgmma](), False
        for stmt in loop.body:
            match stmt:
                case WgmmaFence():
                    yield from (enter, stmt)
                case Wgmma():
                    issued.append(stmt)
                case WgmmaCommit():
                    covered = _last(issued)
                    early = len(issued) > covered
                    yield from (*issued[:-covered], stmt) if early else ()
                    yield from (*issued[-covered:], stmt)
                    issued = []
                case WgmmaWait() if early:
                    near = flying(replace(stmt.out, name=self.names.new(f"{stmt.out.name}_last")))
                    yield from (WgmmaWait(near, stmt.acc, 1), hand, replace(stmt, acc=near))
                case WgmmaWait():
                    yield from (stmt, hand)
                case _:
                    yield stmt


def _last(issued: Sequence[Wgmma]) -> int:
    """The fewest last ones that take :data:`COVER` cycles."""
    cycles = 0.0
    for n, s in enumerate(reversed(issued), 1):
        cycles += CYCLES * s.width * s.acc.type.blocks
        if cycles >= COVER:
            return n
    return len(issued)
