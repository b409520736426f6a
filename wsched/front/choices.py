"""Every parameter that the heuristic decides, and why it is so."""

from __future__ import annotations

from math import prod

from lowering.target.ptx import TMA_STRIDE_ALIGN
from lowering.target.target import Target
from wsched.choose.copy_engine import asks_dearly, streams
from wsched.choose.problem import Problem
from wsched.choose.thread_loads import copied_us
from wsched.front.explanation import Choice
from wsched.run.on_device import OnDevice
from wsched.schedule.matmul.instruction import sum_stages
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.shared import BARRIER_BYTES, shared_bytes

__all__ = ["choices_of"]


def choices_of(kernel: OnDevice, problem: Problem, why: str, grid: int) -> tuple[Choice, ...]:
    """Every parameter that the heuristic decides, and why; of the tile ``why`` says it."""
    params, trials = kernel.params, kernel.trials
    tile, options = params.output_tile, params.circular_buffer_options
    computed = problem.exchanged if params.exchange_operands else problem
    tiles = problem.batch * prod(problem.tiles(params))
    stage, epilogue = shared_bytes(
        params, problem.operand, *problem.results,
        inputs=(problem.inputs or ()) if params.loads_epilogue_inputs else (),
        n_major=computed.n_major, counts=(computed.a_count, computed.b_count),
        reductions=computed.reductions, computed=computed.computed,
    )  # fmt: skip
    stages = options.smem_circular_buffer_stage
    used = stages * stage + epilogue + BARRIER_BYTES
    more, limit = used + stage, kernel.plan.target.shared_bytes
    found = [
        Choice("tile_sizes", f"{params.tile_sizes.cta_tile}, "
               f"{_count(params.warpgroups, 'warpgroup')} of {params.tile_sizes.warp_tile}",
               f"{_count(tiles, 'tile')} of {tile} {why}"),
        Choice("buffering_loop_level", params.buffering_loop_level.name,
               _who_computes(params, kernel.plan.target)),
        Choice("mma_macro", str(params.mma_macro),
               f"the widest {kernel.plan.target.mma.name} that the warpgroup's tile "
               "takes, so that shared memory is read least often"),
        Choice("smem_circular_buffer_stage", str(stages),
               f"{_count(stages, 'stage')} of {stage} bytes, {epilogue} for the epilogue and "
               f"{BARRIER_BYTES} for barriers take {used} of {limit} bytes of shared memory"
               + (f", one more would take {more}" if more > limit
                  else ", more do not hide more")),
        Choice("tiling_strategy", params.tiling_strategy.name,
               f"{_loop(grid)} over {_count(tiles, 'tile')}" if params.persistent
               else "a CTA for each tile"),
        Choice("splitk_factor", str(params.splitk_factor),
               "each tile is computed by one CTA" if params.splitk_factor == 1 else
               f"{_count(tiles, 'tile')} would leave SMs idle: CTAs share each and "
               + ("store what they have, which a second kernel adds up" if params.stores_parts
                  else "add up what they have")),
        Choice("grid_traversal_factor", str(params.grid_traversal_factor),
               "tiles that are visited together share operands in the L2"),
        Choice("programmatic_dependent_launch", str(params.programmatic_dependent_launch),
               "it starts while the kernel in front of it ends"
               if params.programmatic_dependent_launch else
               "CTAs that start together share what they load"),
        Choice("cluster_dims", f"{params.cluster_dims.m}x{params.cluster_dims.n}",
               "CTAs of a cluster share operand tiles by multicast"
               if params.cluster_dims.m * params.cluster_dims.n > 1
               else "each CTA loads its operands itself"),
    ]  # fmt: skip
    found += _product_choices(params, problem)
    found += [*_load_choices(params, computed), *_store_choices(params, problem)]
    if params.register_pair is not None:
        load, compute = params.register_pair
        tried = f"; compiled: {', '.join(trials)}" if trials else ""
        found.append(
            Choice("num_registers", f"{load}, {compute}",
                   f"loads need few registers; what they give up holds accumulators{tried}")
        )  # fmt: skip
    return tuple(found)


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"


def _loop(ctas: int) -> str:
    return "1 CTA loops" if ctas == 1 else f"{ctas} CTAs loop"


def _who_computes(params: MatmulParams, target: Target) -> str:
    """Which warps have which tiles."""
    if target.tensor_memory is not None:
        stages = sum_stages(params, target)
        meanwhile = "while they store the one before" if stages > 1 else "when they have read it"
        return f"one thread computes each tile, which warpgroups store; the next one {meanwhile}"
    if params.ping_pong:
        return "each warpgroup has tiles of its own: one computes while the other stores"
    return (
        "the warpgroups share each tile"
        if params.warpgroups > 1 else "one warpgroup computes each tile"
    )  # fmt: skip


