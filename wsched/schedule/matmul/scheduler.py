"""The matmul scheduler: from parameters to a scheduled fusion, through the primitives only.

All tensors are tiled alike: ``[cta, tile, (group), k | M, N, K of the tile]``, with split-K also
``part``, which runs on BIDz; where parts are results, it is one more dimension of a batch, whose
tiles are dealt out as any. Then the sides part:
the TMA cacheAfter tensors merge tile and k into the one loop that steps through the stages, the
accumulator keeps both and splits its tile into wgmmas, and everything of the epilogue is computed
for one chunk of columns at a time. Matrices that the epilogue reads are loaded like the operands,
their one loop being that over tile and chunk.

With stream-K the merged loop of the loads is itself dealt out to CTAs; the other tensors keep loops
over all tiles, of which a CTA runs its interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowering.ground.expr import Const
from lowering.target.target import Target
from wsched.fusion import (
    DataType,
    Fusion,
    IterType,
    LoadStoreOpType,
    MemoryType,
    ParallelType,
    Pipelined,
    ReductionOp,
    WarpSpecialized,
    the_products,
)
from wsched.schedule.matmul.chunks import pieces
from wsched.schedule.matmul.epilogue_inputs import epilogue_columns, epilogue_inputs, loaded_inputs
from wsched.schedule.matmul.instruction import sum_stages
from wsched.schedule.matmul.kernel_options import thread_bytes
from wsched.schedule.matmul.limits import require_legal, settled
from wsched.schedule.matmul.operands import cache_matrix, cache_operands
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.reductions import over_tile
from wsched.schedule.matmul.tile_loops import (
    split_into_parts,
    split_into_tiles,
    tile_loops,
    tile_rows_first,
)
from wsched.schedule.plan import Plan
from wsched.schedule.proof.nest import made_early
from wsched.schedule.schedule import Schedule

__all__ = ["plan_matmul", "schedule_matmul", "schedule_onto"]

_TMA, _SET = LoadStoreOpType.CpAsyncBulkTensorTile, LoadStoreOpType.Set


@dataclass(frozen=True, slots=True)
class _Names:
    """The tensors by their part in the kernel.

    Args:
        loads: the operands in shared memory.
        computed: what the threads compute of an operand, in order, copies included.
        sums: the accumulators.
        inputs: the epilogue's inputs in shared memory.
        epilogue: all that is computed after it, copies of its inputs in registers included.
        boxed: those of the epilogue that TMA stores, box by box.
        columns: of a chunk, the same for all that the epilogue reads and writes.
        outer: dimensions outside of a matrix: of a batch, and parts of K that are results.
    """

    loads: tuple[str, ...]
    computed: tuple[str, ...]
    sums: tuple[str, ...]
    inputs: tuple[str, ...]
    epilogue: tuple[str, ...]
    boxed: tuple[str, ...]
    columns: int
    outer: int


def plan_matmul(fusion: Fusion, params: MatmulParams, target: Target | None = None) -> Plan:
    """Schedule a canonical matmul fusion and prove the schedule; see :func:`schedule_matmul`."""
    s = Schedule(fusion, target=target or params.mma_macro.target)
    schedule_onto(s, params)
    return s.plan()


def schedule_matmul(fusion: Fusion, params: MatmulParams, target: Target | None = None) -> Fusion:
    """Schedule a canonical matmul fusion.

    Args:
        fusion: unscheduled, as :func:`wsched.importer.build_fusion` makes it.
        params: what kernel to build.
        target: the GPU that it is for, by default that of the parameters' instruction.

    Raises:
        ScheduleError: illegal parameters (rules ``params``, ``smem``).
        UnsupportedError: parameters for which there is no kernel.
    """
    s = Schedule(fusion, target=target or params.mma_macro.target)
    schedule_onto(s, params)
    return s.fusion


def schedule_onto(s: Schedule, params: MatmulParams) -> None:
    """The same, by calls of a schedule that has none yet; raises as :func:`schedule_matmul`."""
    require_legal(s.fusion, params, s.target)
    params = settled(s.fusion, params, s.target)
    if params.sharing:
        s.share_groups(params.sharing.lengths, params.sharing.own)
    if params.delayed_groups:
        s.delay_groups(params.delayed_groups)
    names = _cache(s, params)
    for tv in (*names.loads, *names.computed, *names.sums, *names.inputs, *names.epilogue):
        split_into_tiles(s, tv, params, names.outer)
    for tv in names.loads:
        _schedule_load(s, tv, params, names.columns)
    for tv in names.inputs:
        _schedule_input(s, tv, params, names.columns)
    for tv in names.computed:
        _schedule_computed(s, tv, params)
    for tv in names.sums:
        _schedule_accumulator(s, tv, params)
    for tv in names.epilogue:
        _schedule_epilogue(s, tv, params, names)
    _inline(s, names)


def _cache(s: Schedule, params: MatmulParams) -> _Names:
    """Operands into shared memory by TMA, the epilogue's inputs into registers, matrices through
    shared memory; results from registers, through shared memory or directly.
    """
    if params.halves:
        for e in s.fusion.mmas:
            s.accumulate_in(e.output, DataType.Half)
    loads, computed = cache_operands(s, thread_bytes(params))
    if params.stores_parts:
        _store_parts(s, (*loads, *computed), params)
    outputs = s.outputs
    read, loaded = epilogue_inputs(s.fusion), loaded_inputs(s.fusion, params)
    outer = len(the_products(s.fusion)[0].outer) + params.stores_parts
    inputs = tuple(cache_matrix(s, tv) for tv in read if tv in loaded)
    for tv in read:
        if tv not in loaded:
            s.cache_after(tv)
    results = tuple(b.tensor for b in s.fusion.matrices)
    boxed = results if params.use_smem_epilogue else ()
    for output in outputs:
        if output in results and output not in boxed:
            s.cache_before(output)
        elif output not in results:
            _cut_reduction(s, output, params, outer)
    for output in boxed:
        stored = s.cache_before(output, _TMA)
        matrices = s.tensor(output).dtype.bytes == 2
        s.cache_before(stored, LoadStoreOpType.StMatrix if matrices else LoadStoreOpType.Set)
        s.set_memory_type(stored, MemoryType.Shared)
    sums = tuple(e.output for e in s.fusion.mmas)
    if s.target.tensor_memory is not None:
        for tv in sums:
            s.set_memory_type(tv, MemoryType.Tensor)
            s.cache_after(tv, LoadStoreOpType.LdTMem)
    order = [e.output for e in s.fusion.exprs]
    others = {*loads, *computed, *sums, *inputs}
    after = tuple(tv for tv in order[order.index(sums[0]) + 1 :] if tv not in others)
    columns = epilogue_columns(s.fusion, params)
    return _Names(loads, computed, sums, inputs, after, boxed, columns, outer)


def _store_parts(s: Schedule, operands: Sequence[str], params: MatmulParams) -> None:
    """Sum over a part of K, where the parts are results: as nvFuser's split-K does, but for what
    sums them. What is loaded, or computed, for it is split alike.
    """
    product = the_products(s.fusion)[0].mma.output
    if product in s.outputs:
        product = s.cache_before(product)
    for tv in (*operands, product):
        split_into_parts(s, tv, params)
    s.rfactor(product, ("k", "Ki"))


def _cut_reduction(s: Schedule, output: str, params: MatmulParams, b: int) -> None:
    """Reduce over a warpgroup's part of a tile, behind ``b`` of a batch; the parts are results. Of
    both rows and columns first the columns, then the rows of what is left.
    """
    tv, tile = s.cache_before(output), params.output_tile
    rows, columns = over_tile(s.fusion, tv, params)
    tile_rows_first(s, tv, params, b)
    if columns:
        s.split(tv, b + 1, tile.n, labels=("No", "Ni"))
        s.rfactor(tv, b + 2)
        if not rows:
            return
        tv = s.cache_before(output)
    s.split(tv, b, tile.m, labels=("Mo", "Mi"))
    if not params.ping_pong:
        s.split(tv, b + 1, params.tile_sizes.warp_tile.m, labels=("group", "Mi"))
    s.rfactor(tv, "Mi")


def _schedule_load(s: Schedule, tv: str, params: MatmulParams, columns: int) -> None:
    """One serial loop over the load steps; the tile is the box of a TMA, in memory's order, or
    several, where it may be of several tensors that stand side by side.
    """
    _split_list(s, tv, params, columns)
    options = params.circular_buffer_options
    stages = options.smem_circular_buffer_stage
    if params.loads_in_place:
        _fill_stage(s, tv, params, s.axis(tv, "k") + 1)
        return
    _step_through(s, tv, "k", params, stages, stages - options.smem_circular_buffer_prefetch_gap)


def _split_list(s: Schedule, tv: str, params: MatmulParams, columns: int) -> None:
    """Cut what is loaded of a list into pieces that are of one entry each."""
    lists = {b.entry.axis for b in s.fusion.entries(s.fusion.source(tv).name) if b.entry}
    product = the_products(s.fusion)[0]
    dims, major = (product.rows, product.cols), (product.m_major, product.n_major)
    if params.exchange_operands:
        dims, major = dims[::-1], major[::-1]
    sizes = pieces(params, columns, *major)
    for d, label, size in zip(dims, ("Mi", "Ni"), sizes, strict=True):
        tile = s.tensor(tv).loop[s.axis(tv, label)].extent
        if str(d.extent) in lists and tile != Const(size):
            s.split(tv, s.axis(tv, label), size, labels=("piece", label))


def _schedule_input(s: Schedule, tv: str, params: MatmulParams, columns: int) -> None:
    """The same for a matrix of the epilogue: a step is a chunk of the columns of the tile."""
    _split_columns(s, tv, columns)
    s.reorder(tv, {s.axis(tv, "chunk"): s.axis(tv, "Mi")})
    stages = params.epilogue_input_stages
    _step_through(s, tv, "chunk", params, stages, stages - 1)


def _step_through(
    s: Schedule, tv: str, last: str, params: MatmulParams, stages: int, prefetch: int
) -> None:
    """Merge the loops from the tile to ``last``; what is right of them is one stage."""
    part = s.axis(tv, "part")
    if part > 0:
        s.reorder(tv, {part: 1})
    first = 2 if part > 0 else 1
    while s.tensor(tv).loop[first].label != last and s.axis(tv, last) > 0:
        s.merge(tv, first)
    _fill_stage(s, tv, params, first + 1)
    kind = (
        WarpSpecialized(ParallelType.TIDy, _register_pair(params), first + 1)
        if params.warp_specialized
        else Pipelined()
    )
    s.circular_buffer(tv, stages, prefetch, kind)


def _register_pair(params: MatmulParams) -> tuple[int, int] | None:
    """What rings say of registers: nothing where the passes add warpgroups that share slices."""
    return params.register_pair if params.along_k == 1 else None


def _fill_stage(s: Schedule, tv: str, params: MatmulParams, first: int) -> None:
    """The loops from ``first`` are of one stage, in memory's order."""
    if s.fusion.source(tv).allocation:
        s.reorder(tv, {s.axis(tv, "Ki"): first})
    if tv in s.fusion.loaded_by_threads:
        _share_rows(s, tv, first, params.thread_loads.warpgroups)
    for axis in range(first, len(s.tensor(tv).loop)):
        if s.tensor(tv).loop[axis].parallel is ParallelType.Serial:
            s.parallelize(tv, axis, ParallelType.Bulk)


