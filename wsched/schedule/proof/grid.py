"""The grid and the clusters: the CTAs that a schedule's loops ask for."""

from __future__ import annotations

from collections.abc import Sequence

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Const, Expr, Special, children
from lowering.ground.poly import same
from wsched.fusion import Fusion, IterType, Merge, ParallelType, TensorView, nest_text
from wsched.schedule.proof.graph import Group, TransformGraph
from wsched.schedule.proof.sides import CTA_INDEX

__all__ = ["check_grid", "cluster_size", "counts_ctas", "find_cluster", "grid_of"]

_CTAS = Special("nctaid.x")


def find_cluster(graph: TransformGraph, loads: Sequence[TensorView]) -> tuple[Group, ...]:
    """The dimensions of the cluster, slowest first: none without one.

    Constant inner parts merged into the loop on BIDx are neighbouring CTAs. They are a cluster as
    far as they share what they load: a tensor is repeated along each of them, so that one copy can
    go to all.

    Args:
        graph: the transform graph.
        loads: the tensors that fill a stage together.
    """
    cta = loads[0].axis_on(ParallelType.BIDx)
    repeated = {
        graph.group(d)
        for t in loads
        for s in t.transforms
        for d in s.outputs
        if d.iter_type is IterType.Broadcast
    }
    found: list[Group] = []
    step = None if cta is None else graph.producer(graph.group(cta))
    while step is not None and isinstance(step.transform, Merge) and not step.transform.traversal:
        outer, inner = step.inputs
        if not isinstance(inner.extent, Const) or inner not in repeated:
            break
        found.insert(0, inner)
        step = graph.producer(outer)
    return tuple(found)


def check_grid(fusion: Fusion, cluster: Sequence[Group]) -> None:
    """Loops on CTAs run on a grid of their extent.

    An extent on BIDx that depends on the number of CTAs must be that number, or what of it is in
    whole clusters.

    Args:
        fusion: the complete schedule.
        cluster: its dimensions.

    Raises:
        ScheduleError: ``grid``.
    """
    size = cluster_size(cluster)
    legal = _CTAS if size == 1 else _CTAS // size * size
    for t in fusion.tensors:
        for d in t.loop:
            if d.parallel not in CTA_INDEX or not counts_ctas(d.extent):
                continue
            if d.parallel is ParallelType.BIDx and same(d.extent, legal):
                continue
            raise ScheduleError(
                "grid",
                f"{d.label} [{d.parallel}]",
                f"loop {d.label} of {t.name} has an iteration for each of {d.extent} CTAs, which "
                "depends on how many there are",
                (f"{legal} on BIDx", "a number", "the number of tiles"),
                nest_text(t),
            )


def cluster_size(cluster: Sequence[Group]) -> int:
    """CTAs of a cluster."""
    size = 1
    for g in cluster:
        assert isinstance(g.extent, Const)
        size *= g.extent.value
    return size


def grid_of(loads: Sequence[TensorView]) -> Expr | None:
    """CTAs along x, None for as many as there is place and work for."""
    cta = loads[0].axis_on(ParallelType.BIDx)
    if cta is None:
        return Const(1)
    return None if counts_ctas(cta.extent) else cta.extent


def counts_ctas(e: Expr) -> bool:
    """Whether an expression depends on the number of CTAs along x."""
    return e == _CTAS or any(map(counts_ctas, children(e)))
