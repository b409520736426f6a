"""The bench of weights of 8 bits, without a GPU."""

from __future__ import annotations

import pytest

from wsched.bench.method.operands import relative_error
from wsched.bench.problem import Shape
from wsched.bench.weights import ROTATED, SHAPES, main, report, sets_of, widened_first


def test_weights_rotate_over_more_than_the_caches() -> None:
    for shape in (*SHAPES, Shape(16, 1024, 1024)):
        for bits in (4, 8, 16):
            assert sets_of(shape, bits) * shape.n * shape.k * bits > 8 * ROTATED
    assert sets_of(Shape(1, 2**15, 2**15), 16) == 2


def test_lines() -> None:
    found = {"shape": "16x8192x8192", "type": "int8", "ratio": 1.625, "error": 1.6e-3,
             "us": {"wsched": [20.0, 21.0, 20.4], "cuBLAS": [33.0], "widened": [90.0]},
             "kernel": "matmul_x"}  # fmt: skip
    first = (
        "16x8192x8192     int8           1.625 of cuBLAS bf16  us: wsched 20.4, cuBLAS 33.0, "
        "widened 90.0"
    )
    assert report(found) == [f"{first}  error 1.60e-03  matmul_x"]
    more = found | {"us": found["us"] | {"y": [22.0]}, "predicted": {"y": 21.04}}
    assert report(more)[1:] == ["  y: 22.0 us, predicted 21.0"]


@pytest.mark.parametrize("group", [None, 32])
def test_what_is_widened_first_means_the_same(group: int | None) -> None:
    torch = pytest.importorskip("torch")
    draw = torch.Generator().manual_seed(0)
    m, n, k = 4, 8, 80
    x = torch.randn(m, k, generator=draw).bfloat16()
    w = torch.randint(-(2**31), 2**31, (n, k // 8), dtype=torch.int32, generator=draw)
    scale = torch.rand((n,) if group is None else (n, 3), generator=draw) + 0.5
    halves = w.view(torch.uint8)
    wide = torch.stack((halves & 15, halves >> 4), -1).view(n, k).float()
    each = [scale if group is None else scale[:, i // group] for i in range(k)]
    wanted = x.float() @ (wide * torch.stack(each, 1)).T
    assert relative_error(widened_first(torch, group)(x, w, scale), wanted) < 6e-3


def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    with pytest.raises(SystemExit):
        main([])
    told = "python -m wsched.bench.weights here (torch.cuda finds no GPU) is not supported; "
    assert capsys.readouterr().err == f"{told}supported: a CUDA GPU with torch\n"
