"""Rules for mbarriers, named barriers, CTA and cluster barriers, fences, and other grids."""

from __future__ import annotations

from collections.abc import Mapping

from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.expr import ONE, Special
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
from lowering.kernel.places import named_barrier
from lowering.mlir.emitter import Emitter, Rule
from lowering.mlir.ssa import I64

__all__ = ["RULES"]

_REMOTE = {"release.cluster", "relaxed.cluster"}
_WAITS = {"acquire.cta", "acquire.cluster", "relaxed.cluster"}


def _mbarrier_init(e: Emitter, s: MBarrierInit) -> None:
    at, count = e.pointer(e.mbarrier(s.bar)), e.out.constant(s.arrivals)
    e.out.line(f"nvvm.mbarrier.init {at}, {count} : {at.type}, i32")


def _mbarrier_arrive(e: Emitter, s: MBarrierArrive) -> None:
    """Nvvm arrives at the barriers of its own CTA; others are inline PTX."""
    if s.cta is None:
        if s.order != "release.cta":
            raise InternalError("emit_mlir", f"{s.OP} with order {s.order}")
        at = e.pointer(e.mbarrier(s.bar))
        e.out.op(f"nvvm.mbarrier.arrive {at} : {at.type} -> i64", I64)
        return
    if s.order not in _REMOTE:
        raise InternalError("emit_mlir", f"{s.OP} of another CTA with order {s.order}")
    e.asm(
        "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, $0, $1; "
        f"mbarrier.arrive.{s.order}.shared::cluster.b64 _, [remote]; }}",
        [e.expr(e.mbarrier(s.bar)), e.expr(s.cta)],
    )


def _mbarrier_expect_tx(e: Emitter, s: MBarrierExpectTx) -> None:
    if s.bytes is None:
        raise InternalError("emit_mlir", f"mbarrier.expect_tx on {s.bar.array} has no byte count")
    at, count = e.pointer(e.mbarrier(s.bar)), e.expr(s.bytes)
    e.out.line(f"nvvm.mbarrier.arrive.expect_tx {at}, {count} : {at.type}, i32")


def _mbarrier_wait(e: Emitter, s: MBarrierWait) -> None:
    """Inline PTX: nvvm's wait names a time, and with one a warp sleeps before it asks again."""
    if s.order not in _WAITS:
        raise InternalError("emit_mlir", f"{s.OP} with order {s.order}")
    if e.kernel.watch is not None:
        raise UnsupportedError(f"{s.OP} with a bound in MLIR", "waits without a watchdog")
    e.asm(
        "{ .reg .pred done; again: mbarrier.try_wait.parity."
        f"{s.order}.shared::cta.b64 done, [$0], $1; @!done bra again; }}",
        [e.expr(e.mbarrier(s.bar)), e.expr(s.parity)],
    )


def _mbarrier_inval(e: Emitter, s: MBarrierInval) -> None:
    at = e.pointer(e.mbarrier(s.bar))
    e.out.line(f"nvvm.mbarrier.inval {at} : {at.type}")


# The intrinsics of ``nvvm.barrier``, whose short form LLVM 22 reads past its end if the operation
# behind it is written in the generic form.
_BARRIER = 'llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.{}"'


def _bar_sync(e: Emitter, s: BarSync) -> None:
    number, threads = named_barrier(e.kernel, s.bar)
    operands = f"{e.expr(number)}, {e.out.constant(threads)}"
    e.out.line(f"{_BARRIER.format('count')}({operands}) : (i32, i32) -> ()")


def _bar_arrive(e: Emitter, s: BarArrive) -> None:
    number, threads = named_barrier(e.kernel, s.bar)
    operands = f"id = {e.expr(number)} number_of_threads = {e.out.constant(threads)}"
    e.out.line(f"nvvm.barrier.arrive {operands}")


def _cta_sync(e: Emitter, s: CtaSync) -> None:
    e.out.line(f"{_BARRIER.format('all')}({e.out.constant(0)}) : (i32) -> ()")


def _warp_sync(e: Emitter, s: WarpSync) -> None:
    e.out.line(f"nvvm.bar.warp.sync {e.out.constant(-1)} : i32")


def _cta_number(e: Emitter, s: CtaNumber) -> None:
    """The place of this CTA, in place of what the registers say."""
    kernel, width = e.kernel, Special("nctaid.x")
    cta = s.number
    if kernel.cluster > 1:
        cta = cta * kernel.cluster + Special("cluster.ctarank")
    places = {"ctaid.x": cta}
    if kernel.splits > 1 or kernel.grid_y != ONE:
        places = {"ctaid.x": cta % width, "ctaid.z": cta // width}
    if kernel.grid_y != ONE:
        rows = Special("nctaid.y")
        places |= {"ctaid.y": cta // width % rows, "ctaid.z": cta // width // rows}
    for register, value in [(r, e.expr(v)) for r, v in places.items()]:
        e.replace_special(register, value)


def _fixed(*lines: str) -> Rule:
    """Rule of a node without operands."""

    def rule(e: Emitter, s: Stmt) -> None:
        for line in lines:
            e.out.line(line)

    return rule


RULES: Mapping[type[Stmt], Rule] = {
    MBarrierInit: _mbarrier_init,
    MBarrierArrive: _mbarrier_arrive,
    MBarrierExpectTx: _mbarrier_expect_tx,
    MBarrierWait: _mbarrier_wait,
    MBarrierInval: _mbarrier_inval,
    BarSync: _bar_sync,
    BarArrive: _bar_arrive,
    FenceMBarrierInit: _fixed("nvvm.fence.mbarrier.init"),
    FenceProxyAsync: _fixed(
        '"nvvm.fence.proxy"() <{kind = #nvvm.proxy_kind<async.shared>, '
        "space = #nvvm.shared_space<cta>}> : () -> ()"
    ),
    WarpSync: _warp_sync,
    GridDepWait: _fixed("nvvm.griddepcontrol wait"),
    GridDepLaunchDependents: _fixed("nvvm.griddepcontrol launch_dependents"),
    CtaNumber: _cta_number,
    CtaSync: _cta_sync,
    # Attributes in angle brackets: the short form of these operations has changed over versions.
    ClusterSync: _fixed(
        '"nvvm.cluster.arrive"() <{aligned}> : () -> ()',
        '"nvvm.cluster.wait"() <{aligned}> : () -> ()',
    ),
}
