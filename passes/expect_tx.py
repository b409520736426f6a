"""Count the bytes that each full barrier has to expect.

Requires: in each block, ``mbarrier.expect_tx`` on a barrier stands before the copies that
complete on it, in a branch if one CTA announces what several load.
Guarantees: every ``expect_tx`` announces exactly the bytes of its block's copies. A box counts in
full where it lies out of bounds, because the hardware completes it in full; a copy that peers
multicast into this CTA counts here, once for each peer that issues it, as does a copy whose barrier
is that of a pair of CTAs. A clipped box has as many
rows as its tensor, up to its own number: those bytes are a scalar, computed once in front of
everything.

After ``clip_boxes`` (rows of the boxes) and ``allocate_mbarriers`` (copies name their barrier).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lowering.ground.errors import InternalError
from lowering.ground.expr import ZERO, Const, Expr, Var, as_expr
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Body, If, Let, MBarrierExpectTx, MBarrierRef, Stmt, TmaLoad
from lowering.kernel.text import print_stmt
from lowering.kernel.visit import Names, map_bodies, rewrite
from passes.options import LoweringOptions

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

    after (the box of A[M, K] is clipped)::

        let step_bytes: i32 = min(M, 128) * 128 + 32768 once
        ...
        mbarrier.expect_tx full[s], bytes=step_bytes

    Raises:
        InternalError: a copy without an announcement before it, or an announcement of nothing.
    """
    counter = _Counter(kernel)
    body = counter.body(kernel.body)
    lets = tuple(Let(var, value, once=True) for value, var in counter.bound.items())
    return replace(kernel, body=(*lets, *body))


class _Counter:
    """``bound`` are the numbers of bytes that are no constants, and their names."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.names = Names(kernel)
        self.bound: dict[Expr, Var] = {}

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        announced: dict[MBarrierRef, int] = {}
        landing: dict[int, dict[Expr, int]] = {}
        for stmt in body:
            match stmt:
                case MBarrierExpectTx(bar=bar) | If(then=(MBarrierExpectTx(bar=bar),)):
                    announced[bar] = len(out)
                    landing[len(out)] = {}
                    out.append(stmt)
                case TmaLoad(bar=bar):
                    if bar is None or bar not in announced:
                        raise InternalError("expect_tx", f"no expect_tx before: {print_stmt(stmt)}")
                    lines = landing[announced[bar]]
                    count, line = self.box(stmt)
                    lines[count] = lines.get(count, 0) + line
                    out.append(stmt)
                case _:
                    out.append(map_bodies(stmt, self.body))
        for at, lines in landing.items():
            if not lines:
                raise InternalError("expect_tx", f"nothing lands on: {print_stmt(out[at])}")
            (out[at],) = rewrite((out[at],), partial(_announcing, self.bytes(lines)))
        return tuple(out)

    def bytes(self, lines: dict[Expr, int]) -> Expr:
        """The sum of lines times bytes of a line: a constant, or a name of it."""
        fixed = as_expr(sum(n.value * line for n, line in lines.items() if isinstance(n, Const)))
        total: Expr = ZERO
        for count, line in lines.items():
            if not isinstance(count, Const):
                total = total + count * line
        total = total + fixed
        if isinstance(total, Const):
            return total
        if total not in self.bound:
            self.bound[total] = Var(self.names.new("step_bytes"))
        return self.bound[total]

    def box(self, load: TmaLoad) -> tuple[Expr, int]:
        """Lines that are told of here for ``load``, and bytes of one: once for each CTA that
        multicasts one to us, as many as ours go to, and each whose copies our barrier counts.
        """
        tensor_map = self.kernel.tensor_map(load.src.map)
        line = tensor_map.dtype.size(tensor_map.box[-1])
        return tensor_map.box_lines, line * load.ctas * load.cta_group


def _announcing(bytes: Expr, stmt: Stmt) -> Body | None:
    return (replace(stmt, bytes=bytes),) if isinstance(stmt, MBarrierExpectTx) else None
