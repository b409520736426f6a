"""The grid and the clusters: the CTAs that a schedule's loops ask for."""

from __future__ import annotations

from collections.abc import Sequence

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import ONE, Const, Expr, parts_of
from lowering.ground.poly import same
from lowering.target.ptx import GRID_X_MAX, GRID_YZ_MAX
from lowering.target.target import Target
from wsched.fusion import (
    Fusion,
    IterDomain,
    IterType,
    Merge,
    ParallelType,
    PrimitiveCall,
    Split,
    TensorView,
    call_text,
    nest_text,
)
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.primitives.factor import CTAS, factor_reasons
from wsched.schedule.proof.sides import CTA_INDEX
from wsched.schedule.proof.splits import wrote

__all__ = [
    "check_factors",
    "check_grid",
    "cluster_size",
    "counts_ctas",
    "find_cluster",
    "grid_of",
    "largest_numbers",
    "rows_of",
]

_MOST = {
    ParallelType.BIDx: GRID_X_MAX,
    ParallelType.BIDy: GRID_YZ_MAX,
    ParallelType.BIDz: GRID_YZ_MAX,
}
"""CTAs of a grid along each axis."""


def find_cluster(
    graph: TransformGraph, loads: Sequence[TensorView], target: Target
) -> tuple[Group, ...]:
    """The dimensions of the cluster, slowest first: none without one.

    Constant inner parts merged into the loop on BIDx are neighbouring CTAs. They are a cluster as
    far as they share what they load: a tensor is repeated along each of them, so that one copy can
    go to all; and as far as the target runs so many.

    Args:
        graph: the transform graph.
        loads: the tensors that fill a stage together.
        target: the GPU that it is for.
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
        if inner.extent.value * cluster_size(found) > target.max_cluster:
            break
        found.insert(0, inner)
        step = graph.producer(outer)
    return tuple(found)


def check_grid(fusion: Fusion, cluster: Sequence[Group]) -> None:
    """Loops on CTAs run on a grid of their extent, which a grid can have.

    An extent on BIDx that depends on the number of CTAs must be that number, or what of it is in
    whole clusters. Parts of a sum on BIDz are a number, and so many CTAs there are for all tensors,
    also for loops of one iteration.

    Args:
        fusion: the complete schedule.
        cluster: its dimensions.

    Raises:
        ScheduleError: ``grid``.
    """
    size = cluster_size(cluster)
    legal = CTAS if size == 1 else CTAS // size * size
    parts = {d.parallel: (t, d) for t in fusion.tensors for d in t.loop if _is_part(d)}
    for t in fusion.tensors:
        for d in t.loop:
            if d.parallel in CTA_INDEX:
                _check_extent(t, d)
            if d.extent == ONE and d.parallel in parts and not _is_part(d):
                _check_one(t, d, *parts[d.parallel])
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


def _check_extent(t: TensorView, d: IterDomain) -> None:
    why, legal, most = "", f"1 to {_MOST[d.parallel]}", _MOST[d.parallel]
    if isinstance(d.extent, Const) and d.extent.value > most:
        why = f"a grid has at most {most} CTAs along {d.parallel}"
    elif not isinstance(d.extent, Const) and _is_part(d):
        why = "the parts of a sum are added up by a number of CTAs that is known"
    if why:
        raise ScheduleError(
            "grid",
            f"{d.label} [{d.parallel}]",
            f"loop {d.label} of {t.name} has {d.extent} iterations, and {why}",
            (legal,),
            nest_text(t),
        )


def _check_one(t: TensorView, d: IterDomain, total: TensorView, part: IterDomain) -> None:
    """A loop of one iteration is on the first CTA of an axis, and a sum is whole on the last."""
    if part.extent != ONE:
        raise ScheduleError(
            "grid",
            f"{d.label} [{d.parallel}]",
            f"loop {d.label} of {t.name} has one iteration, and along {d.parallel} {part.extent} "
            f"CTAs have a part of {total.name} each",
            (str(PrimitiveCall("parallelize", (t.name, t.loop.index(d), ParallelType.Serial))),),
            nest_text(t),
        )


def _is_part(d: IterDomain) -> bool:
    """Whether each CTA along z has a part of a sum."""
    return d.parallel is ParallelType.BIDz and d.iter_type is IterType.Reduction


def check_factors(fusion: Fusion, cluster: Sequence[Group], grid: Expr | None) -> None:
    """Factors that count clusters are positive on every grid that is launched.

    Args:
        fusion: the complete schedule.
        cluster: its dimensions.
        grid: CTAs along x, None for as many as there is place and work for, in whole clusters.

    Raises:
        ScheduleError: ``grid``.
    """
    ctas = grid.value if isinstance(grid, Const) else cluster_size(cluster)
    seen: set[Expr] = set()
    for t in fusion.tensors:
        for s in t.transforms:
            if not isinstance(s, Split) or s.factor in seen or isinstance(s.factor, Const):
                continue
            seen.add(s.factor)
            reasons = factor_reasons(fusion, s.factor, ctas)
            if reasons:
                raise ScheduleError(
                    "grid",
                    wrote(fusion, t, s),
                    f"{reasons[0]}: a grid may have {ctas} CTAs",
                    (call_text("maximum", (s.factor, 1)), "the number of clusters that there are"),
                    nest_text(t),
                )


def largest_numbers(fusion: Fusion) -> tuple[Expr, ...]:
    """What a kernel computes of its factors and extents, and has to fit into 32 bits.

    Where small groups are delayed who deals tiles out goes over all groups twice. That a tile
    counts in one of both times alone is more than ranges of a number that a loop carries tell, so
    there is room for twice as many.
    """
    found: dict[Expr, None] = {}
    times = 2 if fusion.groups is not None and fusion.groups.delayed else 1
    for t in fusion.tensors:
        for s in t.transforms:
            if isinstance(s, Merge):
                found[s.output.extent * times] = None
                found[s.inner.extent * max(s.traversal, 1)] = None
            else:
                found[s.outer.extent * s.inner.extent] = None
                found.update(dict.fromkeys(parts_of(s.factor)))
    return tuple(e for e in found if not isinstance(e, Const))


def cluster_size(cluster: Sequence[Group]) -> int:
    """CTAs of a cluster."""
    size = 1
    for g in cluster:
        assert isinstance(g.extent, Const)
        size *= g.extent.value
    return size


def grid_of(fusion: Fusion, loads: Sequence[TensorView]) -> Expr | None:
    """CTAs along x, None for as many as there is place and work for: those of the loads, where they
    have a loop there, else of any tensor.
    """
    every = (t.axis_on(ParallelType.BIDx) for t in (*loads, *fusion.tensors))
    cta = next((d for d in every if d is not None), None)
    if cta is None:
        return Const(1)
    return None if counts_ctas(cta.extent) else cta.extent


def rows_of(fusion: Fusion) -> Expr:
    """CTAs along y: those of any tensor, as others may have all of them do the same."""
    rows = (d.extent for t in fusion.tensors if (d := t.axis_on(ParallelType.BIDy)) is not None)
    return next(rows, ONE)


def counts_ctas(e: Expr) -> bool:
    """Whether an expression depends on the number of CTAs along x."""
    return any(x == CTAS for x in parts_of(e))
