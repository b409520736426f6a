from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Const, Var, ceildiv
from lowering.kernel.kernel import Kernel
from lowering.nest.cluster import constant
from lowering.nest.lower import lower
from tests.lowering.kernels import SMALL
from tests.schedule.fusions import linear
from wsched.schedule import plan_matmul
from wsched.schedule.matmul.params import ClusterDims


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
    assert [ring.shares for ring in kernel.circular_buffers] == [shares]


def test_constant() -> None:
    assert constant(Const(64), "a tile") == 64
    with pytest.raises(UnsupportedError) as error:
        constant(ceildiv(Var("K"), 64), "T6: k")
    assert str(error.value) == (
        "T6: k of run-time extent ceildiv(K, 64) is not supported; supported: constant tile sizes"
    )
