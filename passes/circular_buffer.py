"""Give the buffers of a circular buffer their stages and bracket each step with acquire/release.

Requires: ``produce ring, m`` / ``consume ring, m`` in front of the statements that fill and read
load step ``m``; ``m`` on the compute side is the legality relation's load index.
Guarantees: buffers have ``stages`` stages and every access inside a step names stage
``m % stages``; a step is acquired before it is filled, and waited for and released around its
reads. Which hardware object does the waiting is ``allocate_mbarriers``'s business.

After ``swizzle_shared`` (loads are copies), before ``synchronize_wgmma`` (which moves releases).
"""

from __future__ import annotations

from dataclasses import replace

from lowering.errors import ScheduleError
from lowering.ir.expr import Expr
from lowering.ir.kernel import CircularBuffer, Kernel
from lowering.ir.nodes import (
    Acquire,
    Body,
    Consume,
    MmaTile,
    Produce,
    Release,
    SmemRef,
    Stmt,
    TmaLoad,
    WaitFull,
)
from lowering.ir.visit import map_bodies
from lowering.options import LoweringOptions

__all__ = ["circular_buffer"]


def circular_buffer(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Stages for the buffers, ``m % stages`` for the accesses.

    before::

        produce ring, m
        tma.load A_s[0, 0, 0], A[row, m * 64]
        ...
        consume ring, k
        acc1: frag<f32, 64x256> = mma.tile acc, A_s[0, 0, 0], B_s[0, 0, 0], 64, 0 < k

    after::

        acquire ring, m
        tma.load A_s[m % 4, 0, 0], A[row, m * 64]
        ...
        wait_full ring, k
        acc1: frag<f32, 64x256> = mma.tile acc, A_s[k % 4, 0, 0], B_s[k % 4, 0, 0], 64, 0 < k
        release ring, k

    Raises:
        ScheduleError: too few stages for the wgmma groups that stay in flight.
    """
    stages: dict[str, int] = {}
    for ring in kernel.circular_buffers:
        _check(ring)
        stages |= dict.fromkeys(ring.buffers, ring.stages)
    shared = tuple(replace(b, stages=stages.get(b.name, b.stages)) for b in kernel.shared)
    return replace(kernel, shared=shared, body=_steps(kernel, kernel.body))


def _check(ring: CircularBuffer) -> None:
    if ring.stages <= ring.in_flight:
        raise ScheduleError(
            "stages",
            f"circular_buffer({', '.join(ring.buffers)}, stages={ring.stages})",
            f"a stage is released {ring.in_flight} steps late while that many wgmma groups stay in "
            f"flight, so the load side would wait for ever",
            (f"stages >= {ring.in_flight + 1}", f"wgmma_in_flight <= {ring.stages - 1}"),
        )


def _steps(kernel: Kernel, body: Body) -> Body:
    """``body`` with every step marker replaced and the accesses after it given their stage."""
    out: list[Stmt] = []
    after: list[Stmt] = []
    step: Expr | None = None
    ring: CircularBuffer | None = None
    for stmt in body:
        match stmt:
            case Produce(name, step):
                ring = kernel.ring(name)
                out.append(Acquire(name, step))
            case Consume(name, step):
                ring = kernel.ring(name)
                out.append(WaitFull(name, step))
                after.append(Release(name, step))
            case _ if ring is not None and step is not None:
                out.append(_staged(stmt, ring, step))
            case _:
                out.append(map_bodies(stmt, lambda inner: _steps(kernel, inner)))
    return tuple(out + after)


def _staged(stmt: Stmt, ring: CircularBuffer, step: Expr) -> Stmt:
    def staged(ref: SmemRef) -> SmemRef:
        return replace(ref, stage=step % ring.stages) if ref.buffer in ring.buffers else ref

    match stmt:
        case TmaLoad(dst=dst):
            return replace(stmt, dst=staged(dst))
        case MmaTile(a=a, b=b):
            return replace(stmt, a=staged(a), b=staged(b))
    return stmt
