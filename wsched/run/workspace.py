"""Device memory that kernels need beside their tensors: counters, partial results.

A kernel's workspace must not be used by two launches at once. Launches of one stream follow each
other (a dependent one touches memory only when the grid in front has ended), so there is one
workspace for each stream, which all kernels share.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar

from lowering.cuda.driver import primary
from lowering.ground.locks import Lock

__all__ = ["Workspace"]

Key = tuple[int, int, int, int, bool]
"""Stream, thread (0 but for its own stream), device, capture (0 for none), zeroed."""

_PER_THREAD = 2
"""``CU_STREAM_PER_THREAD``: the handle of another stream in each thread."""


class Workspace:
    """Buffers by stream; safe to use from threads.

    A graph that is captured keeps the addresses and may be replayed beside the stream that it was
    captured on, so each capture has buffers of its own. No buffer is ever freed: a larger one takes
    its place, but a launch that was packed before, or a graph, may still hold its address.

    Args:
        allocate: ``(stream, device, nbytes, zeroed)`` to a buffer, with its zeros in line on that
            stream.
        capture: what identifies the capture that a stream of a device is in, 0 for none.
    """

    shared: ClassVar[Workspace]
    """The process's."""

    __slots__ = ("_allocate", "_capture", "_current", "_kept", "_lock")

    def __init__(
        self,
        allocate: Callable[[int, int, int, bool], Any] | None = None,
        capture: Callable[[int, int], int] | None = None,
    ) -> None:
        self._allocate = allocate or _allocate
        self._capture = capture or _capture
        self._current: dict[Key, tuple[int, Any]] = {}
        self._kept: list[Any] = []
        self._lock = Lock()

    @classmethod
    def of(cls, stream: int, device: int, nbytes: int, zeroed: bool = False) -> Any:
        """The process's workspace; see :meth:`get`."""
        return cls.shared.get(stream, device, nbytes, zeroed)

    def get(self, stream: int, device: int, nbytes: int, zeroed: bool = False) -> Any:
        """At least ``nbytes`` bytes for launches on a stream, as a ``uint8`` tensor.

        Args:
            stream: handle of the stream that the launch goes to.
            device: its device.
            nbytes: how many the launch needs.
            zeroed: zeros when first handed out. Every kernel leaves them as zeros, so that they are
                zeros at the start of each launch. Other workspaces hold what the last kernel left.

        The same buffer as long as it is large enough. What is allocated while a stream is being
        captured belongs to that capture; its zeros are written by each replay.
        """
        thread = threading.get_ident() if stream == _PER_THREAD else 0
        key = stream, thread, device, self._capture(stream, device), zeroed
        found = self._current.get(key)
        if found is None or found[0] < nbytes:
            found = self._grown(key, nbytes)
        return found[1]

    def _grown(self, key: Key, nbytes: int) -> tuple[int, Any]:
        with self._lock:
            found = self._current.get(key)
            if found is None or found[0] < nbytes:
                stream, _, device, _, zeroed = key
                found = nbytes, self._allocate(stream, device, nbytes, zeroed)
                self._kept.append(found[1])
                self._current[key] = found
            return found


def _allocate(stream: int, device: int, nbytes: int, zeroed: bool) -> Any:
    """A tensor from torch, of the stream's memory, or of its graph's while one is captured."""
    import torch

    where = torch.device("cuda", device)
    # An ExternalStream of handle 0 would be a new stream, and the zeros not in line with launches.
    line = torch.cuda.ExternalStream(stream, where) if stream else torch.cuda.default_stream(where)
    with torch.cuda.stream(line):
        make = torch.zeros if zeroed else torch.empty
        return make(nbytes, dtype=torch.uint8, device=where)


def _capture(stream: int, device: int) -> int:
    """The driver's number of the capture that a stream is in.

    The query fails for the default stream while another one is captured; it is in none then.
    """
    from cuda.bindings import driver

    status, state, number, *_ = driver.cuStreamGetCaptureInfo(stream)
    if status == driver.CUresult.CUDA_ERROR_INVALID_CONTEXT:
        import torch

        with primary(driver, torch, device):
            status, state, number, *_ = driver.cuStreamGetCaptureInfo(stream)
    active = driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE
    ok = status == driver.CUresult.CUDA_SUCCESS
    return int(number) if ok and state == active else 0


Workspace.shared = Workspace()
