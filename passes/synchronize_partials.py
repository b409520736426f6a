"""Hand partial results from the CTA that computed them to the CTA that completes the tile.

Requires: ``frag.store_partial`` followed by ``publish``, ``await`` followed by
``frag.add_partial``, in a compute role; where parts are published, one warpgroup awaits all of
them.
Guarantees: as many counters as slots, 0 outside of the grid; that of the slot which stands for a
tile counts its parts. The threads of the warpgroup that stored meet in a barrier, then one raises
the counter with release semantics at GPU scope, which covers what it has met. One thread of the
warpgroup that adds waits for the counter with acquire semantics, sets it back for the next launch,
and meets the others in a barrier before they read. It waits once for all parts of a tile: each wait
is a way to the L2 and back.

Setting back needs no order: nobody raises it again in this grid, and the next grid of the stream
touches global memory when this one has ended.

After ``order_pingpong`` and before ``wait_for_earlier_grids``.
"""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.errors import InternalError
from lowering.ground.expr import ZERO, Const, Var
from lowering.kernel.kernel import Kernel, NamedBarrierArray
from lowering.kernel.nodes import (
    Atom,
    Await,
    BarSync,
    Body,
    CounterRef,
    CounterWait,
    NamedBarrierRef,
    PartialRef,
    Publish,
    Role,
    Roles,
    Stmt,
    one_thread,
)
from lowering.kernel.visit import Names, map_roles, rewrite, walk
from lowering.target import ptx
from passes.options import LoweringOptions

__all__ = ["synchronize_partials"]


def synchronize_partials(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Counters and barriers around partial results.

    before::

        frag.store_partial parts[7], sum
        publish parts[4]
        ...
        await parts[4], 2
        added: frag<f32, 64x256> = frag.add_partial partial, parts[7]

    after::

        named_barrier parts_sync[2] threads 128
        frag.store_partial parts[7], sum
        bar.sync parts_sync[wg]
        on %warpgroup.warp 0 {
          elect { was: i32 = atom add, ready[4], 1, order=release.gpu }
        }
        ...
        on %warpgroup.warp 0 {
          elect {
            counter.wait ready[4], 2
            was2: i32 = atom exch, ready[4], 0
          }
        }
        bar.sync parts_sync[wg]
        added: frag<f32, 64x256> = frag.add_partial partial, parts[7]

    Raises:
        InternalError: a workspace without counters.
    """
    for role in (r for s in kernel.body if isinstance(s, Roles) for r in s.roles):
        names = {s.at.array for s in walk(role.body) if isinstance(s, Await | Publish)}
        for name in sorted(names):
            kernel = _synchronized(kernel, role, name)
    return kernel


def _synchronized(kernel: Kernel, role: Role, workspace: str) -> Kernel:
    at = [w.name for w in kernel.workspaces].index(workspace)
    if at >= len(kernel.counters):
        raise InternalError("synchronize_partials", f"workspace {workspace} has no counters")
    flags, names = kernel.counters[at].name, Names(kernel)
    barrier = NamedBarrierArray(names.new(f"{workspace}_sync"), role.warps // 4, ptx.WARPGROUP)
    sync = BarSync(NamedBarrierRef(barrier.name, role.group or ZERO))

    def put(stmt: Stmt) -> Body | None:
        match stmt:
            case Publish(PartialRef(name, index)) if name == workspace:
                was, flag = Var(names.new("was")), CounterRef(flags, index)
                add = Atom(was, "add", flag, Const(1), "release.gpu")
                return (sync, one_thread(add, of="warpgroup.warp"))
            case Await(PartialRef(name, index), count) if name == workspace:
                was, flag = Var(names.new("was")), CounterRef(flags, index)
                wait, reset = CounterWait(flag, count), Atom(was, "exch", flag, ZERO)
                return (one_thread(wait, reset, of="warpgroup.warp"), sync)
        return None

    def placed(r: Role) -> Role:
        return replace(r, body=rewrite(r.body, put)) if r.name == role.name else r

    return map_roles(kernel.declare(barrier), placed)
