"""From a scheduled fusion to a tile-level kernel: one loop nest for each sub-DAG.

A load section is one loop over the load step; there is one for each circular buffer. The compute
section keeps its own tile, k and chunk loops and says with ``consume`` which load step it reads.
Both take their bounds from the relation that made the schedule legal, so neither side can run a
step more than the other.
"""

from __future__ import annotations

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import ZERO, Binary, Expr, Var, free_vars, maximum, minimum
from lowering.kernel.kernel import CircularBuffer, Kernel, SharedBuffer, TensorMap
from lowering.kernel.nodes import For, GmemRef, LoadTile, Produce, Section, SmemRef, Stmt
from lowering.nest.check_schedule import require_lowerable
from lowering.nest.cluster import cluster_dims, cluster_size, constant
from lowering.nest.compute import ComputeLowering, accumulators
from lowering.nest.domains import roots
from lowering.nest.element import element_type
from lowering.nest.epilogue import epilogue_globals, thread_tensors
from lowering.nest.partials import partial_results
from lowering.nest.queue import DealtTiles
from lowering.nest.scope import CTA_INDEX, Indices, Namer, Shared
from wsched.fusion import (
    Fusion,
    IterDomain,
    IterType,
    TensorView,
)
from wsched.schedule.plan import Plan
from wsched.schedule.proof.graph import Group, TransformGraph
from wsched.schedule.proof.grid import counts_ctas
from wsched.schedule.proof.relation import LoadRelation

__all__ = ["lower"]

RING, INPUT_RING = "ring", "aux"


def lower(plan: Plan, name: str, vector: int = 2) -> Kernel:
    """The tile-level kernel ``name`` of a plan.

    Args:
        plan: the schedule, proved.
        name: of the kernel.
        vector: columns that a thread accesses at once where it reads or writes global memory
            itself, 1 or 2; the launch sees to the alignment.

    Raises:
        UnsupportedError: there is no lowering for it.
    """
    fusion, graph, relations = plan.fusion, plan.graph, plan.relations
    relation = plan.operands
    require_lowerable(plan)
    cluster = cluster_dims(plan, fusion.tensor(relation.loads[0]))
    params = _parameters(fusion)
    namer = Namer([*(p.name for p in params), *fusion.names, "sms", RING])
    shared = Shared(namer)
    _label(relation, graph, shared)
    rings = {RING: relation} | {namer.new(INPUT_RING): other for other in relations[1:]}
    # Compute first: where both sides have a tile and a k, it is compute's that get the plain names.
    fragment = accumulators(fusion, relation)
    parts = partial_results(relation, fragment, cluster_size(cluster), namer)
    dealt = DealtTiles.of(relation, graph, shared)
    compute = ComputeLowering(fusion, rings, graph, shared, RING, parts, dealt).section()
    loads = [_load_section(fusion, ring, r, graph, shared, dealt) for ring, r in rings.items()]
    if dealt is not None:
        loads.append(dealt.fetch_section(relation.registers[0]))
    return Kernel(
        name=name,
        threads=128 * relation.roles,
        grid=_grid(plan, cluster_size(cluster)),
        params=params,
        tensor_maps=tuple(_tensor_map(fusion, t) for t in _global_tensors(fusion)),
        shared=tuple(_shared_buffer(graph, t) for t in fusion.loads),
        body=(*shared.needed((*loads, compute)), *loads, compute),
        cluster=cluster_size(cluster),
        circular_buffers=tuple(_ring(plan, ring, r) for ring, r in rings.items()),
        globals=epilogue_globals(fusion, vector),
        splits=relation.splits,
        workspaces=() if parts is None else (parts.workspace,),
        counters=() if parts is None else (parts.flags,),
        tile_queues=() if dealt is None else (dealt.queue,),
    )


def _parameters(fusion: Fusion) -> tuple[Var, ...]:
    """Run-time extents: M, N, K."""
    names = {a for b in (*fusion.inputs, *fusion.outputs) for a in b.axes} - {"1"}
    return tuple(Var(n) for n in sorted(names, key="MNK".find))


def _label(relation: LoadRelation, graph: TransformGraph, shared: Shared) -> None:
    """Name the extents of the transform graph, and this CTA's share of the tiles or steps."""
    if (interval := relation.interval) is not None:
        shared.label("place", interval.place)
        shared.label("index", interval.index)
        shared.label("per_tile", interval.per_tile)
        shared.label("steps", interval.extent)
        shared.label("share", interval.share)
        shared.label("start", interval.start)
        shared.label("stop", interval.stop)
        shared.label("load_stop", interval.load_stop)
        shared.label("first", interval.first)
        shared.label("tiles", interval.count)
    match relation.load_stop:
        case Binary("*", tiles, _) if relation.tail is not None:
            shared.label("tiles", tiles)
    for group in graph.groups:
        if free_vars(group.extent):
            shared.label(f"n_{group.label}", group.extent)


