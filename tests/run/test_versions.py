"""Torch is told of what is written into memory that a caller gave, and of nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import wsched
from tests.front.cut.test_in_place import READ_AFTER, UNREAD
from tests.front.cut.test_in_place import RESIDUAL as IN_PLACE
from tests.program import host_scratch
from tests.reductions import Reduced
from tests.reductions import definition as reduced
from tests.schedules import definition
from wsched.front import kernels
from wsched.front.known import known
from wsched.importer.input_error import InputError
from wsched.program import prepare
from wsched.run.kept import Kept

torch = pytest.importorskip("torch")


@pytest.fixture
def chained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches are kept together as on a GPU, of kernels that no other test has called."""
    monkeypatch.setattr(kernels, "_kernels", Kept())
    monkeypatch.setattr(prepare, "_CHAINED", ("cpu",))
    host_scratch.installed(monkeypatch)


def matrices(count: int = 2) -> list[Any]:
    torch.manual_seed(0)
    return [torch.randint(-2, 3, (64, 64)).bfloat16() for _ in range(count)]


def by_call(kernel: Any, inputs: list[Any], out: Any) -> None:
    kernel(*inputs, out=out)


def by_bound(kernel: Any, inputs: list[Any], out: Any) -> None:
    kernel.bind(*inputs, out=out)()


def by_trace(kernel: Any, inputs: list[Any], out: Any) -> None:
    kernel.trace(*inputs, out=out)


ways = pytest.mark.parametrize("way", [by_call, by_bound, by_trace])


@ways
def test_given_results(way: Callable[..., None]) -> None:
    inputs, d = matrices(), torch.empty(64, 64).bfloat16()
    kernel = wsched.compile(definition(), inputs)
    for _ in range(2):
        before = d._version
        way(kernel, inputs, d)
        assert d._version == before + 1
    assert [t._version for t in inputs] == [0, 0]
    assert torch.equal(d, (inputs[0].float() @ inputs[1].float().T).bfloat16())


def test_given_results_of_a_class_that_is_known(
    chained: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, d = matrices(), torch.empty(64, 64).bfloat16()
    kernel = wsched.compile(definition(), inputs)
    monkeypatch.setattr(type(kernel), "_first_into", lambda *_: lambda inputs, outputs: outputs)
    for _ in range(2):
        before = d._version
        kernel(*inputs, out=d)
        assert d._version == before + 1
    with pytest.raises(InputError, match=r"^out\[0\] requires gradients"):
        kernel(*inputs, out=torch.empty(64, 64, dtype=torch.bfloat16, requires_grad=True))


@pytest.mark.parametrize("way", [by_call, by_bound])
def test_given_results_with_reductions_to_finish(way: Callable[..., None]) -> None:
    inputs = [*matrices(), torch.zeros(64).bfloat16()]
    kernel = wsched.compile(reduced((Reduced("sum", (0,)),)), inputs)
    outs = [torch.empty_like(t) for t in kernel(*inputs)]
    for _ in range(2):
        before = [t._version for t in outs]
        way(kernel, inputs, outs)
        assert all(t._version > n for t, n in zip(outs, before, strict=True))


def test_new_results_are_not_counted() -> None:
    inputs = matrices()
    assert wsched.compile(definition(), inputs)(*inputs)[0]._version == 0
    assert wsched.execute(definition(), inputs)[0]._version == 0


def test_each_launch_counts() -> None:
    bound = wsched.compile(definition(), inputs := matrices()).bind(*inputs)
    assert [bound()[0]._version for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("text", [IN_PLACE, UNREAD, READ_AFTER], ids=["read", "unread", "copied"])
def test_in_place(text: str, chained: None) -> None:
    x, w, c = matrices(3)
    known(text).routes.clear()
    for _ in range(3):
        before = c._version
        wsched.execute(text, [x, w, c])
        assert c._version > before and (x._version, w._version) == (0, 0)
    known(text).routes.clear()


def test_what_autograd_has_saved_is_missed() -> None:
    x, w, b = matrices(3)
    kernel = wsched.compile(definition(), [x, w])
    leaf = torch.ones(64, 64, dtype=torch.bfloat16, requires_grad=True)
    loss = (leaf * b).sum()
    kernel(x, w, out=b)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@ways
@pytest.mark.parametrize("leaf", [True, False], ids=["leaf", "computed"])
def test_results_that_require_gradients(leaf: bool, way: Callable[..., None]) -> None:
    inputs, d = matrices(), torch.zeros(64, 64).bfloat16().requires_grad_()
    kernel = wsched.compile(definition(), inputs)
    out = d if leaf else d * 1
    text = (
        r"^out\[0\] requires gradients, and what is written into it has none; pass it detached, "
        r"or call inside of torch\.no_grad\(\)$"
    )
    with pytest.raises(InputError, match=text):
        way(kernel, inputs, out)
    assert not out.any()
    with torch.no_grad():
        way(kernel, inputs, out)
    assert out._version == 1 and out.any()


@pytest.mark.parametrize("text", [IN_PLACE, READ_AFTER], ids=["by a kernel", "copied"])
def test_inputs_that_require_gradients_are_not_written(text: str) -> None:
    x, w, c = matrices(3)
    kept = c.clone()
    c.requires_grad_()
    for _ in range(2):  # the second one goes the way of the first
        with pytest.raises(InputError, match=r"^input 2 requires gradients, and what is written"):
            wsched.execute(text, [x, w, c])
        assert torch.equal(c.detach(), kept)
        with torch.no_grad():
            wsched.execute(text, [x, w, c])
            c.copy_(kept)


def test_inference_tensors_have_no_version() -> None:
    x, w, b = matrices(3)
    kernel = wsched.compile(definition(), [x, w])
    with torch.inference_mode():
        own = torch.empty(64, 64).bfloat16()
        kernel(x, w, out=own)
        kernel(x, w, out=b)
    assert b._version == 1 and torch.equal(own, b)
    kernel.bind(x, w, out=own)()


def test_nor_are_they_inside_of_what_torch_compiles() -> None:
    x, w, c = matrices(3)
    kept = c.clone()
    run = torch.compile(lambda *given: wsched.execute(IN_PLACE, [*given]), backend="aot_eager")
    with pytest.raises(Exception, match=r"input 2 requires gradients, and what is written"):
        run(x, w, c.requires_grad_())
    assert torch.equal(c.detach(), kept)
    with torch.no_grad():
        run(x, w, c)
    assert not torch.equal(c.detach(), kept)
