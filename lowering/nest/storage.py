"""Storage that the schedule asks for: tensor maps, shared buffers, rings."""

from __future__ import annotations

from lowering.ground.expr import Const
from lowering.kernel.kernel import Ring, SharedBuffer, TensorBuffer, TensorMap
from lowering.kernel.tensors import Ragged
from lowering.nest.element import element_type
from lowering.nest.entries import entries, entry_sizes
from lowering.nest.shares import share_of
from lowering.nest.stage import stage_of
from lowering.nest.views import thread_views
from wsched.fusion import Fusion, MemoryType, TensorView
from wsched.schedule.plan import Edge, Plan

__all__ = ["ring", "ring_buffer", "tensor_maps"]


def tensor_maps(fusion: Fusion) -> tuple[TensorMap, ...]:
    """Of what TMA loads and stores, with dimensions in the order of memory."""
    plain = set(thread_views(fusion)) | fusion.scales | fusion.beside
    names = (b.tensor for b in (*fusion.inputs, *fusion.outputs) if b.tensor not in plain)
    return tuple(_tensor_map(fusion, n) for n in dict.fromkeys(names))


def _tensor_map(fusion: Fusion, name: str) -> TensorMap:
    t = fusion.tensor(name)
    dtype, several = element_type(t.dtype), entries(fusion, name)
    count = None if several is None else Const(several)
    if fusion.ragged(name):
        _, rows, cols = (d.extent for d in t.in_memory)
        if fusion.sums_of_groups:
            return TensorMap(name, dtype, (rows + 1, rows, cols), ragged=Ragged.BEGIN)
        if name in {b.tensor for b in fusion.inputs}:
            return TensorMap(name, dtype, (rows, cols))
        return TensorMap(name, dtype, (rows + 1, rows, cols), ragged=Ragged.END)
    return TensorMap(name, dtype, tuple(entry_sizes(fusion, name, t.in_memory)), count=count)


def ring_buffer(plan: Plan, t: TensorView) -> SharedBuffer | TensorBuffer:
    """A stage of a tensor in a ring; how many there are is decided by a pass."""
    stage, dtype = stage_of(plan.fusion, plan.graph, t), element_type(t.dtype)
    if t.memory is MemoryType.Tensor:
        return TensorBuffer(t.name, dtype, 1, stage.sizes)
    sizes = share_of(plan, t).sizes(stage) if t in plan.fusion.loads else stage.sizes
    return SharedBuffer(t.name, dtype, 1, sizes)


def ring(plan: Plan, edge: Edge) -> Ring:
    """The ring of an edge."""
    relation, buffer = edge.relation, edge.relation.buffer
    # What tcgen05 reads is released by the products themselves, when they are complete.
    ends = map(plan.fusion.tensor, (*relation.loads, *relation.readers))
    issued = any(t.memory is MemoryType.Tensor for t in ends)
    in_flight = 0 if issued else buffer.stages - buffer.prefetch - 1
    loaded = plan.parts[edge.producer].loads or edge.in_place
    threads = plan.fusion.loaded_by_threads
    shares = tuple(
        (1, 1) if t in threads else share_of(plan, plan.fusion.tensor(t)).multicast
        for t in relation.loads if loaded
    )  # fmt: skip
    return Ring(
        edge.name, relation.loads, buffer.stages, relation.warpgroups.teams, in_flight,
        shares if any(count > 1 for count, _ in shares) else (),
        0 if relation.warp_specialized else buffer.prefetch,
        dealing=relation.warpgroups.dealing,
    )  # fmt: skip
