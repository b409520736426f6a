"""From a scheduled fusion to a tile-level kernel: one loop nest for each part.

A load section fills one circular buffer. The compute section has the loops of the nest that is
dumped, and says with ``consume`` which load step it reads. Both take their bounds from the relation
that made the schedule legal, so neither side can run a step more than the other.
"""

from __future__ import annotations

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import ONE, Const, Expr, Var, free_vars, maximum, minimum
from lowering.kernel.kernel import Kernel
from lowering.nest.accumulator import Accumulator
from lowering.nest.compute import compute_section
from lowering.nest.counter import counters
from lowering.nest.load import load_section
from lowering.nest.loops_from_queue import LoopsFromQueue
from lowering.nest.loops_in_turn import LoopsInTurn
from lowering.nest.loops_of_interval import LoopsOfInterval
from lowering.nest.partials import partial_results
from lowering.nest.refusal import refused
from lowering.nest.scope import Namer, Shared
from lowering.nest.storage import ring, shared_buffer, tensor_maps
from lowering.nest.views import global_tensors
from lowering.nest.work_loops import WorkLoops
from wsched.fusion import Fusion, MemoryType, ParallelType, inputs_of
from wsched.fusion.names import in_order
from wsched.schedule.plan import Plan
from wsched.schedule.proof.grid import cluster_size, counts_ctas
from wsched.schedule.proof.work import FromQueue, OfInterval

__all__ = ["LOAD_WARPS", "lower"]

LOAD_WARPS = 4
"""Warps of the load warpgroup; each fills one circular buffer."""


def lower(plan: Plan, name: str, vector: int = 2) -> Kernel:
    """The tile-level kernel ``name`` of a plan.

    Args:
        plan: the schedule, proved.
        name: of the kernel.
        vector: columns that a thread accesses at once where it reads or writes global memory
            itself, 1 or 2; the launch sees to the alignment.

    Raises:
        UnsupportedError: there is no rule for a part of it.
    """
    fusion, graph, relation = plan.fusion, plan.graph, plan.operands
    _require_sizes(plan)
    _require_one_part(plan)
    _require_rings(plan)
    size = cluster_size(plan.cluster)
    params = _parameters(fusion)
    namer = Namer([*(p.name for p in params), *fusion.names, "sms", *(e.name for e in plan.edges)])
    shared = Shared(namer)
    _label(plan, shared)
    accumulators = _accumulators(plan)
    work = _loops(plan, shared)
    parts = partial_results(relation, accumulators[0].kind, namer)
    # Compute first: where both sides have a tile and a k, it is compute's that get the plain names.
    rings = {t: (e.name, e.relation) for e in plan.edges for t in e.relation.loads}
    compute = compute_section(
        plan, plan.parts[plan.edges[0].consumer], rings, work, accumulators, parts
    )
    loads = [load_section(plan, e, work) for e in plan.edges]
    loads += work.sections(relation.registers[0])
    storage = (
        *tensor_maps(fusion),
        *global_tensors(fusion, vector),
        *(shared_buffer(fusion, graph, t) for t in fusion.loads),
        *(ring(plan, e) for e in plan.edges),
        *work.storage,
        *(() if parts is None else (parts.flags, parts.workspace)),
    )
    return Kernel(
        name=name,
        threads=128 * compute.groups,
        grid=_grid(plan, size),
        params=params,
        storage=storage,
        body=(*shared.needed((*loads, compute)), *loads, compute),
        cluster=size,
        splits=plan.work.splits,
        target=plan.target,
        grid_y=_rows(plan),
    )