def _load_choices(params: MatmulParams, problem: Problem) -> list[Choice]:
    """What threads load, or what the L2 fetches at once where that is not the default: of A and B
    of the product that is computed, which is the transposed one where operands are exchanged.
    """
    if params.thread_loads:
        rows = "rows begin where TMA takes none, or are no whole number of 16 bytes"
        copied = f"copies in front would take {copied_us(problem):.1f} us"
        return [Choice("thread_loads", str(params.thread_loads), f"{rows}; {copied}")]
    why = []
    problem = problem.exchanged if params.exchange_operands else problem
    if asks_dearly(problem):
        rows = f"rows of A begin at multiples of {problem.align_a} bytes, of B {problem.align_b}"
        why.append(f"{rows}: more than a line would be part of others")
    if large := [name for name, each in zip("AB", streams(problem), strict=True) if each]:
        lines = f"lines of {' and '.join(large)}, more than the L2 holds,"
        why.append(f"memory decides: {lines} come one by one")
    return [Choice("l2_promotions", str(params.l2_promotions), "; ".join(why))] if why else []


def _tile(params: MatmulParams) -> str:
    """The tile of a kernel, of which product."""
    return f"{params.output_tile}{' exchanged' * params.exchange_operands}"


def _product_choices(params: MatmulParams, problem: Problem) -> list[Choice]:
    """What is said of the whole product."""
    found = []
    lists = {"M": problem.m_entries, "N": problem.n_entries, "K": problem.k_entries}
    for axis, sizes in lists.items():
        if sizes:
            sums = " + ".join(map(str, sizes))
            why = f"{len(sizes)} tensors side by side in one kernel; no tile has a part of two"
            found.append(Choice("lists", f"{axis} = {sums}", why))
    if params.exchange_operands:
        why = f"the {problem.m} rows of the result are columns of tiles, of which there are any 8"
        found.append(Choice("exchange_operands", "True", why))
    if params.siblings:
        tiles = ", ".join(_tile(p) for p in params.siblings)
        why = "a kernel of each, in one grid where they may be; a group is that one's whose tiles "
        why += "pad it least, or two kernels' where these pad it less"
        found.append(Choice("siblings", tiles, why))
    if params.delayed_groups:
        why = (
            f"groups of less than {params.delayed_groups}, a tile, come last: their tiles wait for "
        )
        why += "weights that no other tile reads, and would put CTAs out of step"
        found.append(Choice("delayed_groups", str(params.delayed_groups), why))
    if params.batch_invariant:
        why = "K is summed in one fixed order, so that a row's bits do not depend on M"
        found.append(Choice("batch_invariant", "True", why))
    return found


def _store_choices(params: MatmulParams, problem: Problem) -> list[Choice]:
    """Why threads access what TMA accesses as a rule, and why one element at a time."""
    found = []
    if problem.matrices:
        by_tma = params.loads_epilogue_inputs
        why = "TMA loads them ahead of the epilogue" if by_tma else "threads read them: TMA cannot"
        if problem.inputs and not by_tma:
            why = "threads read them: their buffers leave no shared memory for the operands"
        if params.exchange_operands:
            why = "threads read them, transposed as the tiles are"
        found.append(Choice("epilogue_input_stages", str(params.epilogue_input_stages),
                            f"matrices of the epilogue: {why}"))  # fmt: skip
    if not params.use_smem_epilogue:
        why = "their buffers leave no shared memory for the operands"
        if problem.added:
            why = "threads add their rows to others, by an index"
        elif problem.unaligned is not None:
            row = problem.n * problem.unaligned.bytes
            why = (
                f"rows of {problem.n} {problem.unaligned} elements are {row} bytes, which TMA does "
                f"not store: no multiple of {TMA_STRIDE_ALIGN}"
            )
        found.append(Choice("use_smem_epilogue", "False", f"results from registers: {why}"))
    if params.supported_vec_size.epilogue == 1:
        odd = f"rows of {problem.n} elements, which is odd"
        why = odd if problem.n % 2 else "an input whose rows or base are odd"
        if problem.added and problem.n % 8 == 0:
            why = "what rows are added to begins, or has rows, at no multiples of 16 bytes"
        why = f"threads access single elements, not pairs: {why}"
        found.append(Choice("supported_vec_size.epilogue", "1", why))
    return found
