"""From a scheduled fusion to a tile-level kernel: one loop nest for each part.

A load section fills one circular buffer. What computes has the loops of the nest that is dumped,
and says with ``consume`` and ``produce`` which steps of rings it reads and fills. Both sides of a
ring take their bounds from the relation that made the schedule legal, so neither can run a step
more than the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import ONE, Const, Expr, Var, free_vars, maximum, minimum
from lowering.ground.sharing import WHOLE
from lowering.kernel.kernel import Kernel
from lowering.nest.compute import compute_section
from lowering.nest.computing import Computing, computing_parts
from lowering.nest.counter import counters
from lowering.nest.entries import labels
from lowering.nest.load import load_section
from lowering.nest.loops_from_queue import Entries, LoopsFromQueue, Queue
from lowering.nest.loops_in_turn import LoopsInTurn
from lowering.nest.loops_of_interval import LoopsOfInterval
from lowering.nest.loops_of_sums import LoopsOfSums
from lowering.nest.partials import PartialResults, partial_results
from lowering.nest.refusal import refused
from lowering.nest.scope import Namer, Shared
from lowering.nest.storage import ring, ring_buffer, tensor_maps
from lowering.nest.tiles_by_counter import TilesByCounter
from lowering.nest.tiles_of_groups import TilesOfGroups
from lowering.nest.views import global_tensors
from lowering.nest.work_loops import WorkLoops
from lowering.target import ptx
from wsched.fusion import Fusion
from wsched.fusion.names import blocks_of, in_order
from wsched.schedule.options import DebugPrint
from wsched.schedule.plan import Edge, Plan
from wsched.schedule.proof.grid import cluster_size, counts_ctas, rows_of
from wsched.schedule.proof.relation import LoadRelation
from wsched.schedule.proof.work import FromQueue, OfInterval
from wsched.schedule.proof.work_of_groups import OfGroups

__all__ = ["LOAD_WARPS", "lower"]

LOAD_WARPS = 4
"""Warps of the load warpgroup; each fills one circular buffer."""


def lower(
    plan: Plan,
    name: str,
    vector: int = 2,
    copied: Mapping[str, int] = MappingProxyType({}),
    prints: tuple[DebugPrint, ...] = (),
) -> Kernel:
    """The tile-level kernel ``name`` of a plan.

    Args:
        plan: the schedule, proved.
        name: of the kernel.
        vector: columns that a thread accesses at once where it reads or writes global memory
            itself, 1 or 2; the launch sees to the alignment.
        copied: bytes that a thread copies at once of what threads load into shared memory, by the
            tensor in global memory; of others ``vector`` elements.
        prints: lines to print.

    Raises:
        UnsupportedError: there is no rule for a part of it.
    """
    fusion, relation, groups = plan.fusion, plan.operands, plan.fusion.groups
    _require_sizes(plan)
    _require_rings(plan)
    size, params = cluster_size(plan.cluster), _parameters(fusion)
    namer = Namer([*(p.name for p in params), *fusion.names, "sms", *(e.name for e in plan.edges)])
    shared = Shared(namer, prints)
    _label(plan, shared)
    computing = computing_parts(plan)
    queue = _queue(plan, computing, shared)
    works = [_loops(plan, part.main, shared, queue) for part in computing]
    work = works[0]
    parts = _partials(plan, computing, namer)
    # Compute first: where both sides have a tile and a k, it is compute's that get the plain names.
    pairs = zip(computing, works, strict=True)
    computes = [compute_section(plan, part, loops, parts) for part, loops in pairs]
    loads = [load_section(plan, e, work) for e in plan.rings if plan.parts[e.producer].loads]
    loads += work.sections(relation.registers[0])
    storage = (
        *tensor_maps(fusion),
        *global_tensors(fusion, vector, copied),
        *(ring_buffer(plan, fusion.tensor(n)) for p in plan.parts for n in p.fills),
        *(ring(plan, e) for e in plan.rings),
        *work.storage,
        *(() if parts is None else (parts.flags, parts.workspace)),
    )
    return Kernel(
        name=name,
        threads=ptx.WARPGROUP * sum(s.groups for s in computes if s.group is not None),
        grid=_grid(plan, size),
        params=params,
        storage=storage,
        body=(*shared.needed((*loads, *computes)), *loads, *computes),
        cluster=size,
        splits=plan.work.splits,
        share=WHOLE if groups is None else groups.sharing,
        target=plan.target,
        grid_y=rows_of(fusion),
    )


def _partials(plan: Plan, computing: tuple[Computing, ...], namer: Namer) -> PartialResults | None:
    """Where parts of tiles go, if CTAs share tiles: then one part computes."""
    if plan.work.slots is None:
        return None
    kind = computing[0].accumulators[0].kind
    if kind.dtype.register_bits < 32:
        raise UnsupportedError(
            f"sums of {kind.dtype.value} where CTAs add up parts of a tile", "fp32 or int32"
        )
    return partial_results(plan.operands, kind, namer)


def _queue(plan: Plan, computing: tuple[Computing, ...], shared: Shared) -> Queue | None:
    """What says which tile is next, where that is known at run time only."""
    match plan.work:
        case FromQueue(group=tiles):
            entries: Entries = TilesByCounter(tiles, shared.apply(tiles.extent))
        case OfGroups() as work:
            entries = TilesOfGroups(shared, work, plan.graph, cluster_size(plan.cluster))
        case _:
            return None
    parts = [counters(part.main, plan.graph) for part in computing]
    return Queue.of(shared, parts, plan.operands.nest[0].group, entries)


def _loops(plan: Plan, main: LoadRelation, shared: Shared, queue: Queue | None) -> WorkLoops:
    """The loops of the plan's work, for the part whose loops ``main`` says."""
    counted = counters(main, plan.graph)
    operands = counted if main is plan.operands else counters(plan.operands, plan.graph)
    in_turn = LoopsInTurn(shared, counted, tuple(c.loop for c in operands if c.outside))
    if isinstance(plan.work, OfInterval):
        return LoopsOfInterval.of(shared, counted, plan, plan.work.interval)
    if queue is None:
        return in_turn
    asking = LoopsFromQueue(in_turn, queue)
    if plan.fusion.sums_of_groups:
        return LoopsOfSums.of(asking, plan.operands)
    return asking


