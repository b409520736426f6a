"""Expand tile-level matrix products into asynchronous wgmma groups, and release stages when the
groups that read them are known to be done.

Requires: ``mma.tile`` followed by the ``release`` of the steps that it reads.
Guarantees: products that stand next to each other are one group: one ``wgmma.fence``, the wgmmas,
one ``wgmma.commit``. In a loop whose products only update accumulators that it carries, groups stay
in flight from one step to the next, as many steps as the circular buffers that the products read
allow (the fewest ``in_flight``): one ``wgmma.wait`` in each step leaves them pending, a step is
released only behind a wait that covers it, and waits for all groups stand behind the loop.
A step that makes A in registers is *rolling* (``wgmma_groups``): a group for each piece of K, one
step in flight. Everywhere else each group is waited for at once.

After ``circular_buffer`` (releases exist), before ``allocate_mbarriers`` (they become arrivals).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from lowering.ground.expr import substitute
from lowering.kernel.columns import Chain, chain_of
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    Carry,
    For,
    Frag,
    FragLoadGlobal,
    If,
    MmaTile,
    Release,
    SmemRef,
    Stmt,
    WgmmaWait,
)
from lowering.kernel.visit import Names, defined, map_bodies, used, walk
from lowering.target import ptx
from lowering.target.wgmma import AT_ONCE
from passes.options import LoweringOptions
from passes.wgmma_groups import flying, group, multiplying_warps, pieces, rolling

__all__ = ["synchronize_wgmma"]


def synchronize_wgmma(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """``mma.tile`` becomes a committed group of wgmmas.

    before::

        for k in 0 .. n carry (acc: frag<f32, 64x256> = zero -> sum) {
          wait_full ring, k
          acc1: frag<f32, 64x256> = mma.tile acc, A_s[s, 0, 0], B_s[s, 0, 0], 32, 0 < k
          release ring, k
          yield acc1
        }

    after, with one group in flight::

        for k in 0 .. n carry (acc: frag<f32, 64x256, async> = zero -> sum_async) {
          wait_full ring, k
          wgmma.fence
          acc_k0: frag<f32, 64x256, async> = wgmma acc, ..., accumulate=0 < k
          acc_k16: frag<f32, 64x256, async> = wgmma acc_k0, ...
          wgmma.commit
          acc1: frag<f32, 64x256, async> = wgmma.wait acc_k16, 1
          if 0 < k { release ring, k - 1 }
          yield acc1
        }
        sum: frag<f32, 64x256> = wgmma.wait sum_async, 0
        if 0 < n { release ring, n - 1 }

    A in registers is taken apart by columns, in front of the fence. A that the step makes, here of
    two instructions' K::

        left: frag<bf16, 64x32> = ldmatrix A_s[s, 0, 0]
        acc1: frag<f32, 64x256> = mma.tile acc, left, B_s[s, 0, 0], 32, 0 < k

    after::

        acc1_before0: frag<f32, 64x256, async> = wgmma.wait acc, 1
        left_k0: frag<bf16, 64x16> = ldmatrix A_s[s, 0, 0]
        wgmma.fence
        acc1_k0: frag<f32, 64x256, async> = wgmma acc1_before0, left_k0, ..., accumulate=0 < k
        wgmma.commit
        acc1_before16: frag<f32, 64x256, async> = wgmma.wait acc1_k0, 1
        left_k16: frag<bf16, 64x16> = ldmatrix A_s[s, 0, 16]
        ...
        if 0 < k { release ring, k - 1 }

    Raises:
        UnsupportedError: the accumulator or the k slice has no wgmma.
    """
    return replace(kernel, body=_body(kernel, Names(kernel), kernel.body))


def _runs(body: Body) -> Iterator[Body]:
    """Neighbours in a statement list: products, or what stands between them."""
    for _, stmts in groupby(body, lambda s: isinstance(s, MmaTile)):
        yield tuple(stmts)


def _products(body: Body) -> list[MmaTile]:
    return [s for s in body if isinstance(s, MmaTile)]


def _body(kernel: Kernel, names: Names, body: Body) -> Body:
    """A statement list, each of whose products is done behind its group."""
    if chains := _summed(kernel, body):
        return tuple(_rolling_step(kernel, names, body, chains, {}, flies=False))
    out: list[Stmt] = []
    for stmts in _runs(body):
        if run := _products(stmts):
            taken = {p.acc.name for p in run}
            out += group(kernel, names, run, [p for p in run if p.out.name not in taken])
        for stmt in () if run else stmts:
            if isinstance(stmt, For) and (flight := _flight(kernel, stmt)):
                out += _in_flight(kernel, names, stmt, flight)
            else:
                out.append(map_bodies(stmt, lambda inner: _body(kernel, names, inner)))
    return tuple(out)


@dataclass(frozen=True, slots=True)
class _Flight:
    """How a loop's products stay in flight.

    Args:
        steps: of the loop that may be in flight when the next one begins.
        late: releases that wait for products; the others are of what threads read.
        chains: what makes A in registers in each step, by its name; such a step is rolling.
    """

    steps: int
    late: tuple[Release, ...]
    chains: Mapping[str, Chain]


def _flight(kernel: Kernel, loop: For) -> _Flight | None:
    """Decided by what the loop does with its products; None where each is waited for."""
    products = _products(loop.body)
    values = {c.var.name for c in loop.carries} & {p.acc.name for p in products}
    values |= {p.out.name for p in products}
    others = tuple(s for s in loop.body if not isinstance(s, MmaTile))
    if not all(p.acc.name in values for p in products) or _uses(others, values):
        return None
    read = {x.buffer for p in products for x in (p.a, p.b) if isinstance(x, SmemRef)}
    releases = (s for s in loop.body if isinstance(s, Release))
    late = tuple(r for r in releases if read & set(kernel.ring(r.ring).buffers))
    steps = min((kernel.ring(r.ring).in_flight for r in late), default=0)
    chains = _chains(kernel, loop.body, products)
    if not steps or chains is None:
        return None
    return _Flight(1, late, chains) if chains else _Flight(steps, late, {})


def _summed(kernel: Kernel, body: Body) -> Mapping[str, Chain]:
    """What makes A of products in pieces whose sums the same step reads; nothing of others, nor
    where so many warpgroups multiply that one's waits are others' time.
    """
    products = _products(body)
    if multiplying_warps(kernel) >= ptx.WARPS * AT_ONCE:
        return {}
    others = tuple(s for s in body if not isinstance(s, MmaTile))
    if not products or not _uses(others, {p.out.name for p in products}):
        return {}
    found = _chains(kernel, body, products) or {}
    return found if found and pieces(kernel, products[0]) > 1 else {}


def _chains(kernel: Kernel, body: Body, products: list[MmaTile]) -> Mapping[str, Chain] | None:
    """What makes A of products in registers, by its name; None where it cannot be made piece by
    piece: not of one run of products of equal K, none of which goes into another's accumulator.
    """
    others = tuple(s for s in body if not isinstance(s, MmaTile))
    made = {name for s in others for name in defined(s)}
    lefts = [p.a for p in products if isinstance(p.a, Frag) and p.a.name in made]
    chains = {a.name: chain_of(body, a) for a in lefts}
    found = {name: chain for name, chain in chains.items() if chain is not None}
    one = len([run for run in _runs(body) if _products(run)]) == 1
    chained = any(p.acc.name == q.out.name for p in products for q in products)
    same = len({(p.k, kernel.buffer(p.b.buffer).dtype) for p in products}) == 1
    alone = not _uses(others, set(chains)) and not chained and one and same
    return found if not chains or (alone and len(found) == len(chains)) else None


def _uses(body: Body, values: set[str]) -> bool:
    return any(used(s) & values for s in walk(body))


def _in_flight(kernel: Kernel, names: Names, loop: For, flight: _Flight) -> Body:
    """A loop whose last steps are in flight, and what waits for them behind it."""
    products = _products(loop.body)
    taken, made = {p.acc.name for p in products}, {p.out.name for p in products}
    if flight.chains:
        late = {id(r): _later(loop, r, flight.steps) for r in flight.late}
        body = tuple(_rolling_step(kernel, names, loop.body, flight.chains, late))
    else:
        body = tuple(_step(kernel, names, loop, flight))
    waits, carries = [], []
    for carry in loop.carries:
        if isinstance(carry.var, Frag) and carry.var.name in taken:
            assert isinstance(carry.result, Frag)
            result = flying(replace(carry.result, name=names.new(f"{carry.result.name}_async")))
            waits.append(WgmmaWait(carry.result, result, 0))
            carry = Carry(flying(carry.var), carry.init, result)
        carries.append(carry)
    yields = tuple(flying(y) if isinstance(y, Frag) and y.name in made else y for y in loop.yields)
    new = replace(loop, carries=tuple(carries), body=body, yields=yields)
    drains = (s for release in flight.late for s in _drain(loop, release, flight.steps))
    return (new, *waits, *drains)


def _step(kernel: Kernel, names: Names, loop: For, flight: _Flight) -> Iterator[Stmt]:
    """One step: its groups, a wait that leaves so many steps, releases of an earlier one."""
    runs = [(_products(stmts), stmts) for stmts in _runs(loop.body)]
    groups = sum(1 for run, _ in runs if run)
    left = groups
    held: list[Stmt] = []
    for run, stmts in runs:
        if run:
            left -= 1
            run = [replace(p, acc=flying(p.acc)) for p in run]
            yield from group(kernel, names, run, [] if left else [run[-1]], flight.steps * groups)
        for stmt in () if run else stmts:
            if stmt in flight.late:
                held.append(_later(loop, stmt, flight.steps))
            else:
                yield map_bodies(stmt, lambda inner: _body(kernel, names, inner))
            if not left:
                yield from held
                held = []
    yield from held


def _rolling_step(
    kernel: Kernel,
    names: Names,
    body: Body,
    chains: Mapping[str, Chain],
    late: Mapping[int, Stmt],
    flies: bool = True,
) -> Iterator[Stmt]:
    """One step whose A is made piece by piece, in front of the group that reads it.

    What the chains read of a ring is read then, so that it is released behind the groups; what is
    loaded for the next step in the place of numbers that they read is loaded there as well.

    Args:
        kernel: for its rings and buffers.
        names: of it.
        body: the step.
        chains: what makes A.
        late: what releases become that wait for products of a later step, by their ``id``.
        flies: whether products stay in flight.
    """
    read = {name for chain in chains.values() for name in chain.buffers}
    made = {id(s) for chain in chains.values() for s in chain.stmts}
    products = _products(body)
    held: list[Stmt] = []
    begun = done = False
    for stmt in body:
        begun |= id(stmt) in made
        if id(stmt) in late:
            held.append(late[id(stmt)])
        elif stmt is products[0]:
            yield from rolling(kernel, names, products, chains, flies)
            done = True
        elif isinstance(stmt, MmaTile) or id(stmt) in made:
            pass
        elif _let_go(kernel, stmt, read) or (begun and not done and _for_next(body, stmt)):
            held.append(stmt)
        else:
            yield map_bodies(stmt, lambda inner: _body(kernel, names, inner))
        if done and not isinstance(stmt, MmaTile):
            yield from held
            held = []
    yield from held


def _let_go(kernel: Kernel, stmt: Stmt, read: set[str]) -> bool:
    """Whether a statement lets go of a ring with buffers that chains read."""
    return isinstance(stmt, Release) and bool(read & set(kernel.ring(stmt.ring).buffers))


def _for_next(body: Body, stmt: Stmt) -> bool:
    """Whether a statement of a step loads what nothing in it reads."""
    return isinstance(stmt, FragLoadGlobal) and not _uses(body, {stmt.out.name})


def _later(loop: For, release: Stmt, steps: int) -> Stmt:
    """A release that happens so many steps of the loop later."""
    assert isinstance(release, Release)
    step = substitute(release.step, {loop.var: loop.var - steps})
    return If(loop.start + (steps - 1) < loop.var, (replace(release, step=step),))


def _drain(loop: For, release: Release, pending: int) -> Body:
    """Release the last steps of the loop, whose groups were still in flight."""
    out = []
    for i in range(pending, 0, -1):
        last = substitute(release.step, {loop.var: loop.stop - i})
        out.append(If(loop.start + (i - 1) < loop.stop, (Release(release.ring, last),)))
    return tuple(out)
