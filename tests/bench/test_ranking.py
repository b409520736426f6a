"""The ranking is that of the call."""

from __future__ import annotations

from dataclasses import replace

import pytest

import wsched
from wsched.bench.epilogue import EPILOGUES
from wsched.bench.problem import Shape
from wsched.bench.ranking import ranking
from wsched.cpu import MULTIPROCESSORS

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("shape", [Shape(16, 512, 512), Shape(512, 768, 64)], ids=str)
@pytest.mark.parametrize("epilogue", ["bare", "residual"])
def test_the_first_is_what_compile_takes(shape: Shape, epilogue: str) -> None:
    text = EPILOGUES[epilogue].definition("bf16")
    found = ranking(text, shape, MULTIPROCESSORS)
    sizes = [(shape.m, shape.k), (shape.n, shape.k)]
    sizes += [(shape.m, shape.n)] if epilogue == "residual" else []
    kernel = wsched.compile(text, [torch.zeros(size).bfloat16() for size in sizes])
    assert replace(kernel.params, num_registers="auto") == found[0].params
    assert [r.us for r in found] == sorted(r.us for r in found)
    assert len({r.name for r in found}) == len(found) == len({r.params for r in found})


def test_names_and_the_cache() -> None:
    text = EPILOGUES["silu"].definition("bf16")
    found = ranking(text, Shape(2048, 8192, 512), 132)
    assert all(r.name[0].isdigit() for r in found)
    smaller = ranking(text, Shape(2048, 8192, 512), 132, 2**20)
    assert {r.name: r.us for r in found} != {r.name: r.us for r in smaller}
