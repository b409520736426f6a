"""A driver and tensors made up here: what is passed to the driver is noted.

As with the real one a thread has no context at first, and what needs one says so.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import get_ident
from types import SimpleNamespace
from typing import Any

import pytest
from cuda.bindings import driver as real

from lowering.cuda import launch
from lowering.cuda.launch_block import LaunchConfig


class Names:
    """``enum.MEMBER`` and ``enum["MEMBER"]`` as text, of members that the real one has."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.members: frozenset[str] = frozenset(getattr(real, name).__members__)

    def __getattr__(self, name: str) -> str:
        if name not in self.members:
            raise AttributeError(name)
        return name

    def __getitem__(self, name: str) -> str:
        return str(getattr(self, name))


class Result:
    """CUresult: members are singletons with a name; made from a number, one of them."""

    CUDA_SUCCESS = SimpleNamespace(name="CUDA_SUCCESS")
    CUDA_ERROR_INVALID_VALUE = SimpleNamespace(name="CUDA_ERROR_INVALID_VALUE")
    CUDA_ERROR_INVALID_CONTEXT = SimpleNamespace(name="CUDA_ERROR_INVALID_CONTEXT")

    def __new__(cls, value: int) -> Any:
        return SimpleNamespace(name={1: "CUDA_ERROR_INVALID_VALUE"}[value])


OK = Result.CUDA_SUCCESS


NO_CONTEXT = Result.CUDA_ERROR_INVALID_CONTEXT


@dataclass
class Driver:
    """Notes calls; reads the parameter block as the real one would.

    The primary context of device 0 is 99, of device 1 100.
    """

    calls: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    launch_status: list[int] = field(default_factory=list)
    encode_status: Any = field(default_factory=lambda: OK)
    params: list[tuple[bytes, bytes, int, int]] = field(default_factory=list)
    attributes: list[list[tuple[int, int]]] = field(default_factory=list)
    CUresult = Result
    CUtensorMapDataType = Names()
    CUtensorMapInterleave = Names()
    CUtensorMapSwizzle = Names()
    CUtensorMapL2promotion = Names()
    CUtensorMapFloatOOBfill = Names()
    CUfunction_attribute = Names()
    cuuint64_t = cuuint32_t = CUdevice = staticmethod(int)
    CUlaunchConfig = SimpleNamespace
    CUlaunchAttributeID = Names()
    active_clusters: int = 3
    counted: list[Any] = field(default_factory=list)
    """The configurations whose clusters were counted."""
    contexts: dict[int, int] = field(default_factory=dict)
    """The current one of each thread that has one."""
    captures: dict[int, int] = field(default_factory=dict)
    """The number of the capture that a stream is in."""
    CUstreamCaptureStatus = Names()

    @property
    def ready(self) -> Any:
        """The status of what needs a context, in this thread."""
        return OK if get_ident() in self.contexts else NO_CONTEXT

    def note(self, name: str, *args: Any) -> None:
        self.calls.append((name, args))

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [args for n, args in self.calls if n == name]

    def cuLibraryLoadData(self, *args: Any) -> tuple[Any, int]:  # noqa: N802
        self.note("load", *args)
        return OK, 7

    def cuLibraryGetKernel(self, *args: Any) -> tuple[Any, int]:  # noqa: N802
        return OK, 42

    def cuLibraryUnload(self, library: int) -> tuple[Any]:  # noqa: N802
        self.note("unload", library)
        return (OK,)

    def cuKernelGetFunction(self, kernel: int) -> tuple[Any, int]:  # noqa: N802
        return self.ready, kernel + 1

    def CUlaunchAttribute(self) -> Any:  # noqa: N802
        return SimpleNamespace(value=SimpleNamespace(clusterDim=SimpleNamespace()))

    def cuOccupancyMaxActiveClusters(  # noqa: N802
        self, function: int, config: Any
    ) -> tuple[Any, int]:
        self.counted.append(config)
        self.note("occupancy", function, config.gridDimX, config.attrs[0].value.clusterDim.x)
        return self.ready, self.active_clusters

    def cuKernelSetAttribute(self, *args: Any) -> tuple[Any]:  # noqa: N802
        self.note("attribute", *args)
        return (self.ready,)

    def cuCtxGetCurrent(self) -> tuple[Any, int]:  # noqa: N802
        return OK, self.contexts.get(get_ident(), 0)

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Any, int]:  # noqa: N802
        return OK, 99 + device

    def cuCtxSetCurrent(self, context: int) -> tuple[Any]:  # noqa: N802
        self.note("current", context)
        self.contexts[get_ident()] = context
        return (OK,)

    def cuStreamGetCaptureInfo(self, stream: int) -> tuple[Any, ...]:  # noqa: N802
        if self.ready is not OK:
            return NO_CONTEXT, None, None, None, None, None
        number = self.captures.get(stream, 0)
        state = f"CU_STREAM_CAPTURE_STATUS_{'ACTIVE' if number else 'NONE'}"
        return OK, state, number, None, None, 0

    def cuTensorMapEncodeTiled(self, *args: Any) -> tuple[Any, Any]:  # noqa: N802
        self.note("encode", *args)
        block = (ctypes.c_char * 128)()
        block.value = f"map{len(self.named('encode'))}".encode()
        status = self.encode_status if self.ready is OK else NO_CONTEXT
        return status, SimpleNamespace(getPtr=lambda: ctypes.addressof(block))

    def cuLaunchKernelEx(  # noqa: N802
        self, config: Any, kernel: int, params: int, extra: Any
    ) -> int:
        c = config.contents
        blocks = [c.gridDimX, c.gridDimY, c.gridDimZ, c.blockDimX, c.blockDimY, c.blockDimZ]
        assert not extra
        if self.ready is not OK:
            return 201
        self.attributes.append([(a.id, a.value) for a in c.attrs[: c.numAttrs]])
        self.note("launch", kernel, blocks, c.sharedMemBytes, c.hStream)
        pointers = (ctypes.c_void_p * 4).from_address(params)
        assert all(p % 64 == 0 for p in pointers[:2] if p)
        a, d = (ctypes.string_at(p) for p in pointers[:2] if p)
        m, n = (ctypes.c_int32.from_address(p).value for p in pointers[2:] if p)
        self.params.append((a, d, m, n))
        return self.launch_status.pop(0) if self.launch_status else 0


LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.POINTER(LaunchConfig),
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
)
"""``cuLaunchKernelEx``, so that what is passed goes through C."""


@dataclass
class Tensor:
    shape: tuple[int, ...] = (100, 128)
    strides: tuple[int, ...] = (128, 1)
    address: int = 4096
    dtype: str = "torch.bfloat16"
    index: int = 0
    is_cuda: bool = True

    @property
    def device(self) -> Any:
        return _Device("cuda" if self.is_cuda else "cpu", self.index)

    def dim(self) -> int:
        return len(self.shape)

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def data_ptr(self) -> int:
        return self.address


@dataclass(frozen=True)
class _Device:
    type: str
    index: int

    def __str__(self) -> str:
        return self.type


def fake_torch(driver: Driver) -> Any:
    """As much of torch as a launch needs: devices 0 and 1 are Hopper, 2 is older, 3 is Blackwell.

    Every thread is on device 0. As with the real one, to go there takes no call of the driver, and
    leaves a thread without a context as it is.
    """
    stream = SimpleNamespace(cuda_stream=1234)

    @contextmanager
    def on(index: int) -> Iterator[None]:
        driver.note("device", index)
        before = driver.contexts.get(get_ident())
        if index:
            driver.contexts[get_ident()] = 99 + index
        yield
        if index and before:
            driver.contexts[get_ident()] = before

    cuda = SimpleNamespace(
        current_device=lambda: 0,
        current_stream=lambda index: stream,
        device=on,
        get_device_capability=((9, 0), (9, 0), (8, 0), (10, 0)).__getitem__,
        get_device_properties=lambda index: SimpleNamespace(name="H0", multi_processor_count=10),
    )
    return SimpleNamespace(cuda=cuda)


def installed(monkeypatch: pytest.MonkeyPatch) -> Driver:
    """A driver that launches go to, with its torch, until the test ends."""
    fake = Driver()
    monkeypatch.setattr(launch, "driver_api", lambda: fake)
    monkeypatch.setattr(launch, "launch_function", lambda: LAUNCH(fake.cuLaunchKernelEx))
    monkeypatch.setattr(launch, "_torch", lambda: fake_torch(fake))
    return fake
