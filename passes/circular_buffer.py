"""Give the buffers of a ring their stages and bracket each step with acquire and release.

Requires: ``produce ring, m`` / ``consume ring, m`` in front of the statements that fill and read
load step ``m``; ``m`` on the compute side is the legality relation's load index.
Guarantees: buffers have ``stages`` stages and every access inside a step names
``stage(m, stages)``; a step is acquired before it is filled, and committed behind what threads
write of it themselves (TMA completes its part by itself); it is waited for and released around its
reads. Which hardware object does the waiting is ``allocate_mbarriers``'s business.

After ``swizzle_shared`` (loads are copies), before ``synchronize_wgmma`` (which moves releases).
"""

from __future__ import annotations

from collections.abc import Mapping

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Expr, stage_of
from lowering.ground.frozen import replaced, values_of
from lowering.kernel.kernel import Kernel, Ring, SharedBuffer, TensorBuffer
from lowering.kernel.nodes import (
    Acquire,
    Body,
    Commit,
    Consume,
    Produce,
    Release,
    Stmt,
    WaitFull,
)
from lowering.kernel.operands import IN_STAGES
from lowering.kernel.ring_ends import copies, stores, sums
from lowering.kernel.visit import changed, map_bodies, operands, walk
from passes.options import LoweringOptions

__all__ = ["circular_buffer"]

_MANY = 64
"""Stages above which a kernel takes long to lower."""


def circular_buffer(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Stages for the buffers, and for the accesses the stage of their step.

    before::

        produce ring, m
        tma.load A_s[0, 0, 0], A[row, m * 64]
        ...
        consume ring, k
        acc1: frag<f32, 64x256> = mma.tile acc, A_s[0, 0, 0], B_s[0, 0, 0], 64, 0 < k

    after::

        acquire ring, m
        tma.load A_s[stage(m, 4), 0, 0], A[row, m * 64]
        ...
        wait_full ring, k
        acc1: frag<f32, 64x256> = mma.tile acc, A_s[stage(k, 4), 0, 0], B_s[...], 64, 0 < k
        release ring, k

    Raises:
        ScheduleError: too few stages for the wgmma groups that stay in flight, and the steps that
            their reader loads ahead; or many, that do not fit shared memory whatever else is there.
    """
    stages: dict[str, int] = {}
    for ring in kernel.rings:
        _check(ring)
        _require_room(kernel, ring)
        stages |= dict.fromkeys(ring.buffers, ring.stages)
    buffers: tuple[SharedBuffer | TensorBuffer, ...] = (*kernel.shared, *kernel.tensors)
    staged = (replaced(b, stages=stages.get(b.name, b.stages)) for b in buffers)
    return replaced(kernel.redeclare(*staged), body=_steps(kernel, kernel.body, {}))


def _check(ring: Ring) -> None:
    if ring.stages <= ring.in_flight:
        raise ScheduleError(
            "stages",
            f"circular_buffer({', '.join(ring.buffers)}, stages={ring.stages})",
            f"a stage is released {ring.in_flight} steps late while that many wgmma groups stay in "
            f"flight, so the load side would wait for ever",
            (f"stages >= {ring.in_flight + 1}", f"wgmma_in_flight <= {ring.stages - 1}"),
        )

    if ring.prefetch and ring.stages <= (used := ring.prefetch + ring.in_flight):
        raise ScheduleError(
            "stages",
            f"circular_buffer({', '.join(ring.buffers)}, stages={ring.stages}, "
            f"prefetch={ring.prefetch})",
            f"who loads {ring.prefetch} steps ahead reads them, too, and releases a stage "
            f"{ring.in_flight} steps late, so it would wait for itself",
            (f"stages >= {used + 1}",),
        )


def _require_room(kernel: Kernel, ring: Ring) -> None:
    """Refuse very many stages, before all passes have gone over a statement for each of them.

    ``allocate_shared`` refuses fewer, and knows what else is stored then.
    """
    sizes = {b.name: b.stage_bytes for b in kernel.shared if b.name in ring.buffers}
    stage, limit = sum(sizes.values()), kernel.target.shared_bytes
    if ring.stages <= _MANY or ring.stages * stage <= limit:
        return
    most = limit // stage
    raise ScheduleError(
        "smem",
        f"circular_buffer({', '.join(ring.buffers)}, stages={ring.stages})",
        f"{ring.stages} stages of {stage / 1024:.4g} KiB, limit {limit / 1024:.4g} KiB for all "
        "buffers",
        (f"stages <= {most}, prefetch < stages",) if most else (),
    )


def _steps(kernel: Kernel, body: Body, outer: Mapping[str, Expr]) -> Body:
    """``body`` with every step marker replaced and the accesses after it given their stage.

    A step is committed behind what threads last write of it, and released behind its last read.
    ``outer`` has the steps of the buffers in front of the body.
    """
    out: list[Stmt] = []
    steps = dict(outer)
    filling: dict[str, Commit] = {}
    reading: dict[str, Release] = {}
    behind: dict[Commit | Release, int] = {}
    for stmt in body:
        match stmt:
            case Produce(name, step):
                steps |= dict.fromkeys(kernel.ring(name).buffers, step)
                filling[name] = Commit(name, step)
                out.append(Acquire(name, step))
            case Consume(name, step):
                steps |= dict.fromkeys(kernel.ring(name).buffers, step)
                out.append(WaitFull(name, step))
                reading[name] = Release(name, step)
                behind[reading[name]] = len(out)
            case _:
                out.append(_staged(kernel, _inside(kernel, stmt, steps), steps))
                for name, commit in filling.items():
                    ring = kernel.ring(name)
                    if any(fills(ring, (stmt,)) for fills in (stores, copies, sums)):
                        behind[commit] = len(out)
                for name, release in reading.items():
                    if _reads(stmt, name) & set(kernel.ring(name).buffers):
                        behind[release] = len(out)
    for stmt, at in sorted(behind.items(), key=lambda b: -b[1]):
        out.insert(at, stmt)
    return tuple(out)


def _inside(kernel: Kernel, stmt: Stmt, steps: Mapping[str, Expr]) -> Stmt:
    return map_bodies(stmt, lambda inner: _steps(kernel, inner, steps))


def _reads(stmt: Stmt, ring: str) -> set[str]:
    """Buffers that a statement names, at any depth; not where it has steps of its own."""
    inside = tuple(walk((stmt,)))
    if any(isinstance(s, Consume | Produce) and s.ring == ring for s in inside):
        return set()
    return {x.buffer for s in inside for x in operands(s) if isinstance(x, IN_STAGES)}


def _staged(kernel: Kernel, stmt: Stmt, steps: Mapping[str, Expr]) -> Stmt:
    """``stmt`` with its references to buffers of a ring put into the stage of their step."""

    def staged(value: object) -> object:
        if not isinstance(value, IN_STAGES) or value.buffer not in steps:
            return value
        ring = next(r for r in kernel.rings if value.buffer in r.buffers)
        return replaced(value, stage=stage_of(steps[value.buffer], ring.stages))

    return changed(stmt, {name: staged(value) for name, value in values_of(stmt).items()})
