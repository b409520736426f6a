"""Tiles that are dealt out at run time: each is computed once, whoever comes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowering.ground.expr import Const, evaluate
from lowering.kernel.nodes import Body, MBarrierWait, NextTile, Stmt, TmaLoad
from lowering.kernel.visit import rewrite, walk
from lowering.machine import MachineError, run_kernel
from lowering.machine.adversary import Adversary
from lowering.machine.run import RunResult
from tests.epilogues import RESIDUAL
from tests.lowering.ground.expressions import budget
from tests.on_machine import NUMPY, Problem, exact, kernel, operands
from tests.run import test_epilogue_inputs as inputs
from tests.schedules import cooperative, dynamic, in_tensor_memory, ping_pong
from wsched.run.compiled import CompiledFusion
from wsched.schedule.matmul.params import MatmulParams, TilingStrategy

SMALL: dict[str, MatmulParams] = {
    "cooperative": cooperative(64, 16, 32, stages=2, groups=1, registers=None),
    "two groups": cooperative(128, 16, 32, stages=3, traversal=(2, 1)),
    "ping-pong": ping_pong(64, 16, 32, stages=3),
    "cluster": cooperative(64, 16, 32, stages=3, groups=1, registers=None, cluster=(2, 1)),
    "cluster of ping-pong": ping_pong(64, 16, 32, stages=2, cluster=(1, 2)),
    "tensor memory": in_tensor_memory(128, 16, 32, stages=2, epilogue_stages=1),
    "tensor memory of two warpgroups": in_tensor_memory(256, 16, 32, stages=2, epilogue_stages=1),
}
"""Of the first ones a tile's load and its sums are two parts, of the last ones three."""


ADVERSARIES: tuple[Adversary, ...] = ("lazy", "random")


@lru_cache
def both(name: str) -> tuple[CompiledFusion, CompiledFusion]:
    """The kernel whose tiles are dealt out at run time, and in turn."""
    return kernel(dynamic(SMALL[name])), kernel(SMALL[name])


def run(
    k: CompiledFusion,
    p: Problem,
    *,
    seed: int = 0,
    adversary: Adversary = "random",
    counters: Mapping[str, np.ndarray] | None = None,
    trace: bool = False,
) -> RunResult:
    """Compute a problem and compare; ``counters`` as the last launch left them."""
    a, b = operands(p, "bf16", seed, integer=True)
    d = np.full((p.m, p.n), np.nan, NUMPY["bf16"])
    names = [x.tensor for x in (*k.fusion.inputs, *k.fusion.outputs)]
    tensors = dict(zip(names, (a, b, d), strict=True)) | dict(counters or {})
    extents = {"M": p.m, "N": p.n, "K": p.k}
    grid = evaluate(k.kernel.grid, extents | {"sms": p.sms})
    found = run_kernel(
        k.kernel, tensors, extents, grid, seed=seed, adversary=adversary, trace=trace
    )
    assert np.array_equal(d, exact(a, b).astype(NUMPY["bf16"])), p
    return found


def work(found: RunResult) -> dict[str, int]:
    """How much was loaded, multiplied and stored."""
    kinds = ("tma.load", "load bytes", "wgmma", "tcgen05.mma", "tma.store", "store bytes")
    return {kind: found.counts[kind] for kind in kinds}


@pytest.mark.slow
@given(
    name=st.sampled_from(sorted(SMALL)),
    m=st.integers(1, 5),
    n=st.integers(1, 4),
    k=st.integers(0, 3),
    sms=st.integers(1, 4),
    seed=st.integers(0, 1 << 16),
)
@budget(28)
def test_every_tile_once(name: str, m: int, n: int, k: int, sms: int, seed: int) -> None:
    """The result is right, and no work is done twice; more CTAs than tiles, and none of K."""
    tile, cluster = SMALL[name].output_tile, SMALL[name].cluster_dims
    mine, static = both(name)
    p = Problem(m * tile.m - 3, n * tile.n - 8, k * tile.k, sms * cluster.m * cluster.n)
    counters = {"next": np.zeros(1, np.int32)}
    for launch in range(2):  # a replay finds the counter as the first launch left it
        found = run(mine, p, seed=seed + launch, counters=counters)
        assert counters["next"].tolist() == [0]
        assert work(found) == work(run(static, p, seed=seed))


