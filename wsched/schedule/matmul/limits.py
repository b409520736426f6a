"""Which matmul parameters are legal on a target, with a reason for each refusal."""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.dtypes import DType
from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.target import ptx
from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from wsched.fusion import Fusion
from wsched.schedule.matmul.chunks import chunk_columns, chunk_problem, chunk_turns, unboxed
from wsched.schedule.matmul.computed_limits import computed_reasons, computed_registers
from wsched.schedule.matmul.deferred import held_registers, refuse_deferred
from wsched.schedule.matmul.demands import Demands
from wsched.schedule.matmul.early import prefetch_reasons, refuse_prefetch
from wsched.schedule.matmul.grid import grid_reasons
from wsched.schedule.matmul.instruction import instruction_reasons, refuse_in_tensor_memory
from wsched.schedule.matmul.k_order import refuse_other_k_orders
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.part_limits import refuse_parts
from wsched.schedule.matmul.reductions import reduction_reasons
from wsched.schedule.matmul.scaled_limits import scaled_reasons, scaled_registers
from wsched.schedule.matmul.shared import fitting_stages, require_room, shared_bytes
from wsched.schedule.matmul.siblings import sharing_reasons
from wsched.schedule.matmul.slice_limits import slice_reasons
from wsched.schedule.matmul.swizzles import swizzle_reasons
from wsched.schedule.matmul.thread_loads import (
    refuse_thread_loads,
    thread_load_pairs,
    thread_load_reasons,
)
from wsched.schedule.primitives.checks import Reasons
from wsched.schedule.proof.loading import load_registers_problem
from wsched.schedule.registers import BARE_REGISTERS, FURTHER_REGISTERS, SPARE_REGISTERS

__all__ = [
    "RegisterPair", "check_params", "chunk_columns", "fitting_stages", "register_candidates",
    "registers_left", "require_legal", "require_legal_for", "settled", "shared_bytes",
]  # fmt: skip

RegisterPair = tuple[int, int] | None


def register_candidates(
    fusion: Fusion, params: MatmulParams, target: Target = DEFAULT
) -> tuple[RegisterPair, ...]:
    """The register pairs (load, compute) that parameters stand for, in the order to try them.

    For ``"auto"`` these are the pairs that leave room for accumulators and epilogue, those with
    most registers for the load warpgroup first; None where a CTA's registers cannot be moved.
    """
    pairs = _pairs(params, target)
    demands = Demands.of(fusion, target)
    need = sum(max(_needs(demands.stored(params), params), key=sum))
    fitting = tuple(p for p in pairs if need <= _compute_registers(params, p, target))
    return fitting or pairs[-1:]


def settled(fusion: Fusion, params: MatmulParams, target: Target = DEFAULT) -> MatmulParams:
    """Legal parameters with the first of their register pairs."""
    return replace(params, num_registers=register_candidates(fusion, params, target)[0])


def require_legal(fusion: Fusion, params: MatmulParams, target: Target = DEFAULT) -> None:
    """Refuse parameters that are illegal or have no kernel.

    Raises:
        UnsupportedError: legal in nvFuser, but not built.
        ScheduleError: rule ``params``, with every reason; rule ``smem`` with the stages that fit.
    """
    require_legal_for(Demands.of(fusion, target), params)


def require_legal_for(demands: Demands, params: MatmulParams) -> None:
    """The same for every fusion that demands this; raises as :func:`require_legal`."""
    target = demands.target
    refuse_other_k_orders(params)
    _refuse_unsupported(params)
    refuse_in_tensor_memory(demands, params)
    if params.combines and demands.products > 1:
        raise UnsupportedError(
            f"{demands.products} products of which CTAs add up parts", "one, or whole tiles"
        )
    refuse_parts(demands, params)
    demands = demands.stored(params)
    refuse_deferred(demands, params)
    demands = demands.exchanged if params.exchange_operands else demands
    reasons = check_params(params, target) or _fusion_reasons(demands, params)
    if reasons:
        tiles = params.tile_sizes
        wrote = f"MatmulParams(cta_tile={tiles.cta_tile}, warp_tile={tiles.warp_tile}, ...)"
        raise ScheduleError("params", wrote, "; ".join(reasons))
    require_room(demands, params)


def check_params(params: MatmulParams, target: Target = DEFAULT) -> Reasons:
    """All reasons why the parameters are illegal on any problem."""
    return _tile_reasons(params) or [
        *instruction_reasons(params, target),
        *_buffer_reasons(params),
        *_register_reasons(params, target),
        *grid_reasons(params, target),
    ]