def _parameters(fusion: Fusion) -> tuple[Var, ...]:
    """Run-time extents: M, N, K; of a list those of its entries as well."""
    bound = (*fusion.inputs, *fusion.outputs)
    names = {a for b in bound for a in (*b.axes, *b.extents)} - {"1"}
    return tuple(map(Var, in_order(n for n in names if blocks_of(n) is None)))


def _label(plan: Plan, shared: Shared) -> None:
    """Name the extents of the transform graph, and this CTA's share of the tiles or steps."""
    for name, e in (*plan.work.names, *labels(plan.fusion)):
        shared.label(name, e)
    for group in plan.graph.groups:
        if free_vars(group.extent):
            shared.label(f"n_{group.label}", group.extent)


def _grid(plan: Plan, size: int) -> Expr:
    """CTAs along x: what the schedule asks for, or with a persistent one at most one per SM.

    ``size`` is that of a cluster.
    """
    if plan.grid is not None:
        return plan.grid
    rows, most = rows_of(plan.fusion), plan.work.most_clusters
    others = plan.work.splits * (rows if isinstance(rows, Const) else maximum(rows, 1))
    resident = Var("sms") // (size * others)
    resident = resident if others == ONE else maximum(resident, 1)
    if most is None or counts_ctas(most):
        return resident * size
    return minimum(most, resident) * size


