"""Counters of a launch: whose they are, and where they stand among the arguments."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

import pytest

from lowering.cuda.launch import LoadedKernel
from lowering.cuda.launch_memory import Needs
from lowering.ground.errors import InternalError, WschedError
from lowering.ground.expr import Const, Var
from lowering.kernel.kernel import CounterArray, Workspace
from tests.lowering.cuda.fake_driver import Driver, Tensor
from tests.lowering.cuda.kernels import copy_kernel
from wsched.run.workspace import Workspace as Buffers


def test_counters_are_those_of_the_stream(driver: Driver) -> None:
    """Behind the other addresses, one array after the other; asked for by each launch."""
    counters = (CounterArray("next", Const(1)), CounterArray("parts", Var("M")))
    kernel = copy_kernel().declare(*counters)
    asked: list[tuple[int, int, int, bool]] = []

    def workspace(*place: Any) -> Any:
        asked.append(place)
        return Tensor(address=place[0] * 1000 + len(asked) // 3)

    loaded = LoadedKernel(kernel, b"", workspace)
    tensors = {"A": Tensor(), "D": Tensor(address=8192)}
    prepared = loaded.prepare(tensors, {"M": 100, "N": 128}, 2)  # type: ignore[arg-type]
    for stream in (7, 8, 7, 7):
        prepared(stream)
    assert asked == [(stream, 0, 404, True) for stream in (7, 8, 7, 7)]
    assert driver.params == [
        (b"map1", b"map2", 7000, 7004),
        (b"map1", b"map2", 8000, 8004),
        (b"map1", b"map2", 7001, 7005),
        (b"map1", b"map2", 7001, 7005),
    ]


def test_workspaces_stand_behind_the_counters(driver: Driver) -> None:
    """In memory of their own, which need not be zeros; the splits are the grid's z."""
    storage = CounterArray("ready", Var("ctas")), Workspace("parts", 64, 16, Var("ctas") * Var("N"))
    kernel = replace(copy_kernel(), splits=3).declare(*storage)
    asked: list[tuple[int, int, int, bool]] = []

    def workspace(stream: int, device: int, nbytes: int, zeroed: bool) -> Any:
        asked.append((stream, device, nbytes, zeroed))
        return Tensor(address=111 if zeroed else 222)

    tensors = {"A": Tensor(), "D": Tensor(address=8192)}
    loaded = LoadedKernel(kernel, b"", workspace)
    loaded.launch(tensors, {"M": 100, "N": 7}, 2, 5)  # type: ignore[arg-type]
    assert asked == [(5, 0, 2 * 4, True), (5, 0, 2 * 7 * 64 * 16 * 4, False)]
    assert driver.params == [(b"map1", b"map2", 111, 222)]
    assert [blocks for _, blocks, *_ in driver.named("launch")] == [[2, 1, 3, 128, 1, 1]]


class Stopped(BaseException):
    """Ctrl-C, or what else ends a launch at any point."""


class Memory:
    """A real workspace of a stream that may be captured; each buffer with the capture, 0 for none,
    that its zeros are written in.
    """

    def __init__(self) -> None:
        self.capture, self.stop, self.made = 0, False, list[tuple[int, Tensor]]()
        self.workspace = Buffers(
            self.allocate, lambda *_: self.capture, lambda stream, _: stream, lambda _: True
        )

    def allocate(self, stream: int, device: int, nbytes: int, zeroed: bool) -> Tensor:
        assert zeroed
        self.made.append((self.capture, Tensor(address=1000 * (1 + len(self.made)))))
        if self.stop:
            raise Stopped
        return self.made[-1][1]

    def launch(self) -> None:
        kernel = copy_kernel().declare(CounterArray("next", Const(1)))
        tensors = {"A": Tensor(), "D": Tensor(address=8192)}
        loaded = LoadedKernel(kernel, b"", self.workspace.get)
        loaded.launch(tensors, {"M": 100, "N": 128}, 2, 7)  # type: ignore[arg-type]


def test_a_launch_that_the_driver_refuses_has_not_counted(driver: Driver) -> None:
    """So what the next one gets are the zeros that nobody has touched."""
    memory = Memory()
    driver.launch_status = [1]
    with pytest.raises(WschedError):
        memory.launch()
    memory.launch()
    assert [capture for capture, _ in memory.made] == [0]
    assert {p[2] for p in driver.params} == {1000}


def test_counters_whose_zeros_were_interrupted_are_nobodys(driver: Driver) -> None:
    memory = Memory()
    memory.stop = True
    with pytest.raises(Stopped):
        memory.launch()
    memory.stop = False
    memory.launch()
    assert [p[2] for p in driver.params] == [2000]


@pytest.mark.parametrize("in_front", [False, True], ids=["before", "behind"])
def test_a_capture_that_is_given_up_leaves_no_counters(driver: Driver, in_front: bool) -> None:
    """Its zeros are a node of a graph that never runs: neither launches outside, nor those of the
    next capture of the same stream, get that memory.
    """
    memory = Memory()
    if in_front:
        memory.launch()
    memory.capture = 5
    memory.launch()
    driver.launch_status = [1]
    with pytest.raises(WschedError):
        memory.launch()
    for memory.capture in (0, 6):
        memory.launch()
    given = {p[2]: None for p in driver.params}
    whose = {int(t.data_ptr()): capture for capture, t in memory.made}
    assert [whose[at] for at in given] == ([0, 5, 6] if in_front else [5, 0, 6])
    assert driver.params[-2][2] != driver.params[-1][2]


def test_one_workspace_follows_the_other() -> None:
    storage = Workspace("p", 64, 8, Var("ctas")), Workspace("q", 64, 16, Const(2))
    kernel = copy_kernel().declare(*storage)
    needs = Needs.of(kernel, {"ctas": 3})
    assert (needs.counters, needs.workspaces, needs.total) == ((), (6144, 8192), 14336)
    assert needs.addresses(0, 1000) == [1000, 7144]
    slots = Tensor(address=1000)
    assert needs.memory(lambda *_: slots, 0, 0) == (None, slots)


def test_memory_is_held_until_the_launch_is_in_the_stream(driver: Driver) -> None:
    """Somebody else may take its place in the workspace meanwhile."""
    kernel = copy_kernel().declare(CounterArray("next", Const(1)))
    loaded = LoadedKernel(kernel, b"", lambda *_: Tensor(address=7000))
    made, living = [], []

    def workspace(*_: Any) -> Any:
        made.append(weakref.ref(found := Tensor(address=7000)))
        return found

    submit = loaded._submit

    def submitting(*launch: Any) -> int:
        living.append(made[-1]() is not None)
        return int(submit(*launch))

    loaded._workspace, loaded._submit = workspace, submitting
    tensors = {"A": Tensor(), "D": Tensor(address=8192)}
    loaded.launch(tensors, {"M": 100, "N": 128}, 2, 5)  # type: ignore[arg-type]
    assert living == [True]
    assert made[0]() is None


def test_counters_need_a_workspace(driver: Driver) -> None:
    kernel = copy_kernel().declare(CounterArray("next", Const(1)))
    tensors = {"A": Tensor(), "D": Tensor()}
    with pytest.raises(InternalError) as e:
        LoadedKernel(kernel, b"").launch(tensors, {"M": 1, "N": 8}, 2)  # type: ignore[arg-type]
    assert e.value.why == "copy has counters, but no workspace"
