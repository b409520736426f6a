"""The bench of weights of 8 bits, without a GPU."""

from __future__ import annotations

import pytest

from wsched.bench.problem import Shape
from wsched.bench.weights import ROTATED, SHAPES, main, report, sets_of


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


def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    with pytest.raises(SystemExit):
        main([])
    told = "python -m wsched.bench.weights here (torch.cuda finds no GPU) is not supported; "
    assert capsys.readouterr().err == f"{told}supported: a CUDA GPU with torch\n"