@pytest.mark.sampled
@pytest.mark.parametrize("adversary", ["eager", "lazy", "fair"])
@pytest.mark.parametrize("name", SMALL)
def test_adversaries(name: str, adversary: Adversary) -> None:
    tile, cluster = SMALL[name].output_tile, SMALL[name].cluster_dims
    for m, n, k in ((3, 3, 2), (1, 1, 1), (2, 1, 0), (5, 1, 5)):
        p = Problem(m * tile.m, n * tile.n, k * tile.k, 2 * cluster.m * cluster.n)
        run(both(name)[0], p, adversary=adversary)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", SMALL)
def test_ctas_ask_in_many_orders(name: str) -> None:
    """Who gets which tile depends on who comes first."""
    tile, cluster = SMALL[name].output_tile, SMALL[name].cluster_dims
    p = Problem(8 * tile.m, tile.n, tile.k, 2 * cluster.m * cluster.n)
    ways = set()
    for seed in range(6):
        found = run(both(name)[0], p, seed=seed, trace=True)
        ways.add(tuple(r.cta for r in found.trace if r.op == "atom"))
    assert len(ways) > 2


def test_one_cta_may_take_all() -> None:
    """Eager: the first CTA runs as far as it can, the others find the end."""
    tile = SMALL["cooperative"].output_tile
    p = Problem(6 * tile.m, tile.n, tile.k, 3)
    found = run(both("cooperative")[0], p, adversary="eager", trace=True)
    requests = Counter(r.cta for r in found.trace if r.op == "atom")
    assert sum(requests.values()) == 6 + 3


@pytest.mark.sampled
@pytest.mark.parametrize("name", SMALL)
def test_more_ctas_than_tiles(name: str) -> None:
    """More than the launch would start: those that come too late find the end at once."""
    tile, size = SMALL[name].output_tile, SMALL[name].cluster_dims.m * SMALL[name].cluster_dims.n
    k = both(name)[0]
    many = replace(k, kernel=replace(k.kernel, grid=Const(4 * size)))
    for adversary in ADVERSARIES:
        run(many, Problem(tile.m, tile.n, tile.k, 1), adversary=adversary)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("schedule", ["dynamic", "dynamic_cluster", "dynamic_pingpong"])
def test_matrices_of_the_epilogue(schedule: str) -> None:
    """Their load warps read the queue too."""
    k = inputs.kernel(RESIDUAL, schedule)
    for p in inputs.problems(k):
        for adversary in ADVERSARIES:
            d, (a, b, r) = inputs.run(k, p, adversary=adversary)
            wanted = (a @ b.T + r).astype(NUMPY["bf16"]).astype(np.float32)
            assert np.array_equal(d, wanted), (p, adversary)


def test_a_third_matrix_is_read_by_threads() -> None:
    """One warp of the load warpgroup fetches tiles, one loads the operands."""
    k = inputs.kernel(inputs.FOUR, "dynamic_pingpong")
    loaded = {s.src.map for s in walk(k.kernel.body) if isinstance(s, TmaLoad)}
    reads = [s for s in walk(k.tile_level.body) if isinstance(s, NextTile)]
    assert (len(loaded), len(reads)) == (2 + 2, 1 + 2 + 1)
    d, (a, b, *more) = inputs.run(k, inputs.problems(k)[1])
    wanted = (a @ b.T + sum(more)).astype(NUMPY["bf16"]).astype(np.float32)
    assert np.array_equal(d, wanted)


@pytest.mark.parametrize("barrier", ["queue_empty", "queue_full"])
def test_without_a_wait_it_goes_wrong(barrier: str) -> None:
    """An entry is overwritten before it is read, or read before it is there."""
    k = both("ping-pong")[0]
    tile = SMALL["ping-pong"].output_tile

    def without(stmt: Stmt) -> Body | None:
        return () if isinstance(stmt, MBarrierWait) and stmt.bar.array == barrier else None

    broken = replace(k, kernel=replace(k.kernel, body=rewrite(k.kernel.body, without)))
    with pytest.raises((AssertionError, MachineError)):
        for seed in range(8):
            run(broken, Problem(9 * tile.m, tile.n, tile.k, 1), seed=seed)


def test_the_name_says_so() -> None:
    assert "_dynamic_" in both("cooperative")[0].kernel.name
    params = dynamic(SMALL["cooperative"])
    assert params.persistent and params.dynamic
    assert MatmulParams.from_dict(params.to_dict()) == params
    assert params.tiling_strategy is TilingStrategy.DistributeTilesDynamically
