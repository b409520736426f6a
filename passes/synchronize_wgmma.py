"""Expand tile-level matrix products into asynchronous wgmma groups, and release stages when the
groups that read them are known to be done.

Requires: ``mma.tile`` followed by the ``release`` of the steps that it reads.
Guarantees: products that stand next to each other are one group: one ``wgmma.fence``, the wgmmas,
one ``wgmma.commit``. In a loop whose products only update accumulators that it carries, groups stay
in flight from one step to the next, as many steps as the circular buffers that the products read
allow (the fewest ``in_flight``): one ``wgmma.wait`` in each step leaves them pending, a step is
released only behind a wait that covers it, and waits for all groups stand behind the loop.
Everywhere else each group is waited for at once.

After ``circular_buffer`` (releases exist), before ``allocate_mbarriers`` (they become arrivals).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.ground.expr import TRUE, Const, substitute
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    Carry,
    For,
    Frag,
    FragColumns,
    If,
    MmaTile,
    Release,
    SmemRef,
    Stmt,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from lowering.kernel.visit import Names, defined, map_bodies, used, walk
from passes.options import LoweringOptions

__all__ = ["synchronize_wgmma"]


def synchronize_wgmma(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """``mma.tile`` becomes a committed group of wgmmas.

    before::

        for k in 0 .. n carry (acc: frag<f32, 64x256> = zero -> sum) {
          wait_full ring, k
          acc1: frag<f32, 64x256> = mma.tile acc, A_s[k % 4, 0, 0], B_s[k % 4, 0, 0], 32, 0 < k
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

    A in registers is taken apart by columns, in front of the fence.

    Raises:
        ScheduleError: the accumulator or the k slice has no wgmma.
        UnsupportedError: groups stay in flight while the next step would write their A in
            registers.
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
    out: list[Stmt] = []
    for stmts in _runs(body):
        if run := _products(stmts):
            taken = {p.acc.name for p in run}
            out += _group(kernel, names, run, [p for p in run if p.out.name not in taken])
        for stmt in () if run else stmts:
            if isinstance(stmt, For) and (pending := _pending(kernel, stmt)):
                out += _in_flight(kernel, names, stmt, pending)
            else:
                out.append(map_bodies(stmt, lambda inner: _body(kernel, names, inner)))
    return tuple(out)


def _pending(kernel: Kernel, loop: For) -> int:
    """Steps of a loop whose products may stay in flight when the next one begins."""
    products = _products(loop.body)
    values = {c.var.name for c in loop.carries} & {p.acc.name for p in products}
    values |= {p.out.name for p in products}
    others = walk(tuple(s for s in loop.body if not isinstance(s, MmaTile)))
    if not all(p.acc.name in values for p in products) or any(used(s) & values for s in others):
        return 0
    return min((kernel.ring(r.ring).in_flight for r in _late(kernel, loop)), default=0)


def _late(kernel: Kernel, loop: For) -> list[Release]:
    """Releases of a loop that have to wait for its products; others are of what threads read."""
    products = _products(loop.body)
    read = {x.buffer for p in products for x in (p.a, p.b) if isinstance(x, SmemRef)}
    releases = (s for s in loop.body if isinstance(s, Release))
    return [r for r in releases if read & set(kernel.ring(r.ring).buffers)]


def _in_flight(kernel: Kernel, names: Names, loop: For, pending: int) -> Body:
    """A loop whose last ``pending`` steps are in flight, and what waits for them behind it."""
    products = _products(loop.body)
    for p in products:
        if isinstance(p.a, Frag) and any(p.a.name in defined(s) for s in loop.body):
            raise UnsupportedError(
                f"in_flight {pending} with A in registers that each step writes",
                "in_flight 0, or A written in front of the loop",
            )
    taken, made = {p.acc.name for p in products}, {p.out.name for p in products}
    late = _late(kernel, loop)
    body = list(_step(kernel, names, loop, pending, late))
    waits, carries = [], []
    for carry in loop.carries:
        if isinstance(carry.var, Frag) and carry.var.name in taken:
            assert isinstance(carry.result, Frag)
            result = _flying(replace(carry.result, name=names.new(f"{carry.result.name}_async")))
            waits.append(WgmmaWait(carry.result, result, 0))
            carry = Carry(_flying(carry.var), carry.init, result)
        carries.append(carry)
    yields = tuple(_flying(y) if isinstance(y, Frag) and y.name in made else y for y in loop.yields)
    new = replace(loop, carries=tuple(carries), body=tuple(body), yields=yields)
    return (new, *waits, *(s for release in late for s in _drain(loop, release, pending)))


def _step(
    kernel: Kernel, names: Names, loop: For, pending: int, late: list[Release]
) -> Iterator[Stmt]:
    """One step: its groups, a wait that leaves ``pending`` steps, releases of an earlier one."""
    runs = [(_products(stmts), stmts) for stmts in _runs(loop.body)]
    groups = sum(1 for run, _ in runs if run)
    left, held = groups, []
    for run, stmts in runs:
        if run:
            left -= 1
            run = [replace(p, acc=_flying(p.acc)) for p in run]
            yield from _group(kernel, names, run, [] if left else [run[-1]], pending * groups)
        for stmt in () if run else stmts:
            if isinstance(stmt, Release) and stmt in late:
                step = substitute(stmt.step, {loop.var: loop.var - pending})
                released = (replace(stmt, step=step),)
                held.append(If(loop.start + (pending - 1) < loop.var, released))
            else:
                yield map_bodies(stmt, lambda inner: _body(kernel, names, inner))
            if not left:
                yield from held
                held = []


def _drain(loop: For, release: Release, pending: int) -> Body:
    """Release the last steps of the loop, whose groups were still in flight."""
    out = []
    for i in range(pending, 0, -1):
        last = substitute(release.step, {loop.var: loop.stop - i})
        out.append(If(loop.start + (i - 1) < loop.stop, (Release(release.ring, last),)))
    return tuple(out)


def _flying(frag: Frag) -> Frag:
    return replace(frag, type=frag.type.flying())


def _group(
    kernel: Kernel, names: Names, run: list[MmaTile], waited: list[MmaTile], pending: int = 0
) -> Body:
    """Products as one committed group, and the waits for some that leave ``pending`` groups."""
    pieces = [_pieces(names, p, _instruction_k(kernel, p)) for p in run]
    out: list[Stmt] = [s for of_one in pieces for s in of_one]
    out.append(WgmmaFence())
    waits: list[Stmt] = []
    flying: dict[str, Frag] = {}
    for p, parts in zip(run, pieces, strict=True):
        new = _wgmmas(kernel, names, replace(p, acc=flying.get(p.acc.name, p.acc)), parts)
        last = new[-1].out
        if p in waited:
            waits.append(WgmmaWait(_flying(p.out) if pending else p.out, last, pending))
        else:
            new[-1] = replace(new[-1], out=replace(last, name=p.out.name))
        flying[p.out.name] = new[-1].out
        out += new
    return (*out, WgmmaCommit(), *waits)


def _instruction_k(kernel: Kernel, mma: MmaTile) -> int:
    """K of one wgmma of a product; refuses what no wgmma computes."""
    step = kernel.target.mma.k(kernel.buffer(mma.b.buffer).dtype)
    kind = mma.out.type
    if mma.k % step or kind.cols not in kernel.target.mma.n or kind.rows % kernel.target.mma.m:
        raise ScheduleError(
            "wgmma",
            f"a warp tile of {kind.rows}x{kind.cols}x{mma.k}",
            "wgmma multiplies 64xNx16 with N a multiple of 8 up to 256",
            ("M a multiple of 64", "N a multiple of 8 from 8 to 256", f"K a multiple of {step}"),
        )
    return step


def _wgmmas(kernel: Kernel, names: Names, mma: MmaTile, pieces: list[FragColumns]) -> list[Wgmma]:
    """The wgmmas of one product; with A in registers ``pieces`` are the parts of it."""
    step = _instruction_k(kernel, mma)
    out: list[Wgmma] = []
    acc = mma.acc
    for k in range(0, mma.k, step):
        last = Frag(names.new(f"{mma.out.name}_k{k}"), mma.out.type.flying())
        accumulate = TRUE if k else mma.accumulate
        left = mma.a
        a = pieces[k // step].out if isinstance(left, Frag) else _along_k(left, k, mma.trans_a)
        b = _along_k(mma.b, k, mma.trans_b)
        out.append(Wgmma(last, acc, a, b, accumulate, mma.trans_a, mma.trans_b))
        acc = last
    return out


def _pieces(names: Names, mma: MmaTile, step: int) -> list[FragColumns]:
    """A in registers, an instruction's K at a time; nothing for A in shared memory."""
    if isinstance(mma.a, SmemRef):
        return []
    kind = replace(mma.a.type, cols=step)
    pieces = (Frag(names.new(f"{mma.a.name}_k{k}"), kind) for k in range(0, mma.k, step))
    return [FragColumns(p, mma.a, Const(step * i)) for i, p in enumerate(pieces)]


def _along_k(ref: SmemRef, k: int, trans: bool) -> SmemRef:
    """``ref`` moved by ``k`` elements of K, which are rows of an MN-major operand."""
    return ref.moved(k, 0) if trans else ref.moved(0, k)
