"""Operands with either dimension contiguous, and results by columns, on a real GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import wsched
from tests.schedules import LAYOUTS, SCHEDULES, cooperative, definition, ping_pong
from wsched.schedule.matmul.params import MatmulParams

pytestmark = pytest.mark.gpu

KERNELS: dict[str, MatmulParams | None] = {
    "heuristic": None,
    "cooperative": SCHEDULES["coop_128x256"],
    "rows_256": SCHEDULES["coop_256x128"],
    "three_groups": SCHEDULES["coop_3_groups"],
    "k_128": SCHEDULES["coop_k128"],
    "span_64": cooperative(128, 96),
    "span_32": cooperative(128, 80),
    "ping_pong": SCHEDULES["pingpong_64x256"],
    "ping_pong_rows_128": SCHEDULES["pingpong_128x128"],
    "tile_per_cta": SCHEDULES["tile_per_cta"],
    "pipelined": SCHEDULES["pipelined"],
    "cluster_2x1": SCHEDULES["cluster_2x1"],
    "cluster_1x2": SCHEDULES["cluster_1x2"],
    "cluster_2x2": SCHEDULES["cluster_2x2"],
    "cluster_2x1_slices_of_k": cooperative(128, 192, stages=3, cluster=(2, 1)),
    "cluster_1x2_ping_pong": ping_pong(64, 128, cluster=(1, 2)),
}
PROBLEMS = [(128, 256, 64), (8, 8, 8), (136, 264, 200), (1000, 3000, 72), (2048, 1536, 1024)]


def run(text: Any, inputs: Sequence[Any], params: MatmulParams | None = None) -> Any:
    """Results of wsched's own kernel: ``execute`` would hand a refusal on to another route."""
    return wsched.compile(text, inputs, params=params)(*inputs)


def integers(rows: int, cols: int, by_columns: bool, dtype: str) -> Any:
    """Integers in [-2, 2], by rows or by columns: every partial sum is exact."""
    import torch

    shape = (cols, rows) if by_columns else (rows, cols)
    x = torch.randint(-2, 3, shape, device="cuda").to(getattr(torch, dtype))
    return x.T if by_columns else x


def operands(layout: str, m: int, n: int, k: int, dtype: str = "bfloat16") -> tuple[Any, Any]:
    import torch

    torch.manual_seed(m * n + k)
    return integers(m, k, layout[0] == "n", dtype), integers(n, k, layout[1] == "t", dtype)


def product(x: Any, w: Any) -> Any:
    return (x.double() @ w.double().T).to(x.dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", KERNELS)
def test_integers_are_exact(name: str, layout: str) -> None:
    import torch

    for m, n, k in PROBLEMS:
        x, w = operands(layout, m, n, k)
        kernel = wsched.compile(definition(), [x, w], params=KERNELS[name])
        out = torch.full((m, n), float("nan"), device="cuda", dtype=x.dtype)
        (d,) = kernel(x, w, out=[out])
        assert torch.equal(d, product(x, w)), (m, n, k)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_half_and_wide_results(layout: str) -> None:
    import torch

    x, w = operands(layout, 520, 776, 328, "float16")
    (d,) = run(definition("f16", "f32"), [x, w])
    assert torch.equal(d, x.float().double().matmul(w.double().T).float())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_result_by_columns(layout: str) -> None:
    import torch

    text = definition().replace(
        "fd.add_output(d)", "s = fd.ops.stride_order(d, stride_order=[0, 1])\n    fd.add_output(s)"
    )
    x, w = operands(layout, 520, 776, 328)
    (d,) = run(text, [x, w])
    assert d.stride() == (1, 520)
    assert torch.equal(d, product(x, w))


def test_views_and_new_shapes_compile_nothing() -> None:
    import torch

    from lowering.cuda.nvrtc import compilations

    x, w = operands("nt", 512, 512, 256)
    params = SCHEDULES["coop_128x128"]
    run(definition(), [x, w], params=params)
    before = compilations()
    for view in (x[8:408, 16:], x[:200, :].clone(memory_format=torch.preserve_format)):
        other = w[:, : view.shape[1]]
        (d,) = run(definition(), [view, other], params=params)
        assert torch.equal(d, product(view, other))
    assert compilations() == before
