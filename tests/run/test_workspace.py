"""Workspaces: which launches share one, and what lives on."""

from __future__ import annotations

import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from tests.lowering.cuda.fake_driver import Driver, fake_torch
from wsched.run import workspace
from wsched.run.workspace import Workspace, _allocate, _capture, _is_graphs


class Device:
    """Gives out buffers, and says which streams are which, and which are being captured."""

    def __init__(self, is_graphs: bool = True) -> None:
        self.made: list[tuple[int, int, int, bool]] = []
        self.captures: dict[int, int] = {}
        self.numbers: dict[int, int] = {}
        self.workspace = Workspace(
            self.allocate,
            lambda stream, _: self.captures.get(stream, 0),
            lambda stream, _: self.numbers.get(stream, stream),
            lambda _: is_graphs,
        )

    def allocate(self, stream: int, device: int, nbytes: int, zeroed: bool) -> Any:
        self.made.append((stream, device, nbytes, zeroed))
        return Buffer(nbytes)


class Buffer(bytearray):
    """Memory that can be watched."""


def test_launches_of_a_stream_share_one() -> None:
    d = Device()
    first = d.workspace.get(7, 0, 64, True)
    assert d.workspace.get(7, 0, 64, True) is first
    assert d.workspace.get(7, 0, 8, True) is first
    assert d.made == [(7, 0, 64, True)]


def test_each_thread_has_its_own_stream_of_one_handle() -> None:
    d = Device()
    with ThreadPoolExecutor(1) as pool:
        there = pool.submit(d.workspace.get, 2, 0, 8, True).result()
    assert d.workspace.get(2, 0, 8, True) is not there


def test_streams_devices_and_zeros_are_told_apart() -> None:
    d = Device()
    places = [(7, 0, False), (7, 0, True), (8, 0, True), (7, 1, True)]
    found = [d.workspace.get(stream, device, 8, zeroed) for stream, device, zeroed in places]
    assert len({id(x) for x in found}) == len(places)


def test_a_handle_that_another_stream_has_now() -> None:
    """What was launched on the one that was destroyed may still run."""
    d = Device()
    d.numbers[7] = 100
    first = d.workspace.get(7, 0, 8, True)
    d.numbers[7] = 101
    assert d.workspace.get(7, 0, 8, True) is not first


def test_a_stream_that_is_captured_has_no_number() -> None:
    """The driver would refuse to say it, and the capture would be lost."""

    def number(stream: int, device: int) -> int:
        raise AssertionError(stream)

    d = Device()
    d.captures[7] = 5
    captured = Workspace(d.allocate, lambda stream, _: d.captures[stream], number, lambda _: True)
    assert captured.get(7, 0, 8) is captured.get(7, 0, 8)


def test_a_larger_one_takes_its_place_twice_as_large() -> None:
    d = Device()
    small = weakref.ref(d.workspace.get(7, 0, 8))
    large = d.workspace.get(7, 0, 9)
    assert len(large) == 16
    assert small() is None
    assert d.workspace.get(7, 0, 16) is large
    assert d.workspace.get(7, 0, 8) is large


def test_buffers_of_many_streams_do_not_stay() -> None:
    d = Device()
    kept = [weakref.ref(d.workspace.get(stream, 0, 8)) for stream in range(workspace._BUFFERS)]
    assert kept[0]() is d.workspace.get(0, 0, 8)  # the most recently used one now
    d.workspace.get(1000, 0, 8)
    assert [b() is None for b in kept] == [False, True, *[False] * (workspace._BUFFERS - 2)]


def test_buffers_of_graphs_that_torch_captured_go() -> None:
    d = Device()
    d.captures[7] = 1
    mine = weakref.ref(d.workspace.get(7, 0, 8))
    for number in range(2, 2 + workspace._BUFFERS):
        d.captures[7] = number
        d.workspace.get(7, 0, 8)
    assert mine() is None


def test_buffers_of_other_graphs_stay_and_there_may_be_so_many() -> None:
    d = Device(is_graphs=False)
    kept = []
    for number in range(1, 1 + workspace._FOREIGN):
        d.captures[7] = number
        kept.append(weakref.ref(d.workspace.get(7, 0, 8)))
    assert all(b() is not None for b in kept)
    d.captures[7] = 1000
    with pytest.raises(UnsupportedError) as refused:
        d.workspace.get(7, 0, 8)
    assert str(refused.value) == (
        "capturing kernels with counters or workspaces 257 times is not supported; supported: 256 "
        "times by others than torch, whose memory is never given back. Capture with "
        "torch.cuda.graph, where memory goes with the graph"
    )


@pytest.mark.parametrize(("pool", "its"), [((0, 0), False), ((0, 3), True), (None, False)])
def test_whose_pool_a_buffer_is_in(
    pool: tuple[int, int] | None, its: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    segment = {"address": 4096, "total_size": 4096}
    segments = [
        {"address": 0, "total_size": 4096, "segment_pool_id": (0, 9)},
        segment if pool is None else {**segment, "segment_pool_id": pool},
    ]
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: segments)
    assert _is_graphs(SimpleNamespace(data_ptr=lambda: 4096)) is its


def test_a_capture_has_its_own() -> None:
    d = Device()
    eager = d.workspace.get(7, 0, 8, True)
    d.captures[7] = 1
    first = d.workspace.get(7, 0, 8, True)
    assert d.workspace.get(7, 0, 8, True) is first
    d.captures[7] = 2
    second = d.workspace.get(7, 0, 8, True)
    del d.captures[7]
    assert d.workspace.get(7, 0, 8, True) is eager
    assert len({id(x) for x in (eager, first, second)}) == 3


def test_threads_get_the_same() -> None:
    d = Device()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: d.workspace.get(7, 0, 64, True), range(64)))
    assert len({id(x) for x in found}) == 1
    assert len(d.made) == 1


@pytest.mark.parametrize("stream", [0, 1234])
def test_zeros_are_written_in_line_with_launches(
    stream: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the stream itself; torch makes a new one of an external stream whose handle is 0."""
    torch = pytest.importorskip("torch")
    used: list[Any] = []
    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda handle, device: ("own", handle))
    monkeypatch.setattr(torch.cuda, "default_stream", lambda device: ("default", device.index))
    monkeypatch.setattr(torch.cuda, "stream", lambda s: used.append(s) or nullcontext())
    monkeypatch.setattr(torch, "zeros", lambda n, **options: n)
    assert _allocate(stream, 3, 64, zeroed=True) == 64
    assert used == [("own", stream) if stream else ("default", 3)]


def test_a_thread_without_a_context_finds_the_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory of its stream would be written by each replay of the graph, beside other launches."""
    pytest.importorskip("cuda.bindings.driver")
    fake = Driver()
    monkeypatch.setitem(sys.modules, "torch", fake_torch(fake))
    monkeypatch.setattr("cuda.bindings.driver", fake)
    assert _capture(7, 1) == 0
    fake.captures[7] = 3
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(_capture, 7, 1).result() == 3
