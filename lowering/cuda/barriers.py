"""Rules for mbarriers, named barriers, CTA and cluster barriers, and fences."""

from __future__ import annotations

from collections.abc import Mapping

from lowering.cuda.emitter import Emitter, Rule
from lowering.errors import InternalError
from lowering.ir.nodes import (
    BarArrive,
    BarSync,
    ClusterSync,
    CtaSync,
    FenceMBarrierInit,
    FenceProxyAsync,
    MBarrierArrive,
    MBarrierExpectTx,
    MBarrierInit,
    MBarrierInval,
    MBarrierWait,
    Stmt,
)

__all__ = ["RULES"]


def _mbarrier_init(e: Emitter, s: MBarrierInit) -> None:
    e.out.line(f"ptx::mbarrier_init({e.mbarrier(s.bar)}, {s.arrivals});")


def _mbarrier_arrive(e: Emitter, s: MBarrierArrive) -> None:
    if s.cta is None:
        e.out.line(f"ptx::mbarrier_arrive({e.mbarrier(s.bar)});")
    else:
        e.out.line(f"ptx::mbarrier_arrive_remote({e.mbarrier(s.bar)}, {e.arg(s.cta)});")


def _mbarrier_expect_tx(e: Emitter, s: MBarrierExpectTx) -> None:
    if s.bytes is None:
        raise InternalError("emit_cuda", f"mbarrier.expect_tx on {s.bar.array} has no byte count")
    e.out.line(f"ptx::mbarrier_arrive_expect_tx({e.mbarrier(s.bar)}, {s.bytes});")


def _mbarrier_wait(e: Emitter, s: MBarrierWait) -> None:
    scopes = {"cta": "", "cluster": "_cluster"}
    if s.scope not in scopes:
        raise InternalError("emit_cuda", f"mbarrier.wait with scope {s.scope}")
    function = f"ptx::mbarrier_wait{scopes[s.scope]}"
    e.out.line(f"{function}({e.mbarrier(s.bar)}, {e.arg(s.parity)});")


def _mbarrier_inval(e: Emitter, s: MBarrierInval) -> None:
    e.out.line(f"ptx::mbarrier_inval({e.mbarrier(s.bar)});")


def _bar_sync(e: Emitter, s: BarSync) -> None:
    e.out.line(f"ptx::bar_sync({e.named_barrier(s.bar)});")


def _bar_arrive(e: Emitter, s: BarArrive) -> None:
    e.out.line(f"ptx::bar_arrive({e.named_barrier(s.bar)});")


def _fixed(text: str) -> Rule:
    """Rule of a node without operands."""

    def rule(e: Emitter, s: Stmt) -> None:
        e.out.line(text)

    return rule


RULES: Mapping[type[Stmt], Rule] = {
    MBarrierInit: _mbarrier_init,
    MBarrierArrive: _mbarrier_arrive,
    MBarrierExpectTx: _mbarrier_expect_tx,
    MBarrierWait: _mbarrier_wait,
    MBarrierInval: _mbarrier_inval,
    BarSync: _bar_sync,
    BarArrive: _bar_arrive,
    FenceMBarrierInit: _fixed("ptx::fence_mbarrier_init();"),
    FenceProxyAsync: _fixed("ptx::fence_proxy_async();"),
    CtaSync: _fixed("__syncthreads();"),
    ClusterSync: _fixed("ptx::cluster_sync();"),
}
