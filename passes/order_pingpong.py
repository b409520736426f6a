"""Let the warpgroups of a ping-pong kernel take turns on each circular buffer.

Requires: a circular buffer whose steps are each consumed by one of several groups, tile by tile or
because those of a tile deal out its steps, and a compute role with the loop that consumes them: the
main loop for the operands, the epilogue for matrices that it reads. Loops around it are over tiles,
and count turns of the groups in order.
Guarantees: a group enters its main loop only when the other has left its own, so one group's
epilogue runs under the other's main loop; likewise for epilogues that consume steps. Without that
a group could wait for a step of the second next phase, whose parity is that of the phase before.
A turn ends with the last wait for a step, not with the last wgmma: while those in flight drain, the
partner's first ones are already queued behind them, and the tensor core does not run dry.

Every ``bar.sync`` meets exactly one ``bar.arrive`` of the partner, for any number of tiles: the
partner arrives only if the other group has another turn, so a group without a tile neither waits
nor is waited for, and no arrival is left over at exit.

After ``synchronize_wgmma`` (it puts the last wait behind the loop), before ``allocate_mbarriers``.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from lowering.ground.errors import InternalError
from lowering.ground.expr import (
    FALSE,
    TRUE,
    ZERO,
    Expr,
    Var,
    binary,
    free_vars,
    select,
    substitute,
)
from lowering.ground.poly import same
from lowering.kernel.kernel import Kernel, NamedBarrierArray, Ring
from lowering.kernel.nodes import (
    BarArrive,
    BarSync,
    Body,
    Break,
    For,
    If,
    Let,
    NamedBarrierRef,
    NextTile,
    Role,
    Stmt,
    WaitFull,
)
from lowering.kernel.visit import Names, consumes, map_roles, walk
from lowering.target import ptx
from passes.options import LoweringOptions

__all__ = ["of_groups", "order_pingpong"]


def order_pingpong(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Ordering barriers around the loops that consume steps.

    before::

        for t in 0 .. ceildiv(max(tiles - wg, 0), 2) {
          for k in 0 .. n { wait_full ... }
          (epilogue)
        }

    after::

        named_barrier order[2] threads 256
        if wg == 1 and 0 < ceildiv(max(tiles, 0), 2) { bar.arrive order[0] }
        for t in 0 .. ceildiv(max(tiles - wg, 0), 2) {
          bar.sync order[wg]
          for k in 0 .. n { wait_full ... }
          if t + wg < ceildiv(max(tiles - (1 - wg), 0), 2) { bar.arrive order[1 - wg] }
          (epilogue)
        }

    The partner's turn that follows turn ``t`` of group ``wg`` is its turn ``t + wg``.

    Where tiles are handed out at run time, nobody knows whether the partner has another turn. Then
    each turn is handed over, and the group that finds the first end mark takes the last one, so
    that all arrivals are met; of several that share a tile, and so find it together, the first::

        if wg == 1 { bar.arrive order[0] }
        for t in 0 .. tiles + 1 {
          tile: i32 = next.tile queue, t * 2 + wg, tiles
          if tile == tiles { bar.sync order[wg] }
          break tiles <= tile
          bar.sync order[wg]
          for k in 0 .. n { wait_full ... }
          bar.arrive order[1 - wg]
          (epilogue)
        }

    Where a turn is a single step, it is the wait for it that is between the barriers.

    With more groups each hands its turn to the next one, the last to the first. A group that has
    one turn only, or none, has no loop over turns; whether it enters is a branch. Where several
    groups take a turn together, each team of neighbours meets the next one at a barrier of both.

    Where the groups of a team deal out steps of a ring, each has turns of its own with that; in a
    loop that waits for both kinds of rings, with both.

    Raises:
        InternalError: a consuming role without a group index, whole teams or equal shares of tiles.
    """
    by_place: dict[Body, list[Ring]] = {}
    for ring in kernel.rings:
        if ring.takers > 1 and (place := _place(kernel.body, ring)):
            by_place.setdefault(place, []).append(ring)
    takers = {r.name: r.takers for found in by_place.values() for r in found}
    for found in sorted(by_place.values(), key=lambda found: _finest(found).takers):
        finest = _finest(found)
        finer = frozenset(name for name, n in takers.items() if n > finest.takers)
        kernel = _order(kernel, finest, frozenset(r.name for r in found), frozenset(takers), finer)
    return kernel


def _finest(rings: Sequence[Ring]) -> Ring:
    """That of the most turns: one with it is one with all of them."""
    return max(rings, key=lambda r: r.takers)


def _drained(body: Body, enter: BarSync, first: Expr) -> Body:
    """``body`` of a loop that ends with a queue: at the first end mark, the turn that the partner
    has handed over is taken, though nothing is left to do with it, by the ``first`` who find it.
    """
    out: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, Break):
            asked = [s for s in out if isinstance(s, NextTile) and s.word == 0]
            out += (If(s.out.eq(s.tiles).logical_and(first), (enter,)) for s in asked)
        out.append(stmt)
    return tuple(out)