def _ring(plan: Plan, name: str, relation: LoadRelation) -> CircularBuffer:
    buffer = relation.buffer
    in_flight = buffer.stages - buffer.prefetch - 1
    shares = tuple(_share(plan, plan.fusion.tensor(load)) for load in relation.loads)
    return CircularBuffer(
        name, relation.loads, buffer.stages, relation.roles, relation.consumers, in_flight,
        shares if any(count > 1 for count, _ in shares) else (),
        0 if relation.warp_specialized else buffer.prefetch,
    )  # fmt: skip


def _share(plan: Plan, t: TensorView) -> tuple[int, int]:
    """(count, stride) of the cluster's CTAs that load the same tile of ``t``.

    They differ in a cluster dimension along which ``t`` is broadcast. Two such dimensions (a tensor
    that all CTAs share) do not occur with operands of a matmul.
    """
    stride = 1
    found = (1, 1)
    for d in reversed(cluster_dims(plan, t)):
        extent = constant(d.extent, t.name)
        if d.iter_type is IterType.Broadcast and extent > 1:
            found = (extent, stride)
        stride *= extent
    return found


def _grid(plan: Plan, size: int) -> Expr:
    """CTAs along x: what the schedule asks for, or with a persistent one at most one per SM."""
    if plan.grid is not None:
        return plan.grid
    relation = plan.operands
    resident = Var("sms") // (size * relation.splits)
    resident = maximum(resident, 1) if relation.splits > 1 else resident
    if relation.interval is not None:
        return minimum(relation.interval.extent, resident) * size
    if relation.tail is None or counts_ctas(relation.tail.extent):
        return resident * size
    return minimum(relation.tail.extent, resident) * size


def _global_tensors(fusion: Fusion) -> list[TensorView]:
    """What TMA loads and stores."""
    names = [b.tensor for b in (*fusion.inputs, *fusion.outputs)]
    plain = thread_tensors(fusion)
    return [fusion.tensor(n) for n in names if n not in plain]


def _tensor_map(fusion: Fusion, t: TensorView) -> TensorMap:
    return TensorMap(t.name, element_type(t.dtype), tuple(d.extent for d in t.in_memory))


def _stage_dims(t: TensorView) -> list[IterDomain]:
    """Dimensions of one stage of a load tensor, broadcasts left out."""
    inner = t.loop[t.slice_position :]
    return [d for d in inner if d.iter_type is not IterType.Broadcast]


def _shared_buffer(graph: TransformGraph, t: TensorView) -> SharedBuffer:
    shape = tuple(constant(d.extent, t.name) for d in _stage_dims(t))
    return SharedBuffer(t.name, element_type(t.dtype), 1, shape)


def _load_section(
    fusion: Fusion,
    ring: str,
    relation: LoadRelation,
    graph: TransformGraph,
    shared: Shared,
    dealt: DealtTiles | None,
) -> Section:
    """``for m: produce, load.tile ...``: the loop that circular buffering is applied to.

    With stream-K it counts in the merged loop of all tiles, from the CTA's start on.
    """
    nest = None if dealt is None else dealt.nest(relation)
    step = Var(shared.namer.new(relation.loop.label)) if nest is None else nest.step
    loads = [fusion.tensor(name) for name in relation.loads]
    interval = relation.interval
    known: dict[Group, Expr] = {} if interval is None else {interval.merged: step}
    for t in loads:
        for position, d in enumerate(t.loop):
            if d.parallel in CTA_INDEX:
                known[graph.group(d)] = CTA_INDEX[d.parallel]
            elif position >= t.slice_position:
                known[graph.group(d)] = ZERO
            elif interval is None and nest is None:
                known[graph.group(d)] = step
    indices = Indices(graph, known | (nest.known if nest else {}), shared)
    start = ZERO if interval is None else shared.apply(interval.start)
    stop = relation.load_stop if interval is None else interval.load_stop
    body: list[Stmt] = [Produce(ring, step - start)]
    used: list[Expr] = []
    for t in loads:
        source = fusion.source(t.name)
        _check_order(graph, t, source)
        coords = tuple(indices.found[graph.group(d)] for d in source.in_memory)
        used += coords
        start_of_stage = SmemRef(t.name, ZERO, tuple(ZERO for _ in _stage_dims(t)))
        body.append(LoadTile(start_of_stage, GmemRef(source.name, coords)))
    lets = indices.lets(used)
    if nest is None:
        assert isinstance(step, Var)
        loop = For(step, start, shared.apply(stop), (*lets, *body))
    else:
        loop = nest.loop(tuple(lets), tuple(body))
    return Section("load", (loop,), registers=relation.registers[0])


def _check_order(graph: TransformGraph, t: TensorView, source: TensorView) -> None:
    """A TMA copies in the order of memory, so a stage has to have its source's.

    Raises:
        UnsupportedError: the loops of the stage are in another order.
    """
    wanted = [graph.group(d) for d in source.in_memory]
    order = [graph.group(root) for d in _stage_dims(t) for root in roots(t, d)]
    if order != wanted:
        stage, memory = (", ".join(g.label for g in groups) for groups in (order, wanted))
        raise UnsupportedError(
            f"a stage of {t.name} in the order [{stage}] from {source.name}, which is in memory as "
            f"[{memory}],",
            "the order of memory, contiguous dimension last",
            f"Reorder the Bulk loops of {t.name}",
        )
