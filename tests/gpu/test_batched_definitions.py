"""Batches of matmuls on a real GPU: random problems against torch, every kind of schedule."""

from __future__ import annotations

import random
from typing import Any

import pytest

import wsched
from tests.batches import batched, integers, product
from tests.schedules import SCHEDULES, error_limit

pytestmark = pytest.mark.gpu

NAMES = (
    None, "coop_128x256", "coop_traversal_odd", "coop_3_groups", "pingpong_64x256",
    "pingpong_128x128", "cluster_2x1", "cluster_2x2", "cluster_pingpong", "dynamic",
    "dynamic_cluster_pingpong", "stream_k", "stream_k_pingpong_cluster", "split_2",
    "split_cluster", "tile_per_cta", "cluster_tile_per_cta", "pipelined",
)  # fmt: skip
"""Of ``SCHEDULES``; None is what the heuristic takes."""


def sizes(seed: int) -> tuple[int, int, int, int]:
    """Batch, M, N and K."""
    rng = random.Random(seed)
    return rng.choice((1, 2, 3, 7, 16, 65)), *(8 * rng.randint(1, 130) for _ in range(3))


def run(text: str, inputs: list[Any], name: str | None) -> Any:
    params = None if name is None else SCHEDULES[name]
    (d,) = wsched.compile(text, inputs, params=params)(*inputs)
    return d


@pytest.mark.parametrize("name", NAMES)
def test_integers_are_exact(name: str | None) -> None:
    import torch

    for seed in range(10):
        torch.manual_seed(seed)
        batch, m, n, k = sizes(seed)
        a_major, b_major = random.Random(seed).choices(("k", "mn"), k=2)
        a = integers((batch, m, k), "cols" if a_major == "k" else "rows", torch.bfloat16, "cuda")
        b = integers((batch, k, n), "rows" if b_major == "k" else "cols", torch.bfloat16, "cuda")
        d = run(batched(a_major, b_major), [a, b], name)
        assert torch.equal(d, product(a, b)), (batch, m, n, k)


@pytest.mark.parametrize("name", NAMES)
def test_against_bmm_in_fp32(name: str | None) -> None:
    import torch

    for seed in range(10, 20):
        torch.manual_seed(seed)
        batch, m, n, k = sizes(seed)
        a = torch.randn(batch, m, k, device="cuda").half()
        b = torch.randn(batch, k, n, device="cuda").half()
        expected = torch.bmm(a.float(), b.float())
        d = run(batched(b="mn", dtype="Half"), [a, b], name).float()
        error = float((d - expected).norm() / expected.norm())
        assert error < error_limit("f16", "f16"), (batch, m, n, k)


@pytest.mark.parametrize("name", [None, "cluster_2x2", "pingpong_64x256", "dynamic", "stream_k"])
@pytest.mark.parametrize("ranks", [(3, 2), (2, 3)])
def test_one_matrix_for_all(name: str | None, ranks: tuple[int, int]) -> None:
    import torch

    for seed in range(20, 25):
        batch, m, n, k = sizes(seed)
        shapes = (batch, m, k)[3 - ranks[0] :], (batch, k, n)[3 - ranks[1] :]
        a, b = (integers(shape, "cols", torch.bfloat16, "cuda") for shape in shapes)
        assert torch.equal(run(batched(b="mn", ranks=ranks), [a, b], name), product(a, b))


@pytest.mark.parametrize("shape", [(3, 136, 200, 72), (16, 1000, 520, 264)])
def test_an_epilogue_of_a_batch(shape: tuple[int, int, int, int]) -> None:
    import torch

    batch, m, n, k = shape
    lines = ["d = fd.ops.add(d, c)", "d = fd.ops.relu(d)"]
    text = batched(b="mn", inputs={"c": ([-1, -1, -1], "BFloat16")}, epilogue=lines)
    a = integers((batch, m, k), "cols", torch.bfloat16, "cuda")
    b = integers((batch, k, n), "cols", torch.bfloat16, "cuda")
    c = integers((batch, m, n), "cols", torch.bfloat16, "cuda")
    expected = (product(a, b).float() + c.float()).relu()
    for name in (None, "coop_2_stages", "pipelined_tile_per_cta", "pingpong_64x128"):
        assert torch.equal(run(text, [a, b, c], name).float(), expected), name
