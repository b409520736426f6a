"""A program of lightning-thunder, whose executor hands its traces to nvFuser's FusionDefinition.

Release 0.2.6 takes nvfuser_direct from 0.2.34 on, so this nvFuser, without the older package.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import wsched
from wsched.doors.dropin import execute, uninstall

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]

torch = pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    uninstall()


def block(x: Any, w1: Any, b: Any, w2: Any) -> Any:
    functional = torch.nn.functional
    hidden = functional.gelu(functional.linear(x, w1, b), approximate="tanh")
    return functional.linear(hidden, w2) + x


def test_a_block_of_two_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    thunder = pytest.importorskip("thunder", reason="lightning-thunder is not installed")
    decided: list[bool] = []
    decide = execute.decide

    def listening(known: Any, inputs: Any, constants: Any) -> Any:
        decision = decide(known, inputs, constants)
        decided.append(decision.taken)
        return decision

    monkeypatch.setattr(execute, "decide", listening)
    shapes = (512, 1024), (4096, 1024), (4096,), (1024, 4096)
    inputs = [torch.randn(s, device="cuda").bfloat16() * 0.05 for s in shapes]
    wanted = thunder.jit(block, nv_enable_linear=True)(*inputs)
    with wsched.enabled():
        jitted = thunder.jit(block, nv_enable_linear=True)
        found = [jitted(*inputs) for _ in range(2)]
    assert decided == [True]
    for f in found:
        assert (f.shape, f.stride(), f.dtype) == (wanted.shape, wanted.stride(), wanted.dtype)
        assert (f.float() - wanted.float()).norm() < 1e-2 * wanted.float().norm()
