"""Clusters whose CTAs have parts of one product (PTX: ``cta_group``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import ONE, Const
from lowering.target.target import Target
from wsched.fusion import Fusion, IterType, ParallelType, Product, TensorView, nest_text
from wsched.schedule.graph import Group, TransformGraph

__all__ = ["check_cta_groups"]


def check_cta_groups(
    fusion: Fusion,
    graph: TransformGraph,
    cluster: Sequence[Group],
    products: Iterable[Product],
    target: Target,
) -> None:
    """CTAs that have parts of one product are neighbours along its rows: each has rows of A of its
    own, and they share a tile of B, of which each holds a part of the columns.

    Args:
        fusion: the complete schedule.
        graph: its transform graph.
        cluster: dimensions of the cluster, slowest first.
        products: that are issued.
        target: the GPU that it is for, with the CTAs of its instruction.

    Raises:
        ScheduleError: ``grid``.
    """
    ctas = target.mma.ctas
    if ctas == 1:
        return
    pair = next((g for g in reversed(cluster) if g.extent != ONE), None)
    for product in products:
        a, b = (fusion.tensor(name) for name in (product.mma.a, product.mma.b))
        extent = None if pair is None else pair.extent
        if (
            pair is None or not isinstance(extent, Const) or extent.value % ctas
            or not _repeated(graph, b, pair) or _repeated(graph, a, pair)
        ):  # fmt: skip
            found = f"the cluster's last dimension is {pair}" if pair else "there is no cluster"
            t = fusion.tensor(product.mma.output)
            raise ScheduleError(
                "grid",
                f"{t.name} = {product.mma}",
                f"{target.mma.macro}: {ctas} CTAs whose ranks are in a row multiply rows of their "
                f"own by one tile of {b.name}, and {found}",
                (f"a loop of {ctas} along {product.rows.extent}, merged last into the loop on "
                 f"{ParallelType.BIDx}",),
                nest_text(t),
            )  # fmt: skip


def _repeated(graph: TransformGraph, t: TensorView, group: Group) -> bool:
    """Whether a tensor is broadcast along a dimension of the cluster."""
    made = (d for s in t.transforms for d in s.outputs)
    return any(graph.group(d) == group and d.iter_type is IterType.Broadcast for d in made)