def _share_rows(s: Schedule, tv: str, first: int, warpgroups: int) -> None:
    """Each warpgroup that loads has as many rows of a stage, whose loops begin at ``first``."""
    if warpgroups == 1:
        return
    box = s.tensor(tv).loop[first:]
    rows = next(d for d in box if d.iter_type is not IterType.Broadcast)
    axis = s.axis(tv, rows.label)
    s.split(tv, axis, warpgroups, inner_split=False, labels=("share", rows.label))
    s.parallelize(tv, axis, ParallelType.TIDy)


def _split_tile(s: Schedule, tv: str, params: MatmulParams) -> None:
    """Give each warpgroup its warp tile: ``group``, and with several side by side ``across``,
    before the first loop that is not of the tile.
    """
    warp = params.tile_sizes.warp_tile
    if not params.ping_pong:
        if s.axis(tv, "group") < 0:
            s.split(tv, s.axis(tv, "Mi"), warp.m, labels=("group", "Mi"))
        s.reorder(tv, {s.axis(tv, "group"): tile_loops(params)})
    s.parallelize(tv, s.axis(tv, "group"), ParallelType.TIDy)
    if params.across > 1:
        columns = s.axis(tv, "Ni")
        s.split(tv, columns, warp.n, labels=("across", "Ni"))
        s.reorder(tv, {columns: tile_loops(params) + 1})
        s.parallelize(tv, s.axis(tv, "across"), ParallelType.TIDz)


