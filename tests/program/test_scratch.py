"""Memory of a call by its address."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.front.cut.features import torch
from tests.program.host_scratch import HostScratch, installed
from wsched.program.scratch import Scratch


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> HostScratch:
    return installed(monkeypatch)


def test_what_is_given_back_is_its_streams(host: HostScratch) -> None:
    """The next call on that stream has it, one on another stream does not."""
    scratch = Scratch(1000, torch.device("cpu"))
    first = scratch.take()
    assert host.taken == {first: 0} and scratch.take() != first
    scratch.give_back(first)
    host.stream = 3
    other = scratch.take()
    assert other != first and host.taken[other] == 3
    host.stream = 0
    scratch.give_back(other)
    assert scratch.take() == first


def test_its_bytes_as_a_tensor(host: HostScratch) -> None:
    scratch = Scratch(48, torch.device("cpu"))
    address = scratch.take()
    made = scratch.tensor(address)
    assert made.data_ptr() == address and made.dtype is torch.uint8 and made.shape == (48,)
    made.fill_(7)
    del made
    assert scratch.tensor(address).eq(7).all() and address in host.taken


def test_nothing_takes_nothing(host: HostScratch) -> None:
    scratch = Scratch(0, torch.device("cpu"))
    assert scratch.take() == 0 and not host.taken
    scratch.give_back(0)


def test_another_device_is_the_current_one_meanwhile(
    host: HostScratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The allocator takes memory of the current device, for whichever stream it is asked."""
    asked = list[tuple[int | None, int]]()

    class Current:
        """Torch's guard of a device."""

        def __init__(self, index: int) -> None:
            self.index = index

        def __enter__(self) -> None:
            self.before, host.device = host.device, self.index

        def __exit__(self, *_: Any) -> None:
            host.device = self.before

    def allocate(nbytes: int, stream: int) -> int:
        asked.append((host.device, stream))
        return 512

    monkeypatch.setattr(torch.cuda, "device", Current)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 10 + index)
    monkeypatch.setattr(torch._C, "_cuda_cudaCachingAllocator_raw_alloc", allocate)
    host.device = 0
    for index in (1, 0):
        device: Any = SimpleNamespace(index=index)
        assert Scratch(8, device).take() == 512
    assert asked == [(1, 11), (0, 10)] and host.device == 0
