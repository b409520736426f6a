"""Count the bytes that each full barrier has to expect.

Requires: in each block, ``mbarrier.expect_tx`` on a barrier stands before the copies that
complete on it.
Guarantees: every ``expect_tx`` announces exactly the bytes of its block's copies. A box counts in
full where it lies out of bounds, because the hardware completes it in full; a copy that peers
multicast into this CTA counts here, once for each peer that issues it.

After ``allocate_mbarriers`` (copies name their barrier).
"""

from __future__ import annotations

from dataclasses import replace

from lowering.errors import InternalError
from lowering.ir.expr import Binary, Const
from lowering.ir.kernel import Kernel
from lowering.ir.nodes import Body, MBarrierExpectTx, MBarrierRef, Stmt, TmaLoad
from lowering.ir.text import print_stmt
from lowering.ir.visit import map_bodies
from lowering.options import LoweringOptions

__all__ = ["expect_tx"]


def expect_tx(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Fill in the bytes of ``mbarrier.expect_tx``.

    before::

        mbarrier.expect_tx full[s]
        tma.load A_s[s, 0, 0], A[row, k], bar=full[s]
        tma.load B_s[s, 0, 0], B[col, k], bar=full[s]

    after (boxes of 128x64 and 256x64 two-byte elements)::

        mbarrier.expect_tx full[s], bytes=49152
        ...

    Raises:
        InternalError: a copy without an announcement before it, or an announcement of nothing.
    """
    return replace(kernel, body=_count(kernel, kernel.body))


def _count(kernel: Kernel, body: Body) -> Body:
    out: list[Stmt] = []
    announced: dict[MBarrierRef, int] = {}
    for stmt in body:
        match stmt:
            case MBarrierExpectTx(bar=bar):
                announced[bar] = len(out)
                out.append(replace(stmt, bytes=0))
            case TmaLoad(bar=bar):
                if bar is None or bar not in announced:
                    raise InternalError("expect_tx", f"no expect_tx before: {print_stmt(stmt)}")
                at = announced[bar]
                before = out[at]
                assert isinstance(before, MBarrierExpectTx)
                out[at] = replace(before, bytes=(before.bytes or 0) + _box_bytes(kernel, stmt))
                out.append(stmt)
            case _:
                out.append(map_bodies(stmt, lambda inner: _count(kernel, inner)))
    for at in announced.values():
        stmt = out[at]
        if isinstance(stmt, MBarrierExpectTx) and not stmt.bytes:
            raise InternalError("expect_tx", f"nothing lands on: {print_stmt(stmt)}")
    return tuple(out)


def _box_bytes(kernel: Kernel, load: TmaLoad) -> int:
    """Bytes that land here for ``load``: the box, once for each CTA that multicasts one to us."""
    tensor_map = kernel.tensor_map(load.src.map)
    rows, cols = tensor_map.box
    return rows * cols * tensor_map.dtype.bytes * _senders(load)


def _senders(load: TmaLoad) -> int:
    """CTAs that issue this copy to us: as many as we issue it to, because they all share a tile."""
    match load.multicast:
        case None:
            return 1
        case Binary("<<", Const(pattern), _):
            return pattern.bit_count()
    raise InternalError("expect_tx", f"a mask that is no shifted pattern: {load.multicast}")