def _ends_with_queue(body: Body) -> bool:
    """Whether a queue says when a loop ends, not its bound."""
    return any(isinstance(s, NextTile) for s in body)


def _place(body: Body, ring: Ring) -> Body:
    """The loops that wait for steps of ``ring`` themselves: rings of one loop share its turns. The
    waits, where no loop is around them.
    """
    waits = tuple(s for s in walk(body) if isinstance(s, WaitFull) and s.ring == ring.name)
    loops = (s for s in walk(body) if isinstance(s, For) and any(x in waits for x in s.body))
    return tuple(loops) or waits


def _order(
    kernel: Kernel,
    ring: Ring,
    rings: frozenset[str],
    every: frozenset[str],
    finer: frozenset[str],
) -> Kernel:
    names = Names(kernel)
    declared: list[NamedBarrierArray] = []

    def role(r: Role) -> Role:
        if not consumes(r.body, ring.name):
            return r
        if r.group is None:
            raise InternalError("order_pingpong", f"role {r.name} has no group index")
        groups, rest = divmod(r.warps, 4 * ring.takers)
        if rest:
            why = f"role {r.name} of {r.warps // 4} groups is no {ring.takers} teams"
            raise InternalError("order_pingpong", why)
        order = NamedBarrierArray(names.new("order"), ring.takers, 2 * groups * ptx.WARPGROUP)
        declared.append(order)
        lets = of_groups(r)
        asked = {s.ring for s in walk(r.body) if isinstance(s, NextTile)}
        sharing = _sharing(r, ring, {q.takers for q in kernel.rings if q.name in asked})
        turns = _Turns(ring, rings, every, finer, order, r.group, groups, sharing, lets)
        return replace(r, body=turns.role(r.body))

    made = map_roles(kernel, role)
    return made.declare(*declared)


def _sharing(role: Role, ring: Ring, takers: Set[int]) -> int:
    """How many teams of ``ring`` have each tile of the queues that a role asks, which so many
    ``takers`` deal out among them; one without a queue.
    """
    each = min(takers, default=ring.takers)
    if len(takers) > 1 or ring.takers % each:
        some = " and ".join(map(str, sorted(takers)))
        why = (
            f"role {role.name} takes {ring.name} in {ring.takers} turns, tiles of a queue in {some}"
        )
        raise InternalError("order_pingpong", why)
    return ring.takers // each


def _takes(stmt: Stmt, rings: frozenset[str]) -> bool:
    """Whether a statement waits for steps of some rings, at any depth."""
    return any(consumes((stmt,), ring) for ring in rings)


def of_groups(role: Role) -> dict[Var, Expr]:
    """The bindings of a role that depend on its group index."""
    found: dict[Var, Expr] = {}
    known = {role.group}
    for stmt in walk(role.body):
        if isinstance(stmt, Let) and free_vars(stmt.value) & known:
            found[stmt.var] = stmt.value
            known.add(stmt.var)
    return found


