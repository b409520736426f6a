"""Which kernels may store a tile during the next one's main loop, and what holds it until then."""

from __future__ import annotations

from lowering.ground.errors import UnsupportedError
from lowering.target import ptx
from wsched.schedule.matmul.demands import Demands
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["held_registers", "refuse_deferred"]

_REGISTER, _RESULT = 4, 2
"""Bytes of a register, and of an element of a result: wider ones take as many registers again as
sums, for narrower ones nothing is built."""


def refuse_deferred(demands: Demands, params: MatmulParams) -> None:
    """Refuse to defer stores where there is no next main loop to store in, or no need to.

    Raises:
        UnsupportedError: what it is, and what defers stores.
    """
    if not params.deferred_stores:
        return
    what = next((text for text, found in _refused(demands, params) if found), "")
    if what:
        raise UnsupportedError(
            f"deferred_stores=True with {what}",
            "CTATiles and WarpSpecialized loads of tiles that CTAs go through whole, with 16-bit "
            "results that TMA stores, or threads add, and matrices of the epilogue that threads "
            "read",
        )


def _refused(demands: Demands, params: MatmulParams) -> tuple[tuple[str, bool], ...]:
    return (
        (f"{params.tiling_strategy}: a CTA has no next tile", not params.persistent),
        (f"{params.buffering_loop_level}: another warpgroup multiplies meanwhile",
         params.ping_pong),
        (f"{params.circular_buffering_strategy} loads", not params.warp_specialized),
        ("use_smem_epilogue=False", not (params.use_smem_epilogue or demands.added)),
        ("CTAs that add up parts of a tile", params.combines),
        ("warpgroups that share slices of K", params.along_k > 1),
        ("accumulators in tensor memory", params.mma_macro.target.tensor_memory is not None),
        ("results that are reductions", demands.reductions.results > 0),
        ("results of other than 16 bits", any(t.bytes != _RESULT for t in demands.results)),
        ("matrices that TMA loads for the epilogue", bool(demands.loaded(params))),
    )  # fmt: skip


def held_registers(demands: Demands, params: MatmulParams) -> int:
    """Registers of a thread for the results of its warpgroup's tile; none where they are stored at
    once.
    """
    if not params.deferred_stores:
        return 0
    warp = params.tile_sizes.warp_tile
    each = sum(t.bytes for t in demands.results)
    return warp.m * warp.n * each // _REGISTER // ptx.WARPGROUP
