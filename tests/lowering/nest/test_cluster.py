from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Const, Var, ceildiv
from lowering.kernel.kernel import Kernel
from lowering.nest.cluster import constant
from lowering.nest.lower import lower
from tests.lowering.nest.kernels import SMALL
from tests.schedule.fusions import linear
from wsched.fusion import ParallelType, nest_text
from wsched.schedule import plan_matmul
from wsched.schedule.matmul import scheduler
from wsched.schedule.matmul.params import ClusterDims, MatmulParams, TilingStrategy
from wsched.schedule.schedule import Schedule


def clustered(dims: ClusterDims) -> Kernel:
    """The cooperative kernel with a cluster, before the first pass."""
    return lower(
        plan_matmul(linear(), replace(SMALL["cooperative"], cluster_dims=dims)), "clustered"
    )


@pytest.mark.parametrize(
    ("dims", "size", "shares"),
    [
        (ClusterDims(1, 1), 1, ()),
        (ClusterDims(2, 1), 2, ((1, 1), (2, 1))),
        (ClusterDims(1, 2), 2, ((2, 1), (1, 1))),
    ],
)
def test_who_shares_a_tile(
    dims: ClusterDims, size: int, shares: tuple[tuple[int, int], ...]
) -> None:
    kernel = clustered(dims)
    assert kernel.cluster == size
    assert [ring.shares for ring in kernel.rings] == [shares]


def test_a_tensor_shared_along_two_dimensions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four CTAs below each other, as two by two: each of the two repeats the tile of B."""

    def tile(s: Schedule, tv: str, params: MatmulParams, _: int) -> None:
        size = params.output_tile
        has_k = len(s.tensor(tv).loop) > 2
        if has_k:
            s.split(tv, 2, size.k, labels=("k", "Ki"))
        s.split(tv, 1, size.n, labels=("No", "Ni"))
        s.split(tv, 0, size.m, labels=("Mo", "Mi"))
        s.split(tv, 0, 2, labels=("Mo", "inner"))
        s.split(tv, 0, 2, labels=("Mo", "outer"))
        s.reorder(tv, {4: 1, 6: 4} if has_k else {4: 1})
        for _ in range(3):
            s.merge(tv, 0, label="cta")
        s.parallelize(tv, 0, ParallelType.BIDx)

    monkeypatch.setattr(scheduler, "split_into_tiles", tile)
    one_tile = replace(SMALL["cooperative"], tiling_strategy=TilingStrategy.OneTilePerCTA)
    made = plan_matmul(linear(), one_tile)
    with pytest.raises(UnsupportedError) as error:
        lower(made, "k")
    assert str(error.value) == (
        "T7 shared along outer 2 and inner 2 of a cluster is not supported; supported: one "
        "dimension of the cluster for each tensor that its CTAs share. The nest is:\n"
        f"{nest_text(made.fusion.tensor('T7'))}"
    )


def test_constant() -> None:
    assert constant(Const(64), "a tile") == 64
    with pytest.raises(UnsupportedError) as error:
        constant(ceildiv(Var("K"), 64), "T6: k")
    assert str(error.value) == (
        "T6: k of run-time extent ceildiv(K, 64) is not supported; supported: constant tile sizes"
    )
