"""Reduce a chunk while the store of one is under way, not all chunks in front of the first store.

Requires: unrolled loops of as many trips next to each other in a compute role: one that reduces
chunks of a fragment, one that stores them through shared memory, and between them what meets
behind the first.
Guarantees: one loop, in which each trip reduces its chunk behind its store, but for the last store:
in front of it stand the reduction of the last chunk and what met behind the loop of reductions.
Where a trip has a loop of stores, as of transposed chunks, of which each 64 rows are a box, a chunk
is reduced behind all of its own, but the last chunk in front of the last of them. The
wait for a staging buffer to be read, which comes in front of the next store, has arithmetic to hide
behind, and nothing but the store itself is behind the last one; the order of the reductions is as
it was.

Barriers of the warps in front of rows that they store for each other go: they kept those of the
tile before, and every trip passes barriers of the same warps between the reads of the last tile and
its own reduction. Where the stores' barriers are of other warps, both loops stay.

After ``reduce_across_warps`` and ``reduce_lanes_last``, before ``allocate_named_barriers``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lowering.ground.expr import Const, Expr
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    BarSync,
    Body,
    Carry,
    For,
    Frag,
    FragReduce,
    FragReduceToShared,
    FragStoreGlobal,
    FragStoreReduced,
    Stmt,
    TmaStore,
)
from lowering.kernel.visit import Names, defined_in, map_bodies, rename, used_in, walk
from passes.chunks import trips_of
from passes.options import LoweringOptions

__all__ = ["reduce_behind_stores"]

_REDUCED = (FragReduce, FragReduceToShared)
_MEETING = (*_REDUCED, BarSync, FragStoreGlobal, FragStoreReduced)
"""What may stand behind a loop of reductions beside what has no effect but its value."""


def reduce_behind_stores(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Two loops become one.

    before::

        bar.sync rows[wg]
        for c in 0 .. 4 unroll {
          frag.reduce_to_shared sum, sums_s[wg, 0, c * 32], x
        }
        bar.sync rows[wg]
        frag.store_reduced sum, T[i, n], sums_s[wg, 0, 0], 4, 128
        for d in 0 .. 4 unroll {
          on %warpgroup.warp 0 { elect { bulk.wait 0, read=true } }
          bar.sync D_store[wg]
          ...
          on %warpgroup.warp 0 { elect { tma.store D[...], D_s[...]  bulk.commit } }
        }

    after::

        for d in 0 .. 3 unroll {
          on %warpgroup.warp 0 { elect { bulk.wait 0, read=true } }
          bar.sync D_store[wg]
          ...
          on %warpgroup.warp 0 { elect { tma.store D[...], D_s[...]  bulk.commit } }
          frag.reduce_to_shared sum, sums_s[wg, 0, d * 32], x
        }
        frag.reduce_to_shared sum, sums_s[wg, 0, 96], x
        bar.sync rows[wg]
        frag.store_reduced sum, T[i, n], sums_s[wg, 0, 0], 4, 128
        on %warpgroup.warp 0 { elect { bulk.wait 0, read=true } }
        bar.sync D_store[wg]
        ...
        on %warpgroup.warp 0 { elect { tma.store D[...], D_s[...]  bulk.commit } }
    """
    if not any(isinstance(s, _REDUCED) for s in walk(kernel.body)):
        return kernel
    threads = {b.name: b.threads for b in kernel.named_barriers}
    return replace(kernel, body=_merged(kernel.body, Names(kernel), threads))


