"""Let the two warpgroups of a ping-pong kernel take turns on each circular buffer.

Requires: a circular buffer whose steps are each consumed by one of two groups, and a compute role
whose tile loop contains the loop that consumes them: the main loop for the operands, the epilogue
for matrices that it reads.
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

from dataclasses import replace

from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.expr import ZERO, Binary, Expr, Var, substitute
from lowering.kernel.kernel import CircularBuffer, Kernel, NamedBarrierArray
from lowering.kernel.nodes import (
    BarArrive,
    BarSync,
    Body,
    Break,
    For,
    If,
    NamedBarrierRef,
    Role,
    Stmt,
    WaitFull,
)
from lowering.kernel.visit import Names, consumes, map_roles, walk
from lowering.target import ptx
from passes.options import LoweringOptions

__all__ = ["order_pingpong"]


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
    that all arrivals are met::

        if wg == 1 { bar.arrive order[0] }
        for t in 0 .. tiles + 1 {
          tile: i32 = next.tile queue, t * 2 + wg
          if tile == tiles { bar.sync order[wg] }
          break tiles <= tile
          bar.sync order[wg]
          for k in 0 .. n { wait_full ... }
          bar.arrive order[1 - wg]
          (epilogue)
        }

    Raises:
        UnsupportedError: more than two groups.
        InternalError: a consuming role without a group index or without a tile loop.
    """
    by_place: dict[Body, CircularBuffer] = {}
    for ring in kernel.circular_buffers:
        if ring.consumers < ring.groups:
            by_place.setdefault(_place(kernel.body, ring), ring)
    for ring in by_place.values():
        kernel = _order(kernel, ring)
    return kernel


def _drained(body: Body, enter: BarSync) -> Body:
    """``body`` of a loop that ends with a queue: at the first end mark, the turn that the partner
    has handed over is taken, though nothing is left to do with it.
    """
    out: list[Stmt] = []
    for stmt in body:
        match stmt:
            case Break(Binary("<=", tiles, tile)):
                out.append(If(tile.eq(tiles), (enter,)))
        out.append(stmt)
    return tuple(out)


def _place(body: Body, ring: CircularBuffer) -> Body:
    """The loops that wait for steps of ``ring`` themselves: rings of one loop share its turns."""
    return tuple(
        s
        for s in walk(body)
        if isinstance(s, For)
        and any(isinstance(x, WaitFull) and x.ring == ring.name for x in s.body)
    )


def _order(kernel: Kernel, ring: CircularBuffer) -> Kernel:
    if (ring.groups, ring.consumers) != (2, 1):
        raise UnsupportedError(f"ping-pong over {ring.groups} compute warpgroups", "two warpgroups")
    names = Names(kernel)
    order = NamedBarrierArray(names.new("order"), 2, 2 * ptx.WARPGROUP)

    def role(r: Role) -> Role:
        if not consumes(r.body, ring.name):
            return r
        if r.group is None:
            raise InternalError("order_pingpong", f"role {r.name} has no group index")
        body = _take_turns(r.body, ring, order, r.group)
        if body == r.body:
            raise InternalError(
                "order_pingpong", f"role {r.name} has no tile loop around its main loop"
            )
        return replace(r, body=body)

    kernel = replace(kernel, named_barriers=(*kernel.named_barriers, order))
    return map_roles(kernel, role)


def _take_turns(body: Body, ring: CircularBuffer, order: NamedBarrierArray, wg: Var) -> Body:
    out: list[Stmt] = []
    for stmt in body:
        inside = stmt.body if isinstance(stmt, For) else ()
        loops = ((i, s) for i, s in enumerate(inside) if isinstance(s, For))
        main = [i for i, s in loops if consumes(s.body, ring.name)]
        if not (isinstance(stmt, For) and main):
            out.append(stmt)
            continue
        partner: Expr = 1 - wg
        turns = substitute(stmt.stop, {wg: partner})
        begin = wg.eq(1).logical_and(substitute(stmt.stop, {wg: ZERO}) > ZERO)
        out.append(If(begin, (BarArrive(NamedBarrierRef(order.name, ZERO)),)))
        start, at = main[0], main[-1] + 1
        enter = BarSync(NamedBarrierRef(order.name, wg))
        if any(isinstance(s, Break) for s in stmt.body):
            out[-1] = If(wg.eq(1), (BarArrive(NamedBarrierRef(order.name, ZERO)),))
            hand = BarArrive(NamedBarrierRef(order.name, partner))
            body = (*stmt.body[:start], enter, *stmt.body[start:at], hand, *stmt.body[at:])
            out.append(replace(stmt, body=_drained(body, enter)))
            continue
        leave = If(stmt.var + wg < turns, (BarArrive(NamedBarrierRef(order.name, partner)),))
        new = (*stmt.body[:start], enter, *stmt.body[start:at], leave, *stmt.body[at:])
        out.append(replace(stmt, body=new))
    return tuple(out)
