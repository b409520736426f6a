"""Matmuls of groups inside of ``torch.compile``, where nobody knows ends: whole graphs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import wsched
from tests.grouped import FORMS, given, grouped, product


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch._dynamo.reset()
    re.purge()  # as in a process that has just begun
    yield
    torch._dynamo.reset()


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    made: Callable[..., Any] = torch.compile(
        function, backend="aot_eager", fullgraph=True, **options
    )
    return made


@pytest.mark.parametrize("form", FORMS)
def test_a_definition(form: str) -> None:
    """Sizes and ends may be others each time."""
    text = grouped(matrix="kn", ranks=FORMS[form])
    function = compiled(lambda x, w, o: wsched.execute(text, [x, w, o])[0] + 1, dynamic=True)
    for sizes, n, k in (((5, 0, 70), 40, 32), ((15, 2, 30), 24, 48)):
        inputs = given(sizes, n, k, matrix="kn", ranks=FORMS[form])
        assert torch.equal(function(*inputs), product(*inputs).bfloat16() + 1)


def test_with_a_bias() -> None:
    lines = (
        "b = fd.define_tensor(shape=[-1, -1], dtype=DataType.BFloat16)",
        "d = fd.ops.grouped_mm(x, w, o, bias=b)", "fd.add_output(d)",
    )  # fmt: skip
    text = grouped(*lines, matrix="kn")
    inputs = *given((5, 0, 70), 40, 32, matrix="kn"), torch.ones(3, 40).bfloat16()
    (found,) = compiled(lambda *given: wsched.execute(text, list(given)))(*inputs)
    assert torch.equal(found, (product(*inputs[:3]) + 1).bfloat16())


def _scaled(ops: Any, gate: Any, up: Any, scale: Any) -> Any:
    rows = ops.broadcast(scale, is_broadcast_dim=[False, True])
    return ops.mul(ops.mul(ops.relu(gate), up), rows)


@pytest.mark.parametrize("by_index", [False, True])
def test_grouped_mm(by_index: bool) -> None:
    def layer(x: Any, w: Any, ends: Any, scale: Any) -> Any:
        rows = torch.arange(len(x) - 1, -1, -1) if by_index else None
        both = w, w * 2
        return 1 + wsched.grouped_mm(x, both, ends, epilogue=_scaled, inputs=[scale], rows=rows)

    function = compiled(layer)
    for sizes in ((5, 0, 70), (15, 2, 30)):
        inputs = *given(sizes, 40, 32, matrix="kn"), torch.rand(sum(sizes))
        assert torch.equal(function(*inputs), layer(*inputs))


def test_a_layer_of_experts() -> None:
    torch.manual_seed(0)
    up, down = torch.randn(2, 4, 32, 24).bfloat16(), torch.randn(4, 24, 32).bfloat16()

    def layer(x: Any, ids: Any, weights: Any) -> Any:
        return wsched.moe(x, ids, weights, (up[0], up[1]), down)

    function = compiled(layer)
    for tokens in (17, 33):
        ids, weights = torch.randint(-1, 4, (tokens, 2)), torch.rand(tokens, 2)
        inputs = torch.randn(tokens, 32).bfloat16(), ids, weights
        assert torch.equal(function(*inputs), layer(*inputs))
