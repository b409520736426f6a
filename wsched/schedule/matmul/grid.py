"""Which clusters, orders of tiles and parts of K a grid can have."""

from __future__ import annotations

from lowering.target.ptx import GRID_YZ_MAX
from lowering.target.target import Target
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.primitives.checks import Reasons

__all__ = ["grid_reasons"]


def grid_reasons(params: MatmulParams, target: Target) -> Reasons:
    """All reasons why no grid of ``target`` is dealt out as the parameters say."""
    cluster, (outer, inner) = params.cluster_dims, params.grid_traversal_factor
    reasons: Reasons = []
    if min(cluster.m, cluster.n) < 1 or cluster.m * cluster.n > target.max_cluster:
        reasons.append(
            f"a cluster of {cluster.m} x {cluster.n} CTAs, at most {target.max_cluster} fit"
        )
    if cluster.m % (ctas := target.mma.ctas):
        reasons.append(
            f"a cluster of {cluster.m} x {cluster.n} CTAs, {params.mma_macro} is of {ctas} along M"
        )
    if outer < 1 or inner != 1:
        reasons.append(
            f"grid_traversal_factor=({outer}, {inner}): the order groups the slower dimension of "
            "the tile grid, (G, 1)"
        )
    if outer >= (across := params.grid_across):
        reasons.append(f"grid_traversal_factor=({outer}, {inner}): at most {across - 1}, so that "
                       f"{outer} rows of tiles are fewer than 2**31")  # fmt: skip
    if not 1 <= params.splitk_factor <= GRID_YZ_MAX:
        reasons.append(f"splitk_factor={params.splitk_factor}: K has 1 to {GRID_YZ_MAX} parts")
    if params.stream_k and params.splitk_factor > 1:
        reasons.append(
            f"splitk_factor={params.splitk_factor} with DistributeStagesAcrossSMs, which splits K "
            "where the shares of the CTAs end"
        )
    if params.ping_pong and params.warpgroups < 2:
        reasons.append(
            "buffering_loop_level=WarpTiles: one warp tile in the CTA tile, nobody to "
            "alternate with"
        )
    return reasons
