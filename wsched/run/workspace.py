"""Device memory that kernels need beside their tensors: counters, partial results.

A kernel's workspace must not be used by two launches at once. Launches of one stream follow each
other (a dependent one touches memory only when the grid in front has ended; one beside that grid
needs none, which ``verify`` asks of it), so there is one workspace for each stream, which all
kernels share.

*Which stream*: the driver's number of it, not its handle. A stream that is destroyed runs to its
end, and its handle may be the next stream's meanwhile.

*How much*: a buffer that is too small is replaced by one of at least twice its size, and those of
the streams that launched longest ago go. A launch holds what it got until it is in its stream; from
then on torch's allocator keeps the order, which gives memory out again on the same stream.

*Abandoned launches*: nothing sets counters back behind a launch, and nothing has to. One that the
driver refuses, or that an exception or Ctrl-C keeps from it, has not run: counters are the zeros
that were in line when they were allocated. Ctrl-C while somebody waits ends the wait, not the grid.
A capture that is given up leaves buffers whose zeros were not written, but they are that capture's,
whose number no other one has. A grid ends early by an error of the device alone, such as the
watchdog's trap; with it the context is lost, and all of its memory: no launch comes behind it.

*Graphs*: a graph that is captured keeps the addresses and may be replayed beside the stream that it
was captured on, so each capture has buffers of its own; their zeros are written by each replay. The
driver runs the launches of one executable graph one after the other, on whichever streams. Buffers
of a capture by torch lie in the graph's own pool, which lives as long as the graph. Those of other
captures cannot be given back: nobody says when the graph goes. There may be :data:`_FOREIGN`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar

from lowering.cuda.driver import primary
from lowering.ground.errors import UnsupportedError
from lowering.ground.locks import Lock
from lowering.ground.recent import Recent

__all__ = ["Workspace"]

Key = tuple[int, int, int, int, bool]
"""Number of the stream, thread (0 but for its own stream), device, capture (0 for none), zeroed.

In a capture the stream is its handle, because the driver numbers no stream that is captured.
"""

_PER_THREAD = 2
"""``CU_STREAM_PER_THREAD``: the handle of another stream in each thread."""

_BUFFERS = 64
"""Buffers that are kept: of 32 streams, with zeros and without."""

_FOREIGN = 256
"""Buffers for graphs that torch did not capture, which the process keeps as long as it lives."""


class Workspace:
    """Buffers by stream; safe to use from threads.

    Args:
        allocate: ``(stream, device, nbytes, zeroed)`` to a buffer, with its zeros in line on that
            stream.
        capture: what identifies the capture that a stream of a device is in, 0 for none.
        number: of a stream of a device, which no other stream of the process has or had.
        is_graphs: whether a buffer that was allocated in a capture lives as long as the graph.
    """

    shared: ClassVar[Workspace]
    """The process's."""

    __slots__ = ("_allocate", "_capture", "_current", "_foreign", "_is_graphs", "_lock", "_number")

    def __init__(
        self,
        allocate: Callable[[int, int, int, bool], Any] | None = None,
        capture: Callable[[int, int], int] | None = None,
        number: Callable[[int, int], int] | None = None,
        is_graphs: Callable[[Any], bool] | None = None,
    ) -> None:
        self._allocate = allocate or _allocate
        self._capture = capture or _capture
        self._number = number or _number
        self._is_graphs = is_graphs or _is_graphs
        self._current: Recent[Key, tuple[int, Any]] = Recent(lambda: _BUFFERS)
        self._foreign: list[Any] = []
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

        The same buffer as long as it is large enough. Whoever launches holds it until the launch is
        in the stream.

        Raises:
            UnsupportedError: more captures than by torch that need memory of their own.
        """
        capture = self._capture(stream, device)
        if capture:
            key = stream, 0, device, capture, zeroed
        else:
            thread = threading.get_ident() if stream == _PER_THREAD else 0
            key = self._number(stream, device), thread, device, 0, zeroed
        found = self._current.get(key)
        if found is None or found[0] < nbytes:
            found = self._grown(key, stream, nbytes)
        return found[1]

    def _grown(self, key: Key, stream: int, nbytes: int) -> tuple[int, Any]:
        with self._lock:
            found = self._current.get(key)
            if found is not None and found[0] >= nbytes:
                return found
            _, _, device, capture, zeroed = key
            size = max(nbytes, 2 * found[0]) if found else nbytes
            made = size, self._allocate(stream, device, size, zeroed)
            if capture and not self._is_graphs(made[1]):
                if len(self._foreign) >= _FOREIGN:
                    raise UnsupportedError(
                        f"capturing kernels with counters or workspaces {_FOREIGN + 1} times",
                        f"{_FOREIGN} times by others than torch, whose memory is never given back",
                        "Capture with torch.cuda.graph, where memory goes with the graph",
                    )
                self._foreign.append(made[1])
            return self._current.add(key, made)


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

    status, state, number, *_ = _asked(driver, driver.cuStreamGetCaptureInfo, stream, device)
    active = driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE
    ok = status == driver.CUresult.CUDA_SUCCESS
    return int(number) if ok and state == active else 0


def _number(stream: int, device: int) -> int:
    """The driver's number of a stream; one below 0, of its handle, where a driver does not tell."""
    from cuda.bindings import driver

    status, number = _asked(driver, driver.cuStreamGetId, stream, device)
    return int(number) if status == driver.CUresult.CUDA_SUCCESS else -1 - stream


def _asked(
    driver: Any, query: Callable[[int], tuple[Any, ...]], stream: int, device: int
) -> tuple[Any, ...]:
    """What the driver says of a stream, its status first, also in a thread without a context."""
    found = query(stream)
    if found[0] == driver.CUresult.CUDA_ERROR_INVALID_CONTEXT:
        import torch

        with primary(driver, torch, device):
            found = query(stream)
    return found


def _is_graphs(buffer: Any) -> bool:
    """Whether torch allocated a buffer in the pool of the graph that it is capturing."""
    import torch

    at = buffer.data_ptr()
    for segment in torch.cuda.memory_snapshot():
        if segment["address"] <= at < segment["address"] + segment["total_size"]:
            return tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0)
    return False


Workspace.shared = Workspace()