def _require_sizes(plan: Plan) -> None:
    """Loops depend on what the launch knows.

    Raises:
        UnsupportedError: one depends on a value from memory.
    """
    if plan.assumptions:
        raise UnsupportedError(
            f"a loop that depends on {plan.assumptions[0].name}, which only the device knows",
            "loops that depend on the sizes of tensors and the number of CTAs",
        )


def _require_rings(plan: Plan) -> None:
    """There is a warp for each ring, and all are filled in the same way.

    Raises:
        UnsupportedError: too many rings, or of different kinds.
    """
    _require_load_warps(plan)
    operands, fetching = plan.operands, plan.work.fetching_warps
    others = [e.relation for e in _loaded(plan) if e.relation is not operands]
    issued = sum(part.issued for part in plan.parts)
    most = LOAD_WARPS - 1 - fetching - issued
    if len(others) > most:
        what = f"{len(others)} circular buffers beside that of {', '.join(operands.loads)}"
        why = ", and one fetches tiles" * fetching + ", and one issues products" * issued
        raise UnsupportedError(what, f"{most}: each has a warp of the load warpgroup{why}")
    for other in others:
        staged = plan.fusion.tensor(other.loads[0])
        summed = {name for e in plan.fusion.mmas for name in plan.fusion.made_from([e.output])}
        if other.compute in summed and plan.work.ends_within_tiles:
            what = f"operand {staged.name} in a ring of its own where load steps are dealt out"
            supported = "operands in one ring there; whole tiles or parts of K with several"
            raise refused(staged, what, supported)
        if other.compute not in summed and plan.work.slots is not None:
            what = f"{staged.name} circular-buffered where CTAs add up parts of a tile"
            supported = "matrices of the epilogue read from global memory there"
            raise refused(staged, what, supported)
        apart = other.warp_specialized and operands.warp_specialized
        alike = other.registers == operands.registers or len(plan.computing) > 1
        if not apart or not alike:
            what = f"{staged.name} loaded by {other.buffer.type} and the operands by "
            supported = "WarpSpecialized alike"
            raise refused(staged, f"{what}{operands.buffer.type}", supported)


def _loaded(plan: Plan) -> list[Edge]:
    """The rings that loads fill."""
    return [e for e in plan.rings if plan.parts[e.producer].loads]


def _require_load_warps(plan: Plan) -> None:
    """What Pipelined loads, which the threads that multiply start, cannot have.

    Raises:
        UnsupportedError: loads in place beside them; threads that load, tiles or load steps that
            are dealt out.
    """
    operands, loaded = plan.operands, _loaded(plan)
    ahead = {t for e in loaded for t in e.relation.loads}
    threads = [t for t in plan.fusion.loaded_by_threads if t in ahead]
    loads = {t.name for t in plan.fusion.loads}
    in_place = (e for e in plan.rings if e.in_place)
    here = next((e for e in in_place if loads.issuperset(e.relation.loads)), None)
    if here is not None and any(not e.relation.warp_specialized for e in loaded):
        t = plan.fusion.tensor(here.relation.loads[0])
        what = f"{t.name} loaded in place beside Pipelined loads"
        raise refused(t, what, "all loads in place, or WarpSpecialized ones beside them")
    if threads and not operands.warp_specialized:
        raise refused(
            plan.fusion.tensor(threads[0]),
            f"{threads[0]} loaded by threads with Pipelined loads",
            "WarpSpecialized: threads that load have warps of their own",
        )
    if plan.work.fetching_warps and not operands.warp_specialized:
        raise refused(
            plan.fusion.tensor(operands.compute),
            "tiles that are dealt out at run time with Pipelined loads",
            "WarpSpecialized: a warp of the load warpgroup fetches tiles",
        )
    if plan.work.ends_within_tiles and not operands.warp_specialized:
        raise refused(
            plan.fusion.tensor(operands.compute),
            "load steps that are dealt out with Pipelined loads",
            "WarpSpecialized: steps ahead may be of another tile, which loads follow by themselves",
        )
