"""Batches of matmuls on the machine: every way to deal out tiles, at sizes that no tile divides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import wsched
from tests.batches import batched, integers, product
from tests.schedules import SCHEDULES
from wsched.front.known import import_fusion
from wsched.run.compiled import compile_fusion

NAMES = (
    "coop_128x128", "coop_traversal_odd", "pingpong_64x256", "cluster_2x2", "dynamic", "stream_k",
    "split_2", "tile_per_cta", "pipelined", "dynamic_cluster_pingpong",
)  # fmt: skip


def run(text: str, inputs: list[Any], name: str, **changes: Any) -> Any:
    params = replace(SCHEDULES[name], **changes)
    (d,) = wsched.compile(text, inputs, params=params)(*inputs)
    return d


@pytest.mark.sampled
@pytest.mark.parametrize("name", NAMES)
def test_integers_are_exact(name: str) -> None:
    """More tiles than CTAs, so that a CTA goes on from one matrix to the next."""
    torch.manual_seed(1)
    a, b = (
        integers((3, 136, 72), "cols", torch.bfloat16),
        integers((3, 72, 200), "cols", torch.bfloat16),
    )
    assert torch.equal(run(batched(b="mn"), [a, b], name), product(a, b))


@pytest.mark.parametrize("a_major", ["k", "mn"])
@pytest.mark.parametrize("b_major", ["k", "mn"])
def test_layouts(a_major: str, b_major: str) -> None:
    a = integers((2, 72, 40), "cols" if a_major == "k" else "rows", torch.float16)
    b = integers((2, 40, 136), "rows" if b_major == "k" else "cols", torch.float16)
    text = batched(a_major, b_major, dtype="Half")
    assert torch.equal(run(text, [a, b], "coop_128x64"), product(a, b))


@pytest.mark.sampled
@pytest.mark.parametrize("ranks", [(3, 2), (2, 3)])
@pytest.mark.parametrize("name", ["coop_128x64", "cluster_2x1", "pingpong_64x128"])
def test_one_matrix_for_all(ranks: tuple[int, int], name: str) -> None:
    """An operand without a batch dimension is the same for all of the batch."""
    shapes = (3, 72, 40)[3 - ranks[0] :], (3, 40, 136)[3 - ranks[1] :]
    a, b = (integers(shape, "cols", torch.bfloat16) for shape in shapes)
    assert torch.equal(run(batched(b="mn", ranks=ranks), [a, b], name), product(a, b))


def test_linear_of_a_batch_of_activations() -> None:
    text = batched(ranks=(3, 2)).replace("fd.ops.matmul", "fd.ops.linear")
    text = text.replace("stride_order=[0, 1]", "stride_order=[1, 0]")
    x, w = (
        integers((3, 72, 40), "cols", torch.bfloat16),
        integers((136, 40), "cols", torch.bfloat16),
    )
    assert torch.equal(run(text, [x, w], "coop_128x64"), product(x, w.T))


@pytest.mark.sampled
@pytest.mark.parametrize("axes", ["BMN", "MN", "N", "BM1"])
@pytest.mark.parametrize("stages", [0, 2])
def test_epilogue_inputs(axes: str, stages: int) -> None:
    """A tensor of the result's size, by TMA or by threads, and those that are repeated."""
    sizes = {"B": 2, "M": 72, "N": 136, "1": 1}
    shape = [sizes[axis] for axis in axes]
    c = torch.randint(-2, 3, shape).float()
    dims = [1 if axis == "1" else -1 for axis in axes]
    lines = ["d = fd.ops.add(d, c)"]
    text = batched(b="mn", inputs={"c": (dims, "Float")}, epilogue=lines)
    a, b = (
        integers((2, 72, 40), "cols", torch.bfloat16),
        integers((2, 40, 136), "cols", torch.bfloat16),
    )
    d = run(text, [a, b, c], "coop_2_stages", epilogue_input_stages=stages)
    assert torch.equal(d, (a.double() @ b.double() + c).float())


def test_a_result_by_columns() -> None:
    text = batched(b="mn", epilogue=["d = fd.ops.permute(d, dims=[0, 2, 1])"])
    a, b = (
        integers((2, 72, 40), "cols", torch.bfloat16),
        integers((2, 40, 136), "cols", torch.bfloat16),
    )
    assert torch.equal(run(text, [a, b], "coop_128x64"), product(a, b).mT)


def test_threads_store_a_batch() -> None:
    """Between matrices and behind rows of the result is memory that nobody writes."""
    a, b = (
        integers((2, 72, 40), "cols", torch.bfloat16),
        integers((2, 40, 134), "cols", torch.bfloat16),
    )
    params = replace(SCHEDULES["coop_128x64"], use_smem_epilogue=False)
    whole = torch.full((2, 80, 150), float("nan"), dtype=torch.bfloat16)
    out = whole[:, :72, :134]
    wsched.compile(batched(b="mn"), [a, b], params=params)(a, b, out=[out])
    assert torch.equal(out, product(a, b))
    assert whole.isnan().sum() == whole.numel() - out.numel()


@pytest.mark.parametrize("shape", [(0, 72, 40), (2, 72, 0), (2, 0, 40)])
def test_nothing_to_do(shape: tuple[int, int, int]) -> None:
    batch, m, k = shape
    a, b = torch.ones(batch, m, k).bfloat16(), torch.ones(batch, k, 136).bfloat16()
    assert torch.equal(run(batched(b="mn"), [a, b], "coop_128x64"), product(a, b))


def test_operands_that_tma_cannot_read_are_copied() -> None:
    """An odd K, and a batch that is one matrix in memory."""
    a = integers((2, 72, 37), "cols", torch.bfloat16)
    b = integers((40, 136), "cols", torch.bfloat16)[:37].expand(2, 37, 136)
    (d,) = wsched.execute(batched(b="mn"), [a, b])
    assert torch.equal(d, product(a, b))


def test_a_cubin() -> None:
    found = compile_fusion(import_fusion(batched(b="mn")), SCHEDULES["cluster_2x2"])
    assert found.resources.clean, str(found.resources)