def _fusion_reasons(demands: Demands, params: MatmulParams) -> Reasons:
    """Reasons why the parameters are illegal for these types and operands that lie in memory so."""
    tile = params.output_tile
    reasons = [*swizzle_reasons(demands, params), *computed_reasons(demands, params)]
    reasons += sharing_reasons(params, demands.grouped)
    reasons += _added_reasons(demands, params)
    reasons += [*scaled_reasons(demands, params), *slice_reasons(demands, params)]
    k = params.tile_sizes.warp_tile.k
    reasons += _operand_reasons(demands, params.mma_macro.n, k, params.halves)
    if params.halves and demands.promotion:
        reasons.append(
            f"accumulators=Half: every {demands.promotion} of K sums are promoted to fp32"
        )
    if params.batch_invariant and demands.promotion and tile.k % demands.promotion:
        reasons.append(
            f"the tile's k {tile.k} is no multiple of {demands.promotion}, after which sums are "
            "promoted in every batch-invariant schedule"
        )
    reasons += _too_many(demands, params)
    reasons += thread_load_reasons(demands, params)
    reasons += reduction_reasons(demands.reductions, params)
    types = (*demands.results, *demands.loaded(params), *demands.reductions.types)
    columns = chunk_columns(params, *types)
    chunks = chunk_turns(params, columns)
    if params.epilogue_stages > chunks:
        reasons.append(
            f"epilogue_stages={params.epilogue_stages}: a tile has {chunks} epilogue chunks, no "
            "more buffers than that are used"
        )
    if narrow := unboxed(params, columns, *demands.results):
        reasons.append(
            f"use_smem_epilogue=True: chunks of {columns} columns of {narrow} are rows of "
            f"{columns * narrow.bytes} bytes, TMA stores multiples of {ptx.TMA_STRIDE_ALIGN}"
        )
    for wide in [t for t in demands.results if t.bytes != 2]:
        if params.exchange_operands and params.use_smem_epilogue:
            reasons.append(
                f"exchange_operands=True with use_smem_epilogue=True: stmatrix transposes 16-bit "
                f"elements, a result is {wide}"
            )
    return reasons


def _added_reasons(demands: Demands, params: MatmulParams) -> Reasons:
    """Why a kernel cannot add the rows of its results to others."""
    if not demands.added:
        return []
    found = (
        ("use_smem_epilogue=True: TMA stores rows that lie one behind the other, threads add them",
         params.use_smem_epilogue),
        ("exchange_operands=True: rows that are added are columns of a tile",
         params.exchange_operands),
        ("batch_invariant=True: rows are added as CTAs come", params.batch_invariant),
    )  # fmt: skip
    return [why for why, wrong in found if wrong]


def _operand_reasons(demands: Demands, n: int, k: int, halves: bool) -> Reasons:
    """Why an instruction of ``n`` columns does not take ``k`` of K of the operands as they lie, or
    sums their products in fp16.
    """
    mma, operand = demands.target.mma, demands.operand.element
    acc = DType.F16 if halves else mma.accumulator(operand, operand) or DType.F32
    found = mma.problem(operand, operand, acc, n)
    reasons: Reasons = [found] if found else []
    if k % mma.k(operand):
        reasons.append(
            f"the tile's k {k} is no multiple of {mma.k(operand)}, {mma.name}'s of "
            f"{demands.operand}"
        )
    for axis, major in (("M", demands.m_major), ("N", demands.n_major)):
        if major and not mma.transposes(operand):
            reasons.append(
                f"{mma.name} reads {demands.operand} with K contiguous, an operand has {axis}"
            )
    return reasons