def _merged(body: Body, names: Names, threads: Mapping[str, int]) -> Body:
    out = list[Stmt]()
    for stmt in body:
        stmt = map_bodies(stmt, lambda inner: _merged(inner, names, threads))
        at = next((n for n, s in enumerate(out) if isinstance(s, For) and _reduces(s)), None)
        if not isinstance(stmt, For) or at is None or not _may_wait(out[at:], stmt):
            out.append(stmt)
            continue
        reducing, *meeting = out[at:]
        assert isinstance(reducing, For)
        kept = _unkept(meeting)
        gone = [s for s in meeting if isinstance(s, BarSync) and not any(s is x for x in kept)]
        # The rows' barrier in front, which stands behind all as well.
        twice = [s for s in out[max(at - 1, 0) : at] if isinstance(s, BarSync) and s in meeting]
        in_trip = (s for s in _in_every_trip(stmt.body) if isinstance(s, BarSync))
        met = {_warps(s, threads) for s in in_trip}
        if met.issuperset(_warps(s, threads) for s in (*gone, *twice)):
            out[at - len(twice) :] = _one(stmt, reducing, kept, names)
        else:
            out.append(stmt)
    return tuple(out)


def _warps(sync: BarSync, threads: Mapping[str, int]) -> tuple[Expr, int]:
    """Which warps of a role meet: those for which the barrier has this number, so many threads."""
    return sync.bar.index, threads[sync.bar.array]


def _reduces(loop: For) -> bool:
    """Whether a loop does nothing but reduce chunks of fragments."""
    plain = all(s.TRAITS.pure or isinstance(s, _REDUCED) for s in walk(loop.body))
    return plain and trips_of(loop) > 1 and any(isinstance(s, _REDUCED) for s in loop.body)


def _may_wait(front: list[Stmt], storing: For) -> bool:
    """Whether a loop of reductions, with what stands behind it, may do so for the stores."""
    reducing, *meeting = front
    assert isinstance(reducing, For)
    statements = list(walk(storing.body))
    stores = any(isinstance(s, TmaStore) for s in statements) and not storing.carries
    meets = any(isinstance(s, BarSync) for s in _in_every_trip(storing.body))
    alike = trips_of(storing) == trips_of(reducing)
    apart = not defined_in(front) & used_in((storing,))
    still = all(s.TRAITS.pure or isinstance(s, _MEETING) for s in meeting)
    return stores and meets and alike and apart and still


def _in_every_trip(body: Body) -> Iterator[Stmt]:
    """The statements of a trip, and those of unrolled loops in it, of which none has no trips."""
    for stmt in body:
        yield stmt
        if isinstance(stmt, For) and trips_of(stmt) > 0:
            yield from _in_every_trip(stmt.body)


def _unkept(meeting: Sequence[Stmt]) -> Body:
    """What meets, without barriers in front of rows that warps store."""
    following = (*meeting[1:], None)
    return tuple(
        s for s, behind in zip(meeting, following, strict=True)
        if not (isinstance(s, BarSync) and isinstance(behind, FragReduceToShared))
    )  # fmt: skip


def _one(storing: For, reducing: For, meeting: Body, names: Names) -> Body:
    """Each trip stores, then reduces; the last store is behind all that is reduced, the others of
    its trip in front of that.
    """
    last, carries, table = Const(trips_of(storing) - 1), list[Carry](), dict[str, Frag]()
    for carry, given in zip(reducing.carries, reducing.yields, strict=True):
        var, result = carry.var, carry.result
        assert isinstance(var, Frag) and isinstance(result, Frag) and isinstance(given, Frag)
        so_far = replace(result, name=names.new(f"{result.name}_but_last"))
        carries.append(replace(carry, result=so_far))
        table |= {var.name: so_far, given.name: result}
    behind = rename(reducing.body, {reducing.var: storing.var})
    loop = replace(
        storing, stop=last, body=(*storing.body, *behind), carries=tuple(carries),
        yields=reducing.yields,
    )  # fmt: skip
    reduced = names.once_more(reducing.body, {reducing.var: last}, table)
    front, store = _last_store(names.once_more(storing.body, {storing.var: last}), names)
    return loop, *front, *reduced, *meeting, *store


def _last_store(body: Body, names: Names) -> tuple[Body, Body]:
    """What a trip does in front of its last store, and that store."""
    *front, inner = body
    if not isinstance(inner, For) or trips_of(inner) < 2 or inner.carries:
        return (), body
    last = Const(trips_of(inner) - 1)
    return (*front, replace(inner, stop=last)), names.once_more(inner.body, {inner.var: last})