def _innermost_group(s: Schedule, tv: str) -> int:
    """The last of the loops that run on warpgroups."""
    return max(s.axis(tv, "group"), s.axis(tv, "across"))


def _schedule_accumulator(s: Schedule, tv: str, params: MatmulParams) -> None:
    """``[cta, (tile), group, (across), k, k16, m64 | M, N, K]``, the last three one instruction; in
    tensor memory there is no group, and the tile is a stage.
    """
    stages, block = sum_stages(params, s.target), _block(s)
    if not stages:
        _split_tile(s, tv, params)
    k = s.target.mma.k(the_products(s.fusion)[0].operand.element)
    s.split(tv, s.axis(tv, "Ki"), k, labels=("k16", "K"))
    s.split(tv, s.axis(tv, "Mi"), s.target.mma.m, labels=(block, "M"))
    _share_slices(s, tv, params)
    inner = max(s.axis(tv, "k"), _innermost_group(s, tv)) + 1
    s.reorder(tv, {s.axis(tv, "k16"): inner, s.axis(tv, block): inner + 1})
    for axis in range(inner + 2, len(s.tensor(tv).loop)):
        s.parallelize(tv, axis, ParallelType.Mma)
    if stages:
        ring = WarpSpecialized(ParallelType.TIDy, None, tile_loops(params))
        s.circular_buffer(tv, stages, stages - 1, ring)