def _refuse_unsupported(params: MatmulParams) -> None:
    tiles = params.tile_sizes
    if params.combines and not params.warp_specialized:
        split = f"splitk_factor={params.splitk_factor}"
        raise UnsupportedError(
            "circular_buffering_strategy=Pipelined with "
            + ("DistributeStagesAcrossSMs" if params.stream_k else split),
            "WarpSpecialized where CTAs add up parts of a tile",
        )
    if params.combines and params.halves:
        raise UnsupportedError(
            "accumulators=Half where CTAs add up parts of a tile", "Widest: parts are fp32 or int32"
        )
    if params.dynamic and params.combines:
        raise UnsupportedError(
            f"splitk_factor={params.splitk_factor} with DistributeTilesDynamically",
            "splitk_factor with OneTilePerCTA or DistributeTilesAcrossSMs",
        )
    refuse_thread_loads(params)
    if params.dynamic and not params.warp_specialized:
        raise UnsupportedError(
            "tiling_strategy=DistributeTilesDynamically with Pipelined loads",
            "WarpSpecialized: a warp of the load warpgroup fetches tiles",
        )
    refuse_prefetch(params)
    if not params.use_ldst_matrix:
        raise UnsupportedError("use_ldst_matrix=False", "use_ldst_matrix=True")
    if params.promote_prologue_smem_reuse and params.persistent:
        raise UnsupportedError(
            f"promote_prologue_smem_reuse=True with {params.tiling_strategy}",
            "OneTilePerCTA: stages of a persistent kernel hold the next tile while one is stored",
        )
    if params.ping_pong and not params.persistent:
        raise UnsupportedError(
            "buffering_loop_level=WarpTiles with tiling_strategy=OneTilePerCTA",
            "WarpTiles with DistributeTilesAcrossSMs: a warpgroup needs a second tile to overlap",
        )
    if params.ping_pong and min(tiles.warp_tile.m, tiles.warp_tile.n) > 0 and params.warpgroups > 2:
        what = f"ping-pong over {params.warpgroups} compute warpgroups"
        raise UnsupportedError(what, "two warpgroups")


def _tile_reasons(params: MatmulParams) -> Reasons:
    cta, warp = params.tile_sizes.cta_tile, params.tile_sizes.warp_tile
    if min(cta.m, cta.n, cta.k, warp.m, warp.n, warp.k) < 1:
        return ["tiles have positive sizes"]
    reasons = [
        f"the CTA tile's {axis} {c} is no multiple of the warp tile's {w}"
        for axis, c, w in (("m", cta.m, warp.m), ("n", cta.n, warp.n))
        if c % w
    ]
    if cta.k % warp.k:
        reasons.append(f"the CTA tile's k {cta.k} is no multiple of the warp tile's {warp.k}")
    return reasons


def _buffer_reasons(params: MatmulParams) -> Reasons:
    options, flying = params.circular_buffer_options, params.wgmma_in_flight
    stages = options.smem_circular_buffer_stage
    gap = options.smem_circular_buffer_prefetch_gap
    reasons: Reasons = []
    if not options.circular_buffer_smem_write:
        reasons.append("circular_buffer_smem_write=False: TMA loads are circular-buffered")
    if options.circular_buffer_smem_read:
        reasons.append("circular_buffer_smem_read=True: wgmma reads shared memory itself")
    if flying < 0 or gap != flying + 1:
        reasons.append(
            f"smem_circular_buffer_prefetch_gap={gap} leaves {gap - 1} wgmma groups in flight, "
            f"wgmma_in_flight={flying}"
        )
    if stages < max(1, flying + 1):
        reasons.append(f"{stages} stages, no more than the {flying} wgmma groups in flight")
    if params.loads_in_place and params.ping_pong:
        reasons.append(
            "1 stage with Pipelined loads is loaded where it is read, by all that multiply: "
            "warpgroups with tiles of their own (WarpTiles) share none"
        )
    if params.epilogue_stages < 1:
        reasons.append(f"epilogue_stages={params.epilogue_stages}: a store needs a buffer")
    if (found := chunk_problem(params)) is not None:
        reasons.append(f"epilogue_columns={params.epilogue_columns}: {found}")
    reasons += prefetch_reasons(params)
    if params.supported_vec_size.epilogue not in (1, 2):
        reasons.append(
            f"supported_vec_size.epilogue={params.supported_vec_size.epilogue}: a thread holds two "
            "columns next to each other, and accesses 1 or 2 at once"
        )
    if params.epilogue_input_stages < 0:
        reasons.append(
            f"epilogue_input_stages={params.epilogue_input_stages}: a ring has at least 1 stage, "
            "and 0 means none"
        )
    return reasons


def _register_reasons(params: MatmulParams, target: Target) -> Reasons:
    threads = _threads(params)
    groups = threads // ptx.WARPGROUP
    if threads > target.max_threads:
        return [f"{groups} warpgroups are {threads} threads, a CTA has {target.max_threads}"]
    entry = target.registers_at_entry(threads)
    compute = _compute_registers(params, _pairs(params, target)[-1], target)
    total, macro = _accumulators(params), params.mma_macro
    single = _held(macro.m * macro.n, params)
    pair, reasons = params.register_pair if params.warp_specialized else None, list[str]()
    loading = params.load_warpgroups
    if pair and (why := load_registers_problem(target, loading, params.warpgroups, pair)):
        return [f"num_registers={pair}: {why}"]
    if total + SPARE_REGISTERS > compute:
        reasons.append(
            f"{total} accumulators and {SPARE_REGISTERS} other registers a thread exceed {compute}"
        )
    if total and single + SPARE_REGISTERS > entry:
        reasons.append(
            f"{macro} has {single} accumulators a thread, but {threads} threads start with {entry} "
            f"registers, {SPARE_REGISTERS} of them for other use"
        )
    return reasons


