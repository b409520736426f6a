"""The loops of a matmul's tensors over tiles: which CTA has which, and in what order."""

from __future__ import annotations

from lowering.ground.expr import Expr, Special
from wsched.fusion import ParallelType
from wsched.schedule.matmul.params import MatmulParams, TileRasterizationOrder
from wsched.schedule.schedule import Schedule

__all__ = ["split_into_parts", "split_into_tiles", "tile_loops", "tile_rows_first"]


def split_into_parts(s: Schedule, tv: str, params: MatmulParams) -> None:
    """``[..., K]`` to ``[part, ..., k, Ki]``: K in parts, each as many steps of the main loop, in
    front of all other loops, as one more dimension of a batch is.
    """
    k = len(s.tensor(tv).loop) - 1
    s.split(tv, k, params.output_tile.k, labels=("k", "Ki"))
    s.split(tv, k, params.splitk_factor, inner_split=False, labels=("part", "k"))
    s.reorder(tv, {k: 0})


def split_into_tiles(s: Schedule, tv: str, params: MatmulParams, b: int) -> None:
    """``[(B), M, N, (K)]`` to ``[cta, (tile), (group), (part), (k), Mi, Ni, (Ki)]``.

    The ``b`` of a batch are outside of the grid of tiles: all tiles of a matrix, then of the next;
    so are parts of K that are results (:func:`split_into_parts`).

    With stream-K ``cta`` is the place in the cluster, and there is none without a cluster. Where
    the operands are exchanged M is that of the transposed product (:func:`tile_rows_first`); what
    is reduced has been cut so.
    """
    size, cluster = params.output_tile, params.cluster_dims
    m, n, k = b, b + 1, b + 2
    has_k = len(s.tensor(tv).loop) > k and s.fusion.reduction(tv) is None
    if s.fusion.reduction(tv) is None:
        tile_rows_first(s, tv, params, b)
    if has_k and s.axis(tv, "Ki") < 0:
        s.split(tv, k, size.k, labels=("k", "Ki"))
    if s.axis(tv, "No") < 0:
        s.split(tv, len(s.tensor(tv).loop) - 1 - 2 * has_k, size.n, labels=("No", "Ni"))
    if s.axis(tv, "Mo") < 0:
        s.split(tv, m, size.m, labels=("Mo", "Mi"))
    s.reorder(tv, {m + 2: n, m + 4: k} if has_k else {s.axis(tv, "No"): n})
    clustered = cluster.m * cluster.n > 1
    if clustered:
        s.split(tv, n, cluster.n, labels=("Nc", "ctaN"))
        s.split(tv, m, cluster.m, labels=("Mc", "ctaM"))
        s.reorder(tv, {m + 2: n})
        if s.target.mma.ctas > 1 and cluster.n > 1:  # who multiplies together are neighbours
            s.reorder(tv, {n + 2: n + 1})
    axes = (m, n) if params.cta_order is TileRasterizationOrder.RowMajor else (n, m)
    groups_of = params.grid_traversal_factor[0]
    label = "tiles" if params.persistent or clustered else "cta"
    s.merge(tv, *axes, traversal=groups_of if groups_of > 1 else 0, label=label)
    for outer in reversed(range(b)):
        s.merge(tv, outer, label=label)
    if params.stream_k:
        _tile_of_stages(s, tv, params)
        return
    if params.persistent:
        labels = ("tile", "cluster" if clustered else "cta")
        s.split(tv, 0, _ctas(params), labels=labels, dynamic=params.dynamic)
        s.reorder(tv, {1: 0})
    if clustered:
        if params.persistent:
            s.reorder(tv, {1: 3})
        s.merge(tv, 0, label="ctas")
        s.merge(tv, 0, label="cta")
    s.parallelize(tv, 0, ParallelType.BIDx)
    if params.ping_pong:
        s.split(tv, 1, params.warpgroups, labels=("tile", "group"))
    if has_k and params.splitk_factor > 1 and not params.stores_parts:
        k = s.axis(tv, "k")
        s.split(tv, k, params.splitk_factor, inner_split=False, labels=("part", "k"))
        s.parallelize(tv, k, ParallelType.BIDz)


def tile_rows_first(s: Schedule, tv: str, params: MatmulParams, b: int) -> None:
    """``[(B), M, N, ...]`` to ``[(B), rows, columns of tiles, ...]``: where the operands are
    exchanged the rows of a tile are columns of the result, and N goes to the front.
    """
    if params.exchange_operands:
        s.reorder(tv, {b + 1: b})


def _tile_of_stages(s: Schedule, tv: str, params: MatmulParams) -> None:
    """The same for stream-K, behind the merge of the tiles: loads deal out tiles and k together."""
    clustered = params.cluster_dims.m * params.cluster_dims.n > 1
    if tv in {t.name for t in s.fusion.loads}:
        k = s.axis(tv, "k")
        s.reorder(tv, {k: 1})
        s.merge(tv, 0)
        labels = ("cluster" if clustered else "cta", "tile·k")
        s.split(tv, 0, _ctas(params), inner_split=False, labels=labels)
        if clustered:
            s.reorder(tv, {1: 3})
            s.merge(tv, 0, label="ctas")
            s.merge(tv, 0, label="cta")
        s.parallelize(tv, 0, ParallelType.BIDx)
        return
    if clustered:
        s.reorder(tv, {0: 2})
        s.merge(tv, 0, label="rank")
        s.parallelize(tv, 0, ParallelType.BIDx)
    if params.ping_pong:
        s.split(tv, s.axis(tv, "tiles"), params.warpgroups, labels=("tile", "group"))


def _ctas(params: MatmulParams) -> Expr:
    """CTAs, or clusters of them, that tiles or load steps are dealt out to."""
    return Special("nctaid.x") // (params.cluster_dims.m * params.cluster_dims.n)


def tile_loops(params: MatmulParams) -> int:
    """Number of loops that say which tile: cta, and tile where CTAs have several.

    With stream-K there is a loop on CTAs only in clusters.
    """
    clustered = params.cluster_dims.m * params.cluster_dims.n > 1
    return int(clustered or not params.stream_k) + int(params.persistent)