def _block(s: Schedule) -> str:
    """What the loop over the rows of instructions is called."""
    return f"m{s.target.mma.m}"


def _share_slices(s: Schedule, tv: str, params: MatmulParams) -> None:
    """Warpgroups share what is loaded in place: k is the loop around those that run on them."""
    if params.loads_in_place:
        s.reorder(tv, {s.axis(tv, "k"): tile_loops(params)})


def _schedule_computed(s: Schedule, tv: str, params: MatmulParams) -> None:
    """``[cta, (tile), group, (across), k | M, N, K]``: all that a warpgroup has of a slice."""
    _split_tile(s, tv, params)
    _share_slices(s, tv, params)
    for axis in range(max(s.axis(tv, "k"), _innermost_group(s, tv)) + 1, len(s.tensor(tv).loop)):
        s.parallelize(tv, axis, ParallelType.Mma)


def _schedule_epilogue(s: Schedule, tv: str, params: MatmulParams, names: _Names) -> None:
    """``[cta, (tile), group, (across), chunk | ...]``: a TMA box, or m64 fragments of registers.

    Of what is reduced, rows or columns, the result has none left. What is transposed as it is
    stored has a box for each m64: its rows are columns of the box.
    """
    boxed = tv in names.boxed
    dims = sum(s.axis(tv, label) >= 0 for label in ("Mi", "Ni"))
    _split_tile(s, tv, params)
    if s.axis(tv, "Ni") >= 0:
        _split_columns(s, tv, names.columns)
        s.reorder(tv, {s.axis(tv, "chunk"): _innermost_group(s, tv) + 1})
    if (not boxed or params.exchange_operands) and s.axis(tv, "Mi") >= 0:
        s.split(tv, s.axis(tv, "Mi"), s.target.mma.m, labels=(_block(s), "M"))
    if boxed and params.exchange_operands:
        s.reorder(tv, {s.axis(tv, "N"): s.axis(tv, "M")})
    loops = len(s.tensor(tv).loop)
    for axis in range(loops - dims, loops):
        s.parallelize(tv, axis, ParallelType.Bulk if boxed else ParallelType.Mma)


def _split_columns(s: Schedule, tv: str, columns: int) -> None:
    """The warp tile's columns into chunks, the same for all that the epilogue reads and writes."""
    s.split(tv, s.axis(tv, "Ni"), columns, labels=("chunk", "N"))


def _inline(s: Schedule, names: _Names) -> None:
    """The accumulators per tile and warpgroup, fragments per m64, what is stored per box; what is
    reduced, and what that is made from or made early beside it, per chunk.
    """
    reduced, early = set[str](), made_early(s.fusion)
    for tv in reversed(names.epilogue):
        readers = [t.name for t in s.fusion.consumers(tv)]
        if not readers:
            continue
        chunk, reduces = s.axis(tv, "chunk"), isinstance(s.fusion.definition(tv), ReductionOp)
        by_fragment = all(s.axis(x, _block(s)) >= 0 and x not in reduced for x in readers)
        if reduces or not reduced.isdisjoint(readers):
            reduced.add(tv)
        if reduces:
            summed = chunk >= 0 and s.tensor(tv).loop[chunk].iter_type is IterType.Reduction
            s.inline_at(tv, max(-1 if summed else chunk, _innermost_group(s, tv)) + 1)
        else:
            alone = by_fragment and tv not in early
            s.inline_at(tv, s.axis(tv, _block(s) if alone else "chunk") + 1)
    for tv in names.sums:
        if s.tensor(tv).circular_buffer is None:
            s.inline_at(tv, min(s.axis(tv, "k"), _innermost_group(s, tv) + 1))
    for tv in reversed(names.computed):
        s.inline_at(tv, max(s.axis(tv, "k"), _innermost_group(s, tv)) + 1)
    for tv in names.loads:
        if s.tensor(tv).circular_buffer is None:
            s.inline_at(tv, s.axis(tv, "k") + 1)
