"""Expand tile-level matrix products into asynchronous wgmma groups, and release stages when the
groups that read them are known to be done.

Requires: ``mma.tile`` in a k loop, followed by the ``release`` of the step it reads.
Guarantees: per k step one ``wgmma.fence``, the warp-k wgmmas, one ``wgmma.commit``, one
``wgmma.wait`` that leaves the circular buffer's ``in_flight`` groups pending; a step is released
only after a wait that covers its group; a wait for all groups stands between the loop and the first
use of the accumulator.

After ``circular_buffer`` (releases exist), before ``allocate_mbarriers`` (they become arrivals).
"""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.errors import InternalError, ScheduleError, UnsupportedError
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
from lowering.kernel.visit import Names, defined, map_bodies
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


def _body(kernel: Kernel, names: Names, body: Body) -> Body:
    out: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, For) and any(isinstance(s, MmaTile) for s in stmt.body):
            out.extend(_main_loop(kernel, names, stmt))
        else:
            out.append(map_bodies(stmt, lambda inner: _body(kernel, names, inner)))
    return tuple(out)


def _main_loop(kernel: Kernel, names: Names, loop: For) -> Body:
    mma = next(s for s in loop.body if isinstance(s, MmaTile))
    release = next((s for s in loop.body if isinstance(s, Release)), None)
    if release is None or len(loop.carries) != 1:
        raise InternalError("synchronize_wgmma", "the k loop has no release or carries a scalar")
    pending = kernel.ring(release.ring).in_flight
    if pending and isinstance(mma.a, Frag) and any(mma.a.name in defined(s) for s in loop.body):
        raise UnsupportedError(
            f"in_flight {pending} with A in registers that each step writes",
            "in_flight 0, or A written in front of the loop",
        )
    carry = loop.carries[0]
    if not isinstance(carry.var, Frag) or not isinstance(carry.result, Frag):
        raise InternalError("synchronize_wgmma", f"{carry.var.name} is not a fragment")

    flying = replace(carry.var, type=carry.var.type.flying()) if pending else carry.var
    result = carry.result
    if pending:
        name = names.new(f"{result.name}_async")
        result = Frag(name, result.type.flying())
    body: list[Stmt] = []
    for stmt in loop.body:
        match stmt:
            case MmaTile():
                body += _group(kernel, names, replace(mma, acc=flying), pending)
            case Release(ring, step) if pending:
                late = substitute(step, {loop.var: loop.var - pending})
                body.append(If(loop.start + (pending - 1) < loop.var, (Release(ring, late),)))
            case _:
                body.append(stmt)
    yields = tuple(_flying(mma.out) if pending else y for y in loop.yields)
    new = replace(
        loop, carries=(Carry(flying, carry.init, result),), body=tuple(body), yields=yields
    )
    if not pending:
        return (new,)
    return (new, WgmmaWait(carry.result, result, 0), *_drain(loop, release, pending))


def _drain(loop: For, release: Release, pending: int) -> Body:
    """Release the last steps of the loop, whose groups were still in flight."""
    out = []
    for i in range(pending, 0, -1):
        last = substitute(release.step, {loop.var: loop.stop - i})
        out.append(If(loop.start + (i - 1) < loop.stop, (Release(release.ring, last),)))
    return tuple(out)


def _flying(frag: Frag) -> Frag:
    return replace(frag, type=frag.type.flying())


def _group(kernel: Kernel, names: Names, mma: MmaTile, pending: int) -> Body:
    """The wgmmas of one k slice as one committed group."""
    step = kernel.target.mma.k(kernel.buffer(mma.b.buffer).dtype)
    kind = mma.out.type
    if mma.k % step or kind.cols not in kernel.target.mma.n or kind.rows % kernel.target.mma.m:
        raise ScheduleError(
            "wgmma",
            f"a warp tile of {kind.rows}x{kind.cols}x{mma.k}",
            "wgmma multiplies 64xNx16 with N a multiple of 8 up to 256",
            ("M a multiple of 64", "N a multiple of 8 from 8 to 256", f"K a multiple of {step}"),
        )
    pieces = _pieces(names, mma, step)
    out: list[Stmt] = [*pieces, WgmmaFence()]
    acc = mma.acc
    for k in range(0, mma.k, step):
        last = Frag(names.new(f"{mma.out.name}_k{k}"), kind.flying())
        accumulate = TRUE if k else mma.accumulate
        left = mma.a
        a = pieces[k // step].out if isinstance(left, Frag) else _along_k(left, k, mma.trans_a)
        b = _along_k(mma.b, k, mma.trans_b)
        out.append(Wgmma(last, acc, a, b, accumulate, mma.trans_a, mma.trans_b))
        acc = last
    done = _flying(mma.out) if pending else mma.out
    return (*out, WgmmaCommit(), WgmmaWait(done, acc, pending))


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
