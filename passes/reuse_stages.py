"""Let the epilogue's buffers lie where the operands' stages were.

Requires: store buffers exist; the operands' last product and its wait, and behind them the first
access to a store buffer, stand in no loop: each CTA computes one tile.
Guarantees: what TMA stores from says which stages it lies ``over``, and all warps that read those
meet behind the wait for their last product. So nobody reads a stage, or waits for one, that a store
is written over; the kernel proof claims it (:mod:`lowering.proof.reuse`).

After ``chunk_epilogue``, before ``allocate_named_barriers`` and ``allocate_shared``.
"""

from __future__ import annotations

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import ZERO
from lowering.ground.frozen import fields_of, replaced
from lowering.kernel.kernel import Kernel, NamedBarrierArray
from lowering.kernel.nodes import (
    BarSync,
    Body,
    NamedBarrierRef,
    Roles,
    SmemRef,
    Stmt,
    TmaStore,
    Wgmma,
    WgmmaWait,
)
from lowering.kernel.visit import Names, map_roles, walk
from lowering.target import ptx
from passes.options import LoweringOptions

__all__ = ["reuse_stages"]


def reuse_stages(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Where the options ask for it, a meeting behind the main loop, and buffers over stages;
    nothing where results do not go through shared memory.

    before::

        shared D_s: bf16[2][64x64] swizzle 128
        total = wgmma.wait acc, 0
        stmatrix D_s[group, 0, 0], out

    after::

        shared D_s: bf16[2][64x64] swizzle 128 over A_s, B_s
        named_barrier stages_read[1] threads 256
        total = wgmma.wait acc, 0
        bar.sync stages_read[0]
        stmatrix D_s[group, 0, 0], out

    Raises:
        UnsupportedError: operands are read and results stored in one loop, or in several roles.
    """
    if not options.promote_prologue_smem_reuse:
        return kernel
    found = [r for s in kernel.body if isinstance(s, Roles) for r in s.roles if _operands(r.body)]
    stores = {s.src.buffer for r in found for s in walk(r.body) if isinstance(s, TmaStore)}
    if not stores:
        return kernel
    if len(found) != 1:
        raise _refused(f"{len(found)} roles that multiply")
    (role,) = found
    operands = _operands(role.body)
    read = [i for i, s in enumerate(role.body) if _uses(s, operands) or _settles(s)]
    written = [i for i, s in enumerate(role.body) if _uses(s, stores)]
    if not written or read[-1] >= written[0]:
        raise _refused("a loop that reads operands and stores results")
    barrier = NamedBarrierArray(Names(kernel).new("stages_read"), 1, role.warps * ptx.WARP)
    meeting = BarSync(NamedBarrierRef(barrier.name, ZERO))
    at = read[-1] + 1
    body = (*role.body[:at], meeting, *role.body[at:])
    over = (replaced(kernel.buffer(n), over=operands) for n in sorted(stores))
    kernel = kernel.redeclare(*over).declare(barrier)
    return map_roles(kernel, lambda r: replaced(r, body=body) if r == role else r)


def _operands(body: Body) -> tuple[str, ...]:
    """The shared buffers that products read, each once."""
    products = (s for s in walk(body) if isinstance(s, Wgmma))
    refs = (x.buffer for s in products for x in (s.a, s.b) if isinstance(x, SmemRef))
    return tuple(dict.fromkeys(refs))


def _uses(stmt: Stmt, buffers: tuple[str, ...] | set[str]) -> bool:
    refs = (x for s in walk((stmt,)) for x in fields_of(s) if isinstance(x, SmemRef))
    return any(x.buffer in buffers for x in refs)


def _settles(stmt: Stmt) -> bool:
    return any(isinstance(s, WgmmaWait) for s in walk((stmt,)))


def _refused(what: str) -> UnsupportedError:
    supported = "one tile for each CTA, stored through shared memory"
    return UnsupportedError(f"promote_prologue_smem_reuse with {what}", supported)
