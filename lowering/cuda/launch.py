"""Compiled kernels on torch tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lowering.cuda.driver import INVALID_CONTEXT, call, driver_api, launch_function, primary
from lowering.cuda.launch_block import Arguments, LaunchAttribute, LaunchConfig
from lowering.cuda.launch_maps import Descriptors
from lowering.cuda.launch_memory import Allocate, Needs
from lowering.cuda.launch_packing import Packing
from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.streams import stream_functions
from lowering.kernel.early import loads_early
from lowering.kernel.kernel import Kernel
from lowering.target.ptx import GRID_YZ_MAX, ctas_held
from lowering.target.targets import require

if TYPE_CHECKING:
    import torch

__all__ = ["LoadedFunction", "LoadedKernel", "PreparedLaunch"]

_STREAMS = 64
"""Streams for which a prepared launch keeps its arguments."""


class LoadedFunction:
    """A compiled function in the driver's hands.

    Args:
        kernel: for its name and launch attributes.
        cubin: that has it.

    One object serves all devices and threads. The code stays loaded until the process ends.

    Raises:
        UnsupportedError: no driver, or no torch.
        InternalError: the driver refuses the cubin, or the kernel needs too much shared memory.
    """

    _workspace: Allocate | None = None
    _follows = False

    def __init__(self, kernel: Kernel, cubin: bytes) -> None:
        self.kernel = kernel
        limit = kernel.target.shared_bytes
        if kernel.shared_bytes > limit:
            raise InternalError(
                "launch", f"{kernel.shared_bytes} bytes of shared memory of {limit}"
            )
        self._driver, self._torch = driver_api(), _torch()
        self._submit = launch_function()
        # A library serves every context; its kernels are loaded where they are first launched. It
        # is never unloaded: a launch may be in flight, or captured, whenever this object goes.
        library = self._call("cuLibraryLoadData", cubin, [], [], 0, [], [], 0)
        self._function = self._call("cuLibraryGetKernel", library, kernel.name.encode())
        self._handle = int(self._function)
        self._ready: set[int] = set()
        self._resident: dict[int, int] = {}

    def resident_ctas(self, device: int) -> int:
        """CTAs that run at the same time on ``device``: one per SM, or whole clusters only.

        A GPC whose SMs are no multiple of the cluster leaves some idle; a persistent grid that
        counted on them would run its last clusters after all others.

        Raises:
            UnsupportedError: not one cluster fits the device, or it is not the kernel's
                target.
        """
        properties = self._torch.cuda.get_device_properties(device)
        sms: int = properties.multi_processor_count
        size = self.kernel.cluster
        if size == 1:
            return sms
        if device not in self._resident:
            self.prepare_device(device)
            with primary(self._driver, self._torch, device):
                # The driver refuses to be asked about an empty grid.
                clusters = self._active_clusters(sms) if size <= sms else 0
            if not clusters:
                raise UnsupportedError(
                    f"a cluster of {size} CTAs with {self.kernel.shared_bytes} bytes of shared "
                    f"memory each on cuda:{device} ({properties.name}, {sms} multiprocessors), "
                    "which cannot hold one,",
                    "clusters that the device can hold",
                    "Take smaller cluster_dims",
                )
            self._resident[device] = clusters * size
        return self._resident[device]

    def starts_early(self, ctas: int) -> bool:
        """Whether a grid of so many CTAs is launched dependently.

        CTAs that wait for a persistent grid take the places that it leaves, on an SM as many as fit
        there: a grid that does not fill all SMs would run on the few that were left first. And one
        that loads operands early does so only behind a grid that does not write them.
        """
        k = self.kernel
        held = ctas_held(k.threads, k.shared_bytes)
        dependent = k.dependent and (self._follows or not loads_early(k))
        return dependent and (held <= 1 or ctas >= held * k.target.sms)

    def _packing_of(self, kernel: Kernel) -> Packing:
        return Packing(kernel, Descriptors(self._driver, kernel, self._torch))

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

    def refused(self, status: int, launch: LaunchArguments, device: int) -> None:
        """Launch again where only the context was missing, else say what the driver said.

        Raises:
            InternalError: the driver refuses it.
        """
        if status == INVALID_CONTEXT:
            with primary(self._driver, self._torch, device):
                status = self._submit(*launch)
        if status:
            name = self._driver.CUresult(status).name
            c = launch[0]._obj
            grid = f"{c.gridDimX} x {c.gridDimY} x {c.gridDimZ}"
            raise InternalError("launch", f"{self.kernel.name} with grid {grid}: {name}")

    # --- once per device ----------------------------------------------------------------------

    def prepare_device(self, device: int) -> None:
        """Check the device, once, and allow the kernel its dynamic shared memory there.

        Raises:
            UnsupportedError: it is not the kernel's target.
        """
        if device in self._ready:
            return
        require(self._torch, device, self.kernel.target)
        attributes = self._driver.CUfunction_attribute
        shared = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        where = self._driver.CUdevice(device)
        with primary(self._driver, self._torch, device):
            self._call(
                "cuKernelSetAttribute", shared, self.kernel.shared_bytes, self._function, where
            )
            if self.kernel.registers is not None:  # the other grid's CTAs want all of it
                most = attributes.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
                self._call("cuKernelSetAttribute", most, 100, self._function, where)
        self._ready.add(device)

    def _call(self, function: str, *args: Any) -> Any:
        return call(self._driver, function, *args)


class LoadedKernel(LoadedFunction):
    """A kernel that is ready to run.

    Args:
        kernel: the final kernel IR, for its parameters, tensor maps and launch attributes.
        cubin: what was compiled from it.
        workspace: ``(stream, device, nbytes, zeroed)`` to a tensor for launches on that stream.
        follows: whether who launches it knows the grid in front, which writes nothing that the
            kernel loads early. Else such a kernel starts when that grid has ended.

    A launch does not synchronize, and allocates device memory only where ``workspace`` does, so it
    can be captured in a CUDA graph. A captured graph has copies of the arguments, but needs the
    kernel's code and the tensors' memory as long as it is replayed; whoever keeps the graph keeps
    the memory alive. Errors as of :class:`LoadedFunction`.
    """

    def __init__(
        self,
        kernel: Kernel,
        cubin: bytes,
        workspace: Allocate | None = None,
        follows: bool = False,
    ) -> None:
        super().__init__(kernel, cubin)
        self._workspace, self._follows = workspace, follows
        self._packing = self._packing_of(kernel)

    def launch(
        self,
        tensors: Mapping[str, torch.Tensor],
        params: Mapping[str, int],
        grid: int,
        stream: int | None = None,
    ) -> None:
        """Launch once: :meth:`prepare`, then call what it returns with ``stream``."""
        self.prepare(tensors, params, grid)(stream)

    def prepare(
        self, tensors: Mapping[str, torch.Tensor], params: Mapping[str, int], grid: int
    ) -> PreparedLaunch:
        """Check and pack everything, so that launching needs none of it again.

        Args:
            tensors: the tensor behind each tensor map (of an array for each entry, ``NAME[i]``),
                global tensor, trace buffer and watch, by name, all on one device (but for the
                watch, which is pinned memory of the host); for a tensor map in
                device memory the tensor that holds the descriptors. Only addresses are kept:
                whoever launches keeps the memory alive.
            params: the kernel's scalar parameters, by name.
            grid: CTAs along x; with 0, or 0 of the kernel's own along y, nothing will be launched.

        Raises:
            UnsupportedError: a tensor that TMA or the kernel cannot address (see ``layout_of``,
                ``pointer_of``), tensors of several devices, a device that is not the kernel's
                target, or more CTAs along y than a grid has.
            InternalError: a missing argument.
        """
        packed = self._packing.of(tensors, params)
        self.prepare_device(packed.device)
        if (rows := self.kernel.rows(params)) > GRID_YZ_MAX:
            what = f"{self.kernel.name} on {grid} x {rows} CTAs"
            hint = "Take larger tiles, or run the loop on BIDx"
            raise UnsupportedError(what, f"at most {GRID_YZ_MAX} along y", hint)
        needs = Needs.of(self.kernel, {**params, "ctas": grid})

        def pack(*where: int) -> Arguments:
            return packed.block(*needs.addresses(*where))

        if needs.total:
            return PreparedLaunch(self, pack, packed.device, (grid, rows), needs)
        block = pack(0, 0)
        return PreparedLaunch(self, lambda *_: block, packed.device, (grid, rows), None)


LaunchArguments = tuple[Any, Any, Any, None]
"""What ``cuLaunchKernelEx`` takes: configuration, kernel, parameters, nothing; as ctypes has it.

