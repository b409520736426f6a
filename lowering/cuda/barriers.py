"""Rules for mbarriers, named barriers, CTA and cluster barriers, fences, and other grids."""

from __future__ import annotations

from collections.abc import Mapping

from lowering.cuda import watch
from lowering.cuda.emitter import Emitter, Rule
from lowering.cuda.expressions import SPECIAL_REGISTERS
from lowering.ground.errors import InternalError
from lowering.ground.expr import ONE
from lowering.kernel.nodes import (
    BarArrive,
    BarSync,
    ClusterSync,
    CtaNumber,
    CtaSync,
    FenceMBarrierInit,
    FenceProxyAsync,
    GridDepLaunchDependents,
    GridDepWait,
    MBarrierArrive,
    MBarrierExpectTx,
    MBarrierInit,
    MBarrierInval,
    MBarrierWait,
    Stmt,
    WarpSync,
)

__all__ = ["RULES"]


_ARRIVE = {
    False: {"release.cta": ""},
    True: {"release.cluster": "_remote", "relaxed.cluster": "_remote_relaxed"},
}
"""By whether the barrier is in another CTA: PTX order -> end of the wrapper's name."""

_WAIT = {"acquire.cta": "", "acquire.cluster": "_cluster", "relaxed.cluster": "_relaxed"}


def _order(s: Stmt, order: str, suffixes: dict[str, str]) -> str:
    if order not in suffixes:
        raise InternalError("emit_cuda", f"{s.OP} with order {order}, not {', '.join(suffixes)}")
    return suffixes[order]


def _mbarrier_init(e: Emitter, s: MBarrierInit) -> None:
    e.out.line(f"ptx::mbarrier_init({e.mbarrier(s.bar)}, {s.arrivals});")


def _mbarrier_arrive(e: Emitter, s: MBarrierArrive) -> None:
    suffix = _order(s, s.order, _ARRIVE[s.cta is not None])
    cta = "" if s.cta is None else f", {e.arg(s.cta)}"
    e.out.line(f"ptx::mbarrier_arrive{suffix}({e.mbarrier(s.bar)}{cta});")


def _mbarrier_expect_tx(e: Emitter, s: MBarrierExpectTx) -> None:
    if s.bytes is None:
        raise InternalError("emit_cuda", f"mbarrier.expect_tx on {s.bar.array} has no byte count")
    e.out.line(f"ptx::mbarrier_arrive_expect_tx({e.mbarrier(s.bar)}, {e.arg(s.bytes)});")


def _mbarrier_wait(e: Emitter, s: MBarrierWait) -> None:
    suffix = _order(s, s.order, _WAIT)
    if e.kernel.watch is not None:
        return watch.mbarrier_wait(e, s, suffix, e.kernel.watch)
    e.out.line(f"ptx::mbarrier_wait{suffix}({e.mbarrier(s.bar)}, {e.arg(s.parity)});")


def _mbarrier_inval(e: Emitter, s: MBarrierInval) -> None:
    e.out.line(f"ptx::mbarrier_inval({e.mbarrier(s.bar)});")


def _bar_sync(e: Emitter, s: BarSync) -> None:
    e.out.line(f"ptx::bar_sync({e.named_barrier(s.bar)});")


def _bar_arrive(e: Emitter, s: BarArrive) -> None:
    e.out.line(f"ptx::bar_arrive({e.named_barrier(s.bar)});")


def _cta_number(e: Emitter, s: CtaNumber) -> None:
    """The registers of the place, in place of those that the frame defines of other kernels."""
    kernel = e.kernel
    cta = f"{e.expr(s.number)} * {kernel.cluster} + {e.special('cluster.ctarank')}"
    cta = e.arg(s.number) if kernel.cluster == 1 else cta
    row = f"({cta}) / {e.special('nctaid.x')}"
    places = {"ctaid.x": cta}
    if kernel.splits > 1 or kernel.grid_y != ONE:
        places = {"ctaid.x": f"({cta}) % {e.special('nctaid.x')}", "ctaid.z": row}
    if kernel.grid_y != ONE:
        rows = e.special("nctaid.y")
        places |= {"ctaid.y": f"{row} % {rows}", "ctaid.z": f"{row} / {rows}"}
    for register, value in places.items():
        e.out.line(f"const int {SPECIAL_REGISTERS[register][0]} = {value};")


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
    WarpSync: _fixed("__syncwarp();"),
    GridDepWait: _fixed("ptx::griddepcontrol_wait();"),
    GridDepLaunchDependents: _fixed("ptx::griddepcontrol_launch_dependents();"),
    CtaNumber: _cta_number,
    CtaSync: _fixed("__syncthreads();"),
    ClusterSync: _fixed("ptx::cluster_sync();"),
}
