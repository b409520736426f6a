"""What CTAs of a cluster have in common of a tile: who loads it together, who holds which part."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.expr import ZERO, Expr
from lowering.kernel.cta_group import CtaGroup
from lowering.kernel.operands import GmemRef
from lowering.nest.cluster import cluster_dims, constant
from lowering.nest.domains import repeats
from lowering.nest.refusal import refused
from lowering.nest.stage import Stage
from wsched.fusion import IterDomain, TensorView
from wsched.schedule.plan import Plan
from wsched.schedule.proof.grid import cluster_size

__all__ = ["Share", "group_of", "share_of"]


@dataclass(frozen=True, slots=True)
class Share:
    """How the CTAs of a cluster have one tile of a tensor.

    Args:
        tensor: of which.
        count: CTAs that hold the same, load it together and multicast it to each other ...
        stride: ... whose ranks differ by multiples of this.
        dim: along which each CTA of ``group`` holds a part, for products that read all of them;
            None where each holds the whole tile.
        group: CTAs that have a part of one product.
    """

    tensor: TensorView
    count: int
    stride: int
    dim: IterDomain | None
    group: CtaGroup

    @property
    def multicast(self) -> tuple[int, int]:
        """(count, stride), as rings have them."""
        return self.count, self.stride

    def sizes(self, stage: Stage) -> tuple[int, ...]:
        """Elements of the tile that a CTA holds, along each dimension of the stage."""
        parts = (self.group.size if d == self.dim else 1 for d in stage.dims)
        return tuple(n // part for n, part in zip(stage.sizes, parts, strict=True))

    def own(self, plan: Plan, stage: Stage, whole: GmemRef) -> GmemRef:
        """Where in memory the executing CTA's part of the tile begins that begins at ``whole``."""
        if self.dim is None:
            return whole
        at = plan.graph.group(self.dim)
        step = self.group.place * self.sizes(stage)[stage.dims.index(self.dim)]
        source = plan.fusion.source(self.tensor.name).in_memory
        steps: tuple[Expr, ...] = tuple(step if plan.graph.group(d) == at else ZERO for d in source)
        return whole.moved(*steps)


def group_of(plan: Plan) -> CtaGroup:
    """The CTAs that have a part of one product."""
    return CtaGroup.of(plan.target, cluster_size(plan.cluster))


def share_of(plan: Plan, t: TensorView) -> Share:
    """How the CTAs of a cluster have what is loaded of a tensor.

    Those that have the same tile differ in a cluster dimension along which it is broadcast. Of the
    columns of a product that several CTAs have a part of each holds its own, as the others read
    them there.

    Raises:
        UnsupportedError: there are several such dimensions; or threads load what several CTAs
            multiply together.
    """
    group, stride = group_of(plan), 1
    operands = {x for p in plan.products for x in (p.mma.a, p.mma.b)}
    if group.several and t.name in operands and t.name in plan.fusion.loaded_by_threads:
        raise refused(t, f"{t.name} loaded by threads for a pair of CTAs", "operands by TMA")
    shared: list[tuple[str, int, int]] = []
    for d in reversed(cluster_dims(plan, t)):
        extent = constant(d.extent, t.name)
        if repeats(d) and extent > 1:
            shared.insert(0, (d.label, extent, stride))
        stride *= extent
    if len(shared) > 1:
        along = " and ".join(f"{label} {extent}" for label, extent, _ in shared)
        raise refused(
            t,
            f"{t.name} shared along {along} of a cluster",
            "one dimension of the cluster for each tensor that its CTAs share",
        )
    count, stride = next(((extent, at) for _, extent, at in shared), (1, 1))
    dim = _columns(plan, t) if group.several else None
    if dim is not None:
        count, stride = count // group.size, stride * group.size
    return Share(t, count, stride if count > 1 else 1, dim, group)


def _columns(plan: Plan, t: TensorView) -> IterDomain | None:
    """The dimension of a tensor that is the columns of a product which reads it; None of others."""
    for product in (p for p in plan.products if p.mma.b == t.name):
        cols = plan.graph.group(product.cols)
        return next((d for d in t.logical if plan.graph.group(d) == cols), None)
    return None
