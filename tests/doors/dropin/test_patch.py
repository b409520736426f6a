"""Installing, nesting, and putting nvFuser's own function back."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import pytest

import wsched
from tests.doors.dropin.definitions import BF16, BUILDERS, built, inputs_of, matrix, nvf, torch
from tests.doors.dropin.spy import Spy
from wsched.doors.dropin import enabled, install, installed, uninstall


@pytest.fixture(autouse=True)
def clean(nvfuser: Spy) -> Any:
    yield
    uninstall()
    assert not installed()


def function() -> Any:
    return nvf.FusionDefinition.__dict__["execute"]


def test_installed_and_put_back() -> None:
    own = function()
    install()
    ours = function()
    install()
    assert function() is ours is not own and installed()
    uninstall()
    assert function() is own and not installed()
    uninstall()
    assert function() is own


def test_parameters_that_stay(nvfuser: Spy) -> None:
    """What is made of them is made once, by nvFuser, and again after a write; of a tensor, which is
    no parameter, in each call by a kernel of wsched's."""

    def scaled(fd: Any) -> None:
        x, w, g = (matrix(fd) for _ in range(3))
        fd.add_output(fd.ops.linear(x, fd.ops.cast(fd.ops.mul(w, g), dtype=BF16)))

    fd = built(scaled)
    x, w, g = (torch.randint(-2, 3, (n, 64)).bfloat16() for n in (32, 24, 24))
    w, g = (torch.nn.Parameter(t, requires_grad=False) for t in (w, g))

    def calls(*inputs: Any) -> int:
        before = len(nvfuser.calls)
        (found,) = fd.execute(list(inputs))
        torch.testing.assert_close(found, inputs[0] @ (inputs[1] * inputs[2]).T)
        return len(nvfuser.calls) - before

    install()
    assert [calls(x, w, g) for _ in range(2)] == [0, 0]
    install(constant_parameters=True)
    assert [calls(x, w, g) for _ in range(3)] == [1, 0, 0]
    with torch.no_grad():
        g.mul_(2)
    assert [calls(x, w, g) for _ in range(2)] == [1, 0]
    assert [calls(x, w, g.detach()) for _ in range(2)] == [0, 0]
    install()
    assert calls(x, w, g) == 0


def test_definitions_made_before_and_after(nvfuser: Spy) -> None:
    early, inputs = built(BUILDERS["linear"]), inputs_of("linear")
    early.execute(inputs)
    install()
    late = built(BUILDERS["linear"])
    results = [fd.execute(inputs)[0] for fd in (early, late)]
    assert len(nvfuser.calls) == 1
    uninstall()
    results += [fd.execute(inputs)[0] for fd in (early, late)]
    assert len(nvfuser.calls) == 3
    assert all(torch.equal(r, results[0]) for r in results)


def test_blocks_nest_and_end_with_errors() -> None:
    own = function()
    with pytest.raises(ZeroDivisionError), enabled(), enabled():
        assert installed()
        1 / 0  # noqa: B018
    assert function() is own
    with enabled():
        install()
    assert installed()
    with enabled():
        uninstall()
        assert installed()
    assert function() is own


def test_blocks_of_threads_overlap() -> None:
    own, first, second = function(), threading.Event(), threading.Event()

    def block() -> None:
        with enabled():
            first.set()
            second.wait()

    thread = threading.Thread(target=block)
    thread.start()
    first.wait()
    with enabled():
        pass
    assert installed()
    second.set()
    thread.join()
    assert function() is own


def test_somebody_elses_function_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    own = function()
    install()
    ours = function()

    def theirs(fd: Any, inputs: Any) -> Any:
        return ours(fd, inputs)

    monkeypatch.setattr(nvf.FusionDefinition, "execute", theirs)
    uninstall()
    assert function() is theirs
    monkeypatch.setattr(nvf.FusionDefinition, "execute", ours)
    uninstall()
    assert function() is own


def test_it_looks_like_nvfusers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    own = inspect.signature(nvf.FusionDefinition.execute)
    assert list(own.parameters)[:3] == ["self", "inputs", "device"]
    with enabled():
        replaced = nvf.FusionDefinition.execute
        assert inspect.signature(replaced) == own
        assert replaced.__doc__ and replaced.__name__ == "execute"


def test_a_class_of_its_own(nvfuser: Spy) -> None:
    from wsched import FusionDefinition

    inputs = inputs_of("linear")
    for kind, taken in ((nvf.FusionDefinition, False), (FusionDefinition, True)):
        nvfuser.calls.clear()
        fd = built(BUILDERS["linear"], kind)
        fd.execute(inputs)
        assert (not nvfuser.calls) == taken
    assert issubclass(FusionDefinition, nvf.FusionDefinition) and not installed()


@pytest.mark.parametrize("also_installed", [False, True])
def test_a_class_of_its_own_goes_to_nvfuser_once(also_installed: bool, nvfuser: Spy) -> None:
    if also_installed:
        wsched.install()
    fd = built(lambda fd: fd.add_output(fd.ops.neg(fd.define_tensor(shape=[-1]))), None)
    own = built(
        lambda fd: fd.add_output(fd.ops.neg(fd.define_tensor(shape=[-1]))), wsched.FusionDefinition
    )
    inputs = [torch.ones(3)]
    for made in (fd, own):
        nvfuser.calls.clear()
        made.execute(inputs, device=None)
        assert nvfuser.calls == [(made, inputs, {"device": None})]


class Profiler:
    """As nvFuser's, which needs a GPU."""

    def __enter__(self) -> Profiler:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def test_calls_under_a_profiler_are_nvfusers(nvfuser: Spy, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts nvFuser's kernels, and programs ask how many there were."""
    monkeypatch.setattr(nvf, "PythonProfiler", Profiler)
    own = Profiler.__enter__, Profiler.__exit__
    fd, inputs = built(BUILDERS["linear"]), inputs_of("linear")
    install()
    (ours,) = fd.execute(inputs)
    assert not nvfuser.calls
    with nvf.PythonProfiler() as outer, nvf.PythonProfiler():
        assert type(outer) is Profiler
        (theirs,) = fd.execute(inputs)
    assert len(nvfuser.calls) == 1 and torch.equal(ours, theirs)
    with pytest.raises(KeyError), nvf.PythonProfiler():
        raise KeyError
    fd.execute(inputs)
    assert len(nvfuser.calls) == 1
    assert "nvFuser's profiler is on" in str(wsched.report())
    uninstall()
    assert own == (Profiler.__enter__, Profiler.__exit__)


@pytest.mark.parametrize("stay", [False, True])
def test_inputs_that_are_of_no_class_are_nvfusers(stay: bool, nvfuser: Spy) -> None:
    """A sparse tensor has no strides that could be remembered."""
    install(constant_parameters=stay)
    fd, (x, w) = built(BUILDERS["linear"]), inputs_of("linear")
    fd.execute([x, w])
    assert not nvfuser.calls
    sparse = [x, w.to_sparse()]
    nvfuser.error = RuntimeError("nvFuser's own")
    with pytest.raises(RuntimeError, match="nvFuser's own"):
        fd.execute(sparse)
    assert nvfuser.calls == [(fd, sparse, {})]
    assert not fd._wsched.known.left and len(fd._wsched.known.plans) == 1
