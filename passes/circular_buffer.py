"""Give the buffers of a circular buffer their stages and bracket each step with acquire/release.

Requires: ``produce ring, m`` / ``consume ring, m`` in front of the statements that fill and read
load step ``m``; ``m`` on the compute side is the legality relation's load index.
Guarantees: buffers have ``stages`` stages and every access inside a step names stage
``m % stages``; a step is acquired before it is filled, and waited for and released around its
reads. Which hardware object does the waiting is ``allocate_mbarriers``'s business.

After ``swizzle_shared`` (loads are copies), before ``synchronize_wgmma`` (which moves releases).
"""

from __future__ import annotations

from dataclasses import fields, replace

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Expr
from lowering.kernel.kernel import CircularBuffer, Kernel
from lowering.kernel.nodes import (
    Acquire,
    Body,
    Consume,
    Produce,
    Release,
    SmemRef,
    Stmt,
    WaitFull,
)
from lowering.kernel.visit import map_bodies
from passes.options import LoweringOptions

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
    shared = (replace(b, stages=stages.get(b.name, b.stages)) for b in kernel.shared)
    return replace(kernel.redeclare(*shared), body=_steps(kernel, kernel.body))


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
    """``body`` with every step marker replaced and the accesses after it given their stage.

    A step is released behind its last read.
    """
    out: list[Stmt] = []
    steps: dict[str, Expr] = {}
    release: dict[str, tuple[int, Release]] = {}
    for stmt in body:
        match stmt:
            case Produce(name, step):
                steps |= dict.fromkeys(kernel.ring(name).buffers, step)
                out.append(Acquire(name, step))
            case Consume(name, step):
                steps |= dict.fromkeys(kernel.ring(name).buffers, step)
                out.append(WaitFull(name, step))
                release[name] = len(out), Release(name, step)
            case _:
                stmt = map_bodies(stmt, lambda inner: _steps(kernel, inner))
                out.append(_staged(kernel, stmt, steps))
                for name, (_, last) in release.items():
                    if set(_reads(stmt)) & set(kernel.ring(name).buffers):
                        release[name] = len(out), last
    for at, stmt in sorted(release.values(), key=lambda r: -r[0]):
        out.insert(at, stmt)
    return tuple(out)


def _reads(stmt: Stmt) -> list[str]:
    """Shared buffers that a statement reads itself."""
    values = (getattr(stmt, f.name) for f in fields(stmt))
    return [v.buffer for v in values if isinstance(v, SmemRef)]


def _staged(kernel: Kernel, stmt: Stmt, steps: dict[str, Expr]) -> Stmt:
    """``stmt`` with its references to buffers of a ring put into the stage of their step."""

    def staged(value: object) -> object:
        if not isinstance(value, SmemRef) or value.buffer not in steps:
            return value
        ring = next(r for r in kernel.circular_buffers if value.buffer in r.buffers)
        return replace(value, stage=steps[value.buffer] % ring.stages)

    changes = {f.name: staged(getattr(stmt, f.name)) for f in fields(stmt)}
    return replace(stmt, **changes)
