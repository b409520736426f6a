"""Inputs that each call makes anew: numbers, and matrices with columns apart; a fake driver."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lowering.cuda.launch import LoadedKernel
from tests.epilogues import RESIDUAL, epilogue
from wsched.bench.host import fake_kernel
from wsched.front import kernels, known
from wsched.run import compiled, host
from wsched.run.host import HostPlan
from wsched.run.kept import Kept
from wsched.run.staged import Number

torch = pytest.importorskip("torch", reason="torch is not installed")

NUMBER = epilogue(
    "s = fd.define_scalar(None, dtype=DataType.Double)",
    "f = fd.ops.mul(y, s)",
    "d = fd.ops.cast(f, dtype=DataType.BFloat16)",
)


def ones(*shape: int) -> Any:
    return torch.ones(shape, dtype=torch.bfloat16)


X, W = ones(16, 64), ones(24, 64)


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The tensors of every launch that is packed; results lie at one place."""
    seen, result = list[Any](), ones(16, 24)

    def counting(self: LoadedKernel, tensors: Any, params: Any, grid: int) -> Any:
        seen.append(dict(tensors))
        return SimpleNamespace(here=lambda: None)

    monkeypatch.setattr(LoadedKernel, "prepare", counting)
    monkeypatch.setattr(host, "allocator", lambda like: lambda: result)
    monkeypatch.setattr(kernels, "_kernels", Kept())
    monkeypatch.setattr(known, "_texts", {})
    return seen


def test_a_number_is_packed_once(packed: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = fake_kernel(NUMBER, [X, W, 0.5])
    kernel(X, W, 3.0)  # makes the plan
    monkeypatch.setattr(compiled, "bind", None)
    del packed[:]
    for value in (0.5, 0.25, 0.5, -2.0, 0.25):
        kernel(X, W, value)
    found = [t[name].item() for t in packed for name in t if t[name].dtype is torch.float32]
    assert found == [0.5, 0.25, -2.0]


def test_columns_apart_are_copied_by_each_call(
    packed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    r, read = ones(24, 16).T, list[Any]()
    kernel = fake_kernel(RESIDUAL, [X, W, r])
    kernel(X, W, r)
    into = HostPlan.into

    def seen(self: HostPlan, inputs: Any, outputs: Any) -> Any:
        read.append(inputs[2].clone())
        assert inputs[0] is X and inputs[2].stride(-1) == 1
        return into(self, inputs, outputs)

    monkeypatch.setattr(HostPlan, "into", seen)
    bound = kernel.bind(X, W, r)
    for value in (2, 3):
        r.fill_(value)
        kernel(X, W, r)
        bound()
    assert [t[0, 0].item() for t in read] == [2, 2, 3, 3]


def test_a_bound_number_stays(packed: list[Any]) -> None:
    bound = fake_kernel(NUMBER, [X, W, 0.5]).bind(X, W, 0.5)
    for _ in range(3):
        bound()
    assert len(packed) <= 2  # the element of the check, and the one that is kept


def test_numbers_are_kept_by_value() -> None:
    element = Number((1, 1), torch.float32, torch.device("cpu"))
    kept = element(0.5)
    assert element(0.5) is kept and kept.item() == 0.5 and kept.shape == (1, 1)
    zero, below = element(0.0), element(-0.0)
    assert [str(t.item()) for t in (zero, below)] == ["0.0", "-0.0"]
    assert element(True).item() == 1.0
    for value in range(1000):
        element(value + 0.5)
    assert element(0.5).item() == 0.5 and len(element._kept) <= 64
