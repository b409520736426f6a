"""Compiled kernels on torch tensors."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lowering.cuda.pointers import pointer_of
from lowering.cuda.tensormap import MAP_BYTES, encode, layout_of
from lowering.errors import InternalError, UnsupportedError
from lowering.hopper import SHARED_BYTES
from lowering.ir.expr import ScalarType
from lowering.ir.kernel import Kernel

if TYPE_CHECKING:
    import torch

__all__ = ["LoadedKernel", "driver_api"]

_MAP_ALIGN = 64
_REMEMBERED = 1024
"""Tensors whose descriptors a kernel keeps; making one again takes some ten microseconds."""

_SCALARS = {ScalarType.I32: ctypes.c_int32, ScalarType.I64: ctypes.c_int64}


def driver_api() -> Any:
    """``cuda.bindings.driver``, after a check that there is a driver to call.

    Raises:
        UnsupportedError: no driver library, no cuda-bindings, or the driver finds no device.
    """
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise UnsupportedError(
            "running a kernel without a CUDA driver (libcuda.so.1)",
            "a machine with an NVIDIA driver and a GPU of compute capability 9.0",
            "CPU tensors run on the machine model",
        ) from None
    try:
        from cuda.bindings import driver
    except ImportError as e:
        raise UnsupportedError(
            "launching without cuda-bindings", "cuda-bindings 12.9 or 13.x", "Install cuda-bindings"
        ) from e
    (status,) = driver.cuInit(0)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise UnsupportedError(
            f"a driver that does not start ({status.name})", "a GPU of compute capability 9.0"
        )
    return driver


class LoadedKernel:
    """A kernel that is ready to run.

    Args:
        kernel: the final kernel IR, for its parameters, tensor maps and launch attributes.
        cubin: what was compiled from it.

    One object serves all devices and threads. ``launch`` neither allocates device memory nor
    synchronizes, so it can be captured in a CUDA graph; the graph holds copies of the arguments.

    Raises:
        UnsupportedError: no driver, or no torch.
        InternalError: the driver refuses the cubin, or the kernel needs too much shared memory.
    """

    def __init__(self, kernel: Kernel, cubin: bytes) -> None:
        self.kernel = kernel
        if kernel.shared_bytes > SHARED_BYTES:
            raise InternalError(
                "launch", f"{kernel.shared_bytes} bytes of shared memory of {SHARED_BYTES}"
            )
        self._driver, self._torch = driver_api(), _torch()
        # A library serves every context; its kernels are loaded where they are first launched.
        self._library = self._call("cuLibraryLoadData", cubin, [], [], 0, [], [], 0)
        self._function = self._call("cuLibraryGetKernel", self._library, kernel.name.encode())
        self._handle = int(self._function)
        self._lock = threading.Lock()
        self._ready: set[int] = set()
        self._resident: dict[int, int] = {}
        self._described: dict[tuple[Any, ...], tuple[bytes, int]] = {}
        self._arguments = _Arguments(kernel)

    def __del__(self) -> None:
        """Unload, unless the interpreter or the driver is on its way out."""
        library = getattr(self, "_library", None)
        if library is not None and not sys.is_finalizing():
            self._driver.cuLibraryUnload(library)

    def launch(
        self,
        tensors: Mapping[str, torch.Tensor],
        params: Mapping[str, int],
        grid: int,
        stream: int | None = None,
    ) -> None:
        """Launch on ``stream`` (a ``cudaStream_t``), or on torch's current stream.

        Args:
            tensors: the 2-D tensor behind each tensor map and each global tensor, by name, all on
                one device.
            params: the kernel's scalar parameters, by name.
            grid: CTAs; with 0 nothing is launched.
            stream: a stream of the tensors' device.

        Raises:
            UnsupportedError: a tensor that TMA or the kernel cannot address (see ``layout_of``,
                ``pointer_of``), tensors of several devices, or a device older than compute
                capability 9.0.
            InternalError: a missing argument, or the launch itself fails.
        """
        descriptors = []
        device = -1
        for i, m in enumerate(self.kernel.tensor_maps):
            t = _argument(tensors, m.name)
            # With unified addressing the address also tells the device.
            key = (i, t.data_ptr(), t.shape, t.stride(), t.dtype)
            descriptor, where = self._described.get(key) or self._describe(key, t)
            if device not in (-1, where):
                raise UnsupportedError("tensors of several devices", "tensors of one device")
            device = where
            descriptors.append(descriptor)
        pointers = []
        for g in self.kernel.globals:
            t = _argument(tensors, g.name)
            pointers.append(pointer_of(g, t))
            if device not in (-1, t.device.index):
                raise UnsupportedError("tensors of several devices", "tensors of one device")
            device = t.device.index
        if grid == 0:
            return
        if device == self._torch.cuda.current_device():
            self._enqueue(device, descriptors, pointers, params, grid, stream)
        else:
            with self._torch.cuda.device(device):
                self._enqueue(device, descriptors, pointers, params, grid, stream)

    def resident_ctas(self, device: int) -> int:
        """CTAs that run at the same time on ``device``: one per SM, or whole clusters only.

        A GPC whose SMs are no multiple of the cluster leaves some idle; a persistent grid that
        counted on them would run its last clusters after all others.
        """
        sms: int = self._torch.cuda.get_device_properties(device).multi_processor_count
        size = self.kernel.cluster
        if size == 1:
            return sms
        if device not in self._resident:
            with self._torch.cuda.device(device):
                self._prepare(device)
                self._resident[device] = self._active_clusters(sms) * size
        return self._resident[device]

    def _active_clusters(self, sms: int) -> int:
        driver = self._driver
        config = driver.CUlaunchConfig()
        config.gridDimX = sms // self.kernel.cluster * self.kernel.cluster
        config.gridDimY = config.gridDimZ = 1
        config.blockDimX, config.blockDimY, config.blockDimZ = self.kernel.threads, 1, 1
        config.sharedMemBytes = self.kernel.shared_bytes
        cluster = driver.CUlaunchAttribute()
        cluster.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        cluster.value.clusterDim.x = self.kernel.cluster
        cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1
        config.attrs, config.numAttrs = [cluster], 1
        function = self._call("cuKernelGetFunction", self._function)
        return int(self._call("cuOccupancyMaxActiveClusters", function, config))

    def _enqueue(
        self,
        device: int,
        descriptors: list[bytes],
        pointers: list[tuple[int, int]],
        params: Mapping[str, int],
        grid: int,
        stream: int | None,
    ) -> None:
        if stream is None:
            stream = self._torch.cuda.current_stream().cuda_stream
        with self._lock:  # the driver copies the arguments before it returns
            if device not in self._ready:
                self._prepare(device)
            for i, descriptor in enumerate(descriptors):
                self._arguments.set_map(i, descriptor)
            for i, pointer in enumerate(pointers):
                self._arguments.set_pointer(i, *pointer)
            for i, var in enumerate(self.kernel.params):
                self._arguments.set_scalar(i, _argument(params, var.name))
            self._submit(device, grid, stream)

    def _submit(self, device: int, grid: int, stream: int) -> None:
        driver = self._driver
        arguments = (
            self._handle, grid, 1, 1, self.kernel.threads, 1, 1, self.kernel.shared_bytes, stream,
            self._arguments.pointer, 0,
        )  # fmt: skip
        (status,) = driver.cuLaunchKernel(*arguments)
        if status == driver.CUresult.CUDA_ERROR_INVALID_CONTEXT:
            # A thread in which torch has not yet made the device's context current.
            self._make_current(device)
            (status,) = driver.cuLaunchKernel(*arguments)
        if status != driver.CUresult.CUDA_SUCCESS:
            raise InternalError("launch", f"{self.kernel.name} with grid {grid}: {status.name}")

    # --- once per device, once per tensor -----------------------------------------------------

    def _prepare(self, device: int) -> None:
        """Check the device and allow the kernel its dynamic shared memory there."""
        capability = self._torch.cuda.get_device_capability(device)
        if capability != (9, 0):
            raise UnsupportedError(
                f"a GPU of compute capability {capability[0]}.{capability[1]}",
                "compute capability 9.0 (H100, H200)",
            )
        self._make_current(device)
        attributes = self._driver.CUfunction_attribute
        shared = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        where = self._driver.CUdevice(device)
        self._call("cuKernelSetAttribute", shared, self.kernel.shared_bytes, self._function, where)
        self._ready.add(device)

    def _make_current(self, device: int) -> None:
        """Make the device's primary context current, which is the one that torch uses."""
        if int(self._call("cuCtxGetCurrent")) == 0:
            context = self._call("cuDevicePrimaryCtxRetain", self._driver.CUdevice(device))
            self._call("cuCtxSetCurrent", context)

    def _describe(self, key: tuple[Any, ...], tensor: torch.Tensor) -> tuple[bytes, int]:
        """The descriptor of a tensor for the tensor map ``key[0]``, and the tensor's device."""
        m = self.kernel.tensor_maps[key[0]]
        layout = layout_of(m.name, m.dtype, tensor)
        found = encode(self._driver, m, layout), int(tensor.device.index)
        with self._lock:
            if len(self._described) >= _REMEMBERED:
                self._described.pop(next(iter(self._described)))
            self._described[key] = found
        return found

    def _call(self, function: str, *args: Any) -> Any:
        status, *result = getattr(self._driver, function)(*args)
        if status != self._driver.CUresult.CUDA_SUCCESS:
            raise InternalError("launch", f"{function}: {status.name}")
        return result[0] if result else None