def _threads(params: MatmulParams) -> int:
    """Threads of a CTA."""
    return (params.warpgroups + params.load_warpgroups) * ptx.WARPGROUP


def _pairs(params: MatmulParams, target: Target) -> tuple[RegisterPair, ...]:
    """The register pair of the parameters, or all for ``"auto"``, that with least compute first;
    none where registers hold no accumulators.
    """
    held = target.tensor_memory is None
    if not (params.warp_specialized and held) or params.num_registers is None:
        return (None,)
    if params.register_pair is not None:
        return (params.register_pair,)
    if params.thread_loads:
        return thread_load_pairs(params, target) or (None,)
    return target.register_pairs(_threads(params))[::-1] or (None,)


def _compute_registers(params: MatmulParams, pair: RegisterPair, target: Target) -> int:
    """Registers of a thread of a compute warpgroup."""
    return target.registers_at_entry(_threads(params)) if pair is None else pair[1]


def _needs(demands: Demands, params: MatmulParams) -> tuple[tuple[int, int], tuple[int, int]]:
    """Accumulators of a thread, and what it needs beside them, in its main loop and in its
    epilogue, where those that wgmmas add to are free.
    """
    each, held = _accumulators(params), held_registers(demands, params)
    loop = held + computed_registers(demands, params) + scaled_registers(demands, params)
    sums = demands.accumulators(params.tile_sizes.warp_tile.m, each)
    return (sums, BARE_REGISTERS + loop), (demands.products * each, held + _others(demands, params))


def _others(demands: Demands, params: MatmulParams) -> int:
    """What a thread needs in its epilogue beside sums: more where chunks are wide.

    A chunk of one 64-row block takes ``columns * bytes / 8`` registers, twice that where it is
    computed and not only converted; ptxas holds more of them with more than two blocks. Fitted to
    what NVRTC 12.8 was seen to spill at 96 to 232 accumulators (design/0012-tiles.md). What is
    reduced is held unless it is made from the accumulators on the way (0026).
    """
    stored, reduced = (*demands.results, *demands.loaded(params)), demands.reductions
    of_sums = reduced.results > 0 and reduced.of_sums
    types = stored if of_sums else (*stored, *reduced.types)
    columns = chunk_columns(params, *stored, *reduced.types)
    computes = demands.computes and not of_sums
    held = columns * max((t.bytes for t in types), default=0) // 8 * (2 if computes else 1)
    blocks = params.tile_sizes.warp_tile.m // demands.target.mma.m
    others = max(SPARE_REGISTERS, BARE_REGISTERS + held * blocks // 2)
    further = FURTHER_REGISTERS * max(reduced.results - 1, 0)
    return others + further + computed_registers(demands, params)


def registers_left(demands: Demands, params: MatmulParams) -> int:
    """Registers that a thread has to spare in the epilogue of legal parameters."""
    _, taken = _needs(demands, params)
    target = demands.target
    return _compute_registers(params, _pairs(params, target)[-1], target) - sum(taken)


def _too_many(demands: Demands, params: MatmulParams) -> Reasons:
    """Why registers do not hold what the epilogue needs, or else the main loop."""
    compute = _compute_registers(params, _pairs(params, demands.target)[-1], demands.target)
    loop, epilogue = _needs(demands, params)
    of = f" of {demands.products} products" if demands.products > 1 else ""
    for (sums, others), kinds, what in (
        (epilogue, of, "registers for this epilogue"),
        (loop, f"{of} with those that sums are promoted from", "other registers"),
    ):
        if sums + others > compute:
            return [f"{sums} accumulators{kinds} and {others} {what} a thread exceed {compute}"]
    return []


def _accumulators(params: MatmulParams) -> int:
    """Accumulators of a thread of a compute warpgroup, of one product."""
    if params.mma_macro.target.tensor_memory is not None:
        return 0
    warp = params.tile_sizes.warp_tile
    return _held(warp.m * warp.n, params)


def _held(sums: int, params: MatmulParams) -> int:
    """Registers of a thread for so many sums of a warpgroup."""
    return sums // ptx.WARPGROUP // (2 if params.halves else 1)