@dataclass(frozen=True)
class _Turns:
    """The teams of a role, and the barriers that hand turns from each to the next.

    Args:
        ring: whose steps are taken in turns.
        rings: all whose steps are taken in these turns.
        every: all whose steps are taken in any turns.
        finer: those of them that have more turns, as the groups of a team deal out their steps.
        order: a barrier for each team.
        wg: index of the group.
        groups: how many groups a team has; they are neighbours.
        sharing: how many teams have each tile of a queue, one after the other: all of them read the
            entry that ends it.
        lets: the bindings of the role that depend on the group.
    """

    ring: Ring
    rings: frozenset[str]
    every: frozenset[str]
    finer: frozenset[str]
    order: NamedBarrierArray
    wg: Var
    groups: int
    sharing: int
    lets: dict[Var, Expr]

    @property
    def last(self) -> int:
        return self.ring.takers - 1

    @property
    def team(self) -> Expr:
        """Which team the group is in."""
        return self.wg // self.groups

    @property
    def first(self) -> Expr:
        """Whether the group's team begins a tile of a queue: others have it, too, behind it."""
        return TRUE if self.sharing == 1 else (self.team % self.sharing).eq(0)

    @property
    def next(self) -> Expr:
        """Whose turn is next."""
        team = self.team
        return 1 - team if self.last == 1 else select(team.eq(self.last), 0, team + 1)

    @property
    def partner(self) -> Expr:
        """A group of the next team: its first."""
        return self.next * self.groups

    def of(self, e: Expr, group: Expr) -> Expr:
        """What an expression is for another group."""
        while free_vars(e) & self.lets.keys():
            e = substitute(e, self.lets)
        return substitute(e, {self.wg: group})

    def bar(self, team: Expr) -> NamedBarrierRef:
        return NamedBarrierRef(self.order.name, team)

    def role(self, body: Body) -> Body:
        """The role with turns. In front of all turns stands what says that the first of these has
        come: the last team may be kept in those of another ring, until the first has had this one.
        """
        begins = self.begins(next(s for s in body if self.takes(s)))
        first = next(
            n for n, s in enumerate(body) if isinstance(s, BarSync) or _takes(s, self.every)
        )
        new = self.inside(body, (), TRUE)
        return (*new[:first], If(begins, (BarArrive(self.bar(ZERO)),)), *new[first:])

    def inside(self, body: Body, loops: tuple[For, ...], entry: Expr) -> Body:
        """A statement list in some tile loops, entered under a condition."""
        consuming = [
            n for n, s in enumerate(body)
            if isinstance(s, For | WaitFull) and self.takes(s)
        ]  # fmt: skip
        main = [n for n in consuming if not self.is_tile_loop(body[n])]
        if main:
            return self.turn(body, main[0], main[-1] + 1, loops, entry)
        out: list[Stmt] = []
        for n, stmt in enumerate(body):
            match stmt:
                case For() if n in consuming:
                    inner = self.inside(stmt.body, (*loops, stmt), entry)
                    if _ends_with_queue(stmt.body):
                        inner = _drained(inner, BarSync(self.bar(self.team)), self.first)
                    stmt = replace(stmt, body=inner)
                case If(cond=cond) if self.takes(stmt):
                    then = self.inside(stmt.then, loops, entry.logical_and(cond))
                    stmt = replace(stmt, then=then)
            out.append(stmt)
        return tuple(out)

    def takes(self, stmt: Stmt) -> bool:
        """Whether a statement waits for steps of these turns."""
        return _takes(stmt, self.rings)

    def is_tile_loop(self, loop: Stmt) -> bool:
        """Whether a loop has turns in it, and is none itself, as one over steps of a tile is: its
        trips wait in loops of their own, or for a step each that does not follow the one before,
        which others take between. Steps of a tile may be dealt out, too: then the next team goes on
        in the same trip.
        """
        if not isinstance(loop, For):
            return False
        for s in loop.body:
            if isinstance(s, WaitFull) and s.ring in self.rings:
                return not same(substitute(s.step, {loop.var: loop.var + 1}), s.step + 1)
        inner = [s for s in loop.body if isinstance(s, For) and self.takes(s)]
        if loop.unroll or loop.of_one_tile:
            return any(map(self.is_tile_loop, inner)) or self.is_handed_on(loop)
        return bool(inner)

    def is_handed_on(self, loop: For) -> bool:
        """Whether the steps that the second team takes in a trip follow those of the first."""
        last, first = self.ends(loop.body)
        if last is None or first is None:
            return False
        return same(self.of(first, ZERO + self.groups), self.of(last, ZERO) + 1)

    def ends(self, body: Body) -> tuple[Expr | None, Expr | None]:
        """The last and the first step that a statement list waits for, in loops of its own."""
        for s in body:
            if isinstance(s, WaitFull) and s.ring in self.rings:
                return s.step, s.step
            if isinstance(s, For) and self.takes(s):
                last, first = self.ends(s.body)
                if last is not None and first is not None:
                    last = substitute(last, {s.var: s.stop - 1})
                    return last, substitute(first, {s.var: s.start})
        return None, None

    def turn(self, body: Body, start: int, stop: int, loops: tuple[For, ...], entry: Expr) -> Body:
        """The list with a turn from ``start`` to ``stop``.

        A team meets at the barrier. Where its groups deal out steps in front of ``start`` one that
        is ahead would hold a step, or have a turn, for which another waits on its way to the
        barrier, so the turn begins in front of that.
        """
        start = next((n for n, s in enumerate(body[:start]) if _takes(s, self.finer)), start)
        enter, hand = BarSync(self.bar(self.team)), BarArrive(self.bar(self.next))
        if any(_ends_with_queue(loop.body) for loop in loops):
            return (*body[:start], enter, *body[start:stop], hand, *body[stop:])
        leave = If(self.follows(loops, entry), (hand,))
        return (*body[:start], enter, *body[start:stop], leave, *body[stop:])

    def follows(self, loops: tuple[For, ...], entry: Expr) -> Expr:
        """Whether the next group has a turn behind this one: that of the last one is the first's,
        and of the next tile.
        """
        stops = [(loop.var, self.of(loop.stop, self.partner)) for loop in loops]
        if len(loops) == 1 and self.last == 1:
            ((var, stop),) = stops
            return var + self.team < stop
        same = self.of(entry, self.partner)
        following: Expr = FALSE
        for var, stop in stops:
            same = same.logical_and(var < stop)
            following = binary("or", following, var + 1 < stop)
        is_last = self.team.eq(self.last)
        comes = (self.team < self.last).logical_and(same)
        return binary("or", is_last.logical_and(following), comes)

    def begins(self, stmt: Stmt) -> Expr:
        """Whether this is the last team, which lets the first one begin, and that has a turn."""
        begins = self.team.eq(self.last)
        while isinstance(stmt, For | If):
            if isinstance(stmt, If):
                begins, inner = begins.logical_and(self.of(stmt.cond, ZERO)), stmt.then
            else:
                if not self.is_tile_loop(stmt) or _ends_with_queue(stmt.body):
                    break
                begins, inner = begins.logical_and(self.of(stmt.stop, ZERO) > ZERO), stmt.body
            stmt = next(s for s in inner if self.takes(s))
        return begins