def _accumulators(plan: Plan) -> tuple[Accumulator, ...]:
    """What is added up over the steps of the operands' ring.

    Raises:
        UnsupportedError: there are several where CTAs add up parts of a tile; or one of another
            ring; or of what fills none.
    """
    relation, fusion = plan.operands, plan.fusion
    sums = [[t for t in map(fusion.tensor, r.readers) if t.sums] for r in plan.relations]
    if plan.work.slots is not None and len(sums[0]) > 1:
        raise refused(
            sums[0][1],
            f"{' and '.join(t.name for t in sums[0])} of which CTAs add up parts",
            "one accumulator where they do",
        )
    for t in (t for found in sums[1:] for t in found):
        raise refused(
            t,
            f"{t.name} = {fusion.definition(t.name)} over the steps of another ring than "
            f"{', '.join(relation.loads)}",
            "sums over the steps of one ring",
        )
    for t in sums[0]:
        e = fusion.definition(t.name)
        read = () if e is None else inputs_of(e)
        in_registers = {n for n in read[:1] if fusion.tensor(n).memory is MemoryType.Local}
        for name in (n for n in read if n not in {*relation.loads, *in_registers}):
            raise refused(
                t,
                f"{t.name} = {e} of {name}, which fills no ring",
                "products of what TMA loads into a circular buffer",
            )
    return tuple(Accumulator.of(t, relation, plan.graph) for t in sums[0])


def _loops(plan: Plan, shared: Shared) -> WorkLoops:
    """The loops of the plan's work."""
    counted = counters(plan.operands, plan.graph)
    match plan.work:
        case OfInterval(interval=interval):
            return LoopsOfInterval.of(shared, counted, plan, interval)
        case FromQueue(group=tiles):
            return LoopsFromQueue.of(LoopsInTurn(shared, counted), plan.operands, tiles)
    return LoopsInTurn(shared, counted)


def _parameters(fusion: Fusion) -> tuple[Var, ...]:
    """Run-time extents: M, N, K."""
    names = {a for b in (*fusion.inputs, *fusion.outputs) for a in b.axes} - {"1"}
    return tuple(map(Var, in_order(names)))


def _label(plan: Plan, shared: Shared) -> None:
    """Name the extents of the transform graph, and this CTA's share of the tiles or steps."""
    for name, e in plan.work.names:
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
    rows, most = _rows(plan), plan.work.most_clusters
    others = plan.work.splits * (rows if isinstance(rows, Const) else maximum(rows, 1))
    resident = Var("sms") // (size * others)
    resident = resident if others == ONE else maximum(resident, 1)
    if most is None or counts_ctas(most):
        return resident * size
    return minimum(most, resident) * size


def _rows(plan: Plan) -> Expr:
    """CTAs along y."""
    row = plan.fusion.tensor(plan.operands.loads[0]).axis_on(ParallelType.BIDy)
    return ONE if row is None else row.extent


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


def _require_one_part(plan: Plan) -> None:
    """One part computes.

    Raises:
        UnsupportedError: there are several.
    """
    computing = [p for p in plan.parts if not p.fills]
    if len(computing) > 1:
        titles = " and ".join(p.tensors[-1] for p in computing)
        raise UnsupportedError(
            f"{len(computing)} parts that compute, of {titles}",
            "one part: results that are connected by what they are made of, loads left out",
        )


def _require_rings(plan: Plan) -> None:
    """There is a warp for each ring, and all are filled in the same way.

    Raises:
        UnsupportedError: too many rings, or of different kinds.
    """
    operands, *others = plan.relations
    fetching = plan.work.fetching_warps
    if fetching and not operands.warp_specialized:
        raise refused(
            plan.fusion.tensor(operands.compute),
            "tiles that are dealt out at run time with Pipelined loads",
            "WarpSpecialized: a warp of the load warpgroup fetches tiles",
        )
    most = LOAD_WARPS - 1 - fetching
    if len(others) > most:
        what = f"{len(others)} circular buffers for the epilogue"
        why = ", and one fetches tiles" if fetching else ""
        raise UnsupportedError(what, f"{most}: each has a warp of the load warpgroup{why}")
    for other in others:
        staged = plan.fusion.tensor(other.loads[0])
        if plan.work.slots is not None:
            what = f"{staged.name} circular-buffered where CTAs add up parts of a tile"
            supported = "matrices of the epilogue read from global memory there"
            raise refused(staged, what, supported)
        if not other.warp_specialized or other.buffer.type != operands.buffer.type:
            what = f"{staged.name} loaded by {other.buffer.type} and the operands by "
            supported = "WarpSpecialized alike"
            raise refused(staged, f"{what}{operands.buffer.type}", supported)
