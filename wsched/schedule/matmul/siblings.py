"""Kernels that share the groups of a grouped matmul out by the lengths of their tiles.

Groups of any number of rows are padded to whole tiles. With tiles of several lengths each group has
those that pad it least, of one length or of two; tiles of one kernel are all alike, so there is a
kernel for each length (design/0031-grouped.md).
"""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.errors import ScheduleError
from lowering.ground.frozen import replaced
from lowering.ground.sharing import Sharing
from wsched.fusion import Fusion
from wsched.fusion.names import ROWS
from wsched.schedule.matmul.epilogue_inputs import loaded_inputs
from wsched.schedule.matmul.params import GroupShare, MatmulParams
from wsched.schedule.primitives.checks import Reasons

__all__ = ["length_along", "members", "shared", "sharing_reasons"]


def shared(kernels: tuple[MatmulParams, ...]) -> MatmulParams:
    """The parameters of several kernels, in the order in which they run, as those of one call."""
    first, *others = kernels
    return replaced(first, siblings=tuple(others))


def length_along(params: MatmulParams, rows: bool) -> int:
    """How much of what groups share out a cluster of tiles has.

    Args:
        params: of one kernel.
        rows: whether that is rows of the result; else columns.
    """
    tile, cluster = params.output_tile, params.cluster_dims
    return tile.m * cluster.m if rows is not params.exchange_operands else tile.n * cluster.n


def members(fusion: Fusion, params: MatmulParams) -> tuple[MatmulParams, ...]:
    """The parameters of each kernel, in the order in which they run.

    Raises:
        ScheduleError: rule ``params``: these kernels cannot share anything out.
    """
    if not params.siblings:
        return (params,)
    kernels = (replaced(params, siblings=()), *params.siblings)
    if reasons := _reasons(fusion, kernels):
        wrote = f"MatmulParams(siblings=<{len(params.siblings)}>, ...)"
        raise ScheduleError("params", wrote, "; ".join(reasons))
    lengths = _lengths(fusion, kernels)
    return tuple(replace(p, sharing=GroupShare(lengths, at)) for at, p in enumerate(kernels))


def sharing_reasons(params: MatmulParams, grouped: bool) -> Reasons:
    """Why a kernel cannot take a share of groups, or have small ones behind others.

    Args:
        params: of one kernel, or of the first of several.
        grouped: whether there are groups.
    """
    share = params.sharing
    if params.delayed_groups and not grouped:
        return ["delayed_groups: there are no groups"]
    if not share and not params.siblings:
        return []
    if not grouped:
        return ["siblings and sharing: there are no groups to share out"]
    problem = Sharing(share.lengths, share.own).problem if share else ""
    return [problem] if problem else []


def _lengths(fusion: Fusion, kernels: tuple[MatmulParams, ...]) -> tuple[int, ...]:
    """How long the tiles of each are."""
    assert fusion.groups is not None
    rows = fusion.groups.along == ROWS
    return tuple(length_along(p, rows) for p in kernels)


def _reasons(fusion: Fusion, kernels: tuple[MatmulParams, ...]) -> Reasons:
    """Why these cannot be kernels that share groups out."""
    if fusion.groups is None or fusion.sums_of_groups:
        return ["siblings share out groups of rows or columns of the result, there are none"]
    reasons: Reasons = []
    if problem := Sharing(_lengths(fusion, kernels)).problem:
        reasons.append(problem)
    if any(p.siblings or p.sharing for p in kernels):
        reasons.append("siblings have no siblings, and say of themselves nothing of sharing")
    if len({p.mma_macro.arch for p in kernels}) > 1:
        reasons.append("siblings are for one GPU")
    asked = {
        (p.use_smem_epilogue, p.thread_loads, p.batch_invariant, loaded_inputs(fusion, p))
        for p in kernels
    }
    if len(asked) > 1:
        reasons.append(
            "siblings read and store alike: use_smem_epilogue, thread_loads, batch_invariant and "
            "who loads the matrices of the epilogue"
        )
    return reasons