Each is what ctypes itself makes of an argument (``byref``, ``from_param``), so that a call converts
nothing. The first one keeps alive what the third one points to.
"""

Key = int | tuple[int, int, int]
"""Stream; with the addresses of counters and workspaces where a launch has them."""


class PreparedLaunch:
    """One launch, packed: calling it costs little more than the driver's own work.

    The arguments never change, so that threads may share it. For each stream that it is launched
    on it keeps the four arguments of ``cuLaunchKernelEx`` as ctypes objects: converting eleven
    integers for ``cuLaunchKernel`` anew takes longer than the driver does. Counters are the
    stream's, or those of the capture that it is in, and are asked for by each launch.

    Args:
        kernel: to launch.
        pack: makes the arguments, given the addresses of counters and workspaces (0 without).
        device: of the tensors.
        grid: CTAs along x and y.
        needs: memory beside the tensors, None where it needs none.
    """

    __slots__ = ("_by_stream", "_current", "_device", "_grid", "_kernel", "_needs", "_pack",
                 "_raw", "_submit")  # fmt: skip

    def __init__(
        self,
        kernel: LoadedFunction,
        pack: Callable[..., Arguments],
        device: int,
        grid: tuple[int, int],
        needs: Needs | None,
    ) -> None:
        self._kernel, self._pack = kernel, pack
        self._needs = needs
        self._device, self._grid = device, grid
        self._submit = kernel._submit
        self._current, self._raw = stream_functions(kernel._torch)
        self._by_stream: dict[Key, LaunchArguments] = {}

    def __call__(self, stream: int | None = None) -> None:
        """Launch on ``stream`` (a ``cudaStream_t`` of the device), or on torch's current stream.

        Raises:
            InternalError: the driver refuses the launch.
        """
        if stream is None:
            return self.here()
        if self._current() != self._device:
            with self._kernel._torch.cuda.device(self._device):
                return self._launch(stream)
        self._launch(stream)

    def here(self) -> None:
        """Launch on torch's current stream of the device.

        Whoever launches again and again keeps this method, not the object: Python calls it without
        a detour through the type's ``__call__``.

        Raises:
            InternalError: the driver refuses the launch.
        """
        device = self._device
        if self._current() != device:
            with self._kernel._torch.cuda.device(device):
                return self._launch(self._raw(device))
        stream = self._raw(device)
        launch = self._by_stream.get(stream)
        if launch is None:
            return self._launch(stream)
        if status := self._submit(*launch):
            self._kernel.refused(status, launch, device)

    def _launch(self, stream: int) -> None:
        """Launch on a stream for the first time, or with memory that is asked for each time."""
        if 0 in self._grid:
            return
        needs, memory, at = self._needs, None, (0, 0)
        if needs is not None:  # held until the launch is in the stream
            memory = needs.memory(self._kernel._workspace, stream, self._device)
            at = _address(memory[0]), _address(memory[1])
        key = stream if memory is None else (stream, *at)
        launch = self._by_stream.get(key) or self._on(key, stream, at)
        if status := self._submit(*launch):
            self._kernel.refused(status, launch, self._device)

    def _on(self, key: Key, stream: int, memory: tuple[int, int]) -> LaunchArguments:
        """The arguments for a stream and its memory."""
        kernel, block = self._kernel, self._pack(*memory)
        config = LaunchConfig(*self._grid, kernel.kernel.splits, kernel.kernel.threads, 1, 1,
                              kernel.kernel.shared_bytes, stream, None, 0)  # fmt: skip
        if kernel.starts_early(self._grid[0] * self._grid[1] * kernel.kernel.splits):
            config.add(LaunchAttribute.programmatic_stream_serialization())
        config.block = block
        made = (
            ctypes.byref(config),
            ctypes.c_void_p.from_param(kernel._handle),
            ctypes.c_void_p.from_param(block.pointer),
            None,
        )
        if len(self._by_stream) >= _STREAMS:
            self._by_stream.clear()
        self._by_stream[key] = made
        return made


def _address(buffer: torch.Tensor | None) -> int:
    return 0 if buffer is None else int(buffer.data_ptr())


def _torch() -> Any:
    try:
        import torch
    except ImportError as e:
        raise UnsupportedError("launching without torch", "torch tensors", "Install torch") from e
    return torch
