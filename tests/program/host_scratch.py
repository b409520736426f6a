"""Memory of the host in place of a GPU's, for what lies between the kernels of a program."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from tests.front.cut.features import torch
from wsched.program.chained import Chain

__all__ = ["HostScratch", "chains_that_run", "installed"]


class HostScratch:
    """Hands memory out again on the stream that it was taken for, as torch's allocator does.

    Attributes:
        device, stream: that are current.
        taken: address of what is out, with its stream.
    """

    def __init__(self) -> None:
        self.device: int | None = None
        self.stream = 0
        self.taken: dict[int, int] = {}
        self._free: dict[tuple[int, int], list[int]] = defaultdict(list)
        self._all: dict[int, Any] = {}

    def allocate(self, nbytes: int, stream: int) -> int:
        free = self._free[nbytes, stream]
        if not free:
            made = torch.empty(nbytes, dtype=torch.uint8)
            self._all[made.data_ptr()] = made
            free.append(made.data_ptr())
        address = free.pop()
        self.taken[address] = stream
        return address

    def delete(self, address: int) -> None:
        stream = self.taken.pop(address)
        self._free[self._all[address].nbytes, stream].append(address)


def installed(monkeypatch: pytest.MonkeyPatch) -> HostScratch:
    """It is what torch's own functions ask."""
    host = HostScratch()
    for name, function in (
        ("_cuda_getDevice", lambda: host.device),
        ("_cuda_getCurrentRawStream", lambda device: host.stream),
        ("_cuda_cudaCachingAllocator_raw_alloc", host.allocate),
        ("_cuda_cudaCachingAllocator_raw_delete", host.delete),
    ):
        monkeypatch.setattr(torch._C, name, function, raising=False)
    return host


def chains_that_run(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The chains that run from here on, one for each call."""
    seen, run = list[Any](), Chain.__call__

    def noted(self: Any, inputs: Any) -> Any:
        seen.append(self)
        return run(self, inputs)

    monkeypatch.setattr(Chain, "__call__", noted)
    return seen