class _Arguments:
    """The parameter block of a launch: memory made once, and the array of pointers into it."""

    def __init__(self, kernel: Kernel) -> None:
        maps = len(kernel.tensor_maps)
        self._storage = (ctypes.c_char * (maps * MAP_BYTES + _MAP_ALIGN))()
        base = -(-ctypes.addressof(self._storage) // _MAP_ALIGN) * _MAP_ALIGN
        self._slots = [base + i * MAP_BYTES for i in range(maps)]
        self._held: list[bytes | None] = [None] * maps
        self._tensors = [(ctypes.c_void_p(), ctypes.c_int64()) for _ in kernel.globals]
        self._scalars = [_SCALARS[p.type]() for p in kernel.params]
        values = [*(x for pair in self._tensors for x in pair), *self._scalars]
        pointers = [*self._slots, *(ctypes.addressof(v) for v in values)]
        self._pointers = (ctypes.c_void_p * len(pointers))(*pointers)
        self.pointer = ctypes.addressof(self._pointers)

    def set_map(self, index: int, descriptor: bytes) -> None:
        if self._held[index] is not descriptor:
            ctypes.memmove(self._slots[index], descriptor, MAP_BYTES)
            self._held[index] = descriptor

    def set_pointer(self, index: int, address: int, stride: int) -> None:
        self._tensors[index][0].value = address
        self._tensors[index][1].value = stride

    def set_scalar(self, index: int, value: int) -> None:
        self._scalars[index].value = value


def _argument(values: Mapping[str, Any], name: str) -> Any:
    try:
        return values[name]
    except KeyError:
        raise InternalError("launch", f"no argument {name}") from None


def _torch() -> Any:
    try:
        import torch
    except ImportError as e:
        raise UnsupportedError("launching without torch", "torch tensors", "Install torch") from e
    return torch
