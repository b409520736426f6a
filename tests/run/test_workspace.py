"""Workspaces: which launches share one, and what lives on."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest

from tests.lowering.cuda.fake_driver import Driver, fake_torch
from wsched.run.workspace import Workspace, _allocate, _capture


class Device:
    """Gives out buffers, and says which streams are being captured."""

    def __init__(self) -> None:
        self.made: list[tuple[int, int, int, bool]] = []
        self.captures: dict[int, int] = {}
        self.workspace = Workspace(self.allocate, lambda stream, _: self.captures.get(stream, 0))

    def allocate(self, stream: int, device: int, nbytes: int, zeroed: bool) -> Any:
        self.made.append((stream, device, nbytes, zeroed))
        return bytearray(nbytes)


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


def test_a_larger_one_takes_its_place_and_the_old_one_lives_on() -> None:
    d = Device()
    small = d.workspace.get(7, 0, 8)
    small[0] = 5
    large = d.workspace.get(7, 0, 16)
    assert large is not small
    assert d.workspace.get(7, 0, 8) is large
    assert any(x is small for x in d.workspace._kept)


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
