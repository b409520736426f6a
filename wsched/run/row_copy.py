"""Copies in front of kernels: by wsched's own kernel where torch copies element by element.

Torch moves rows that begin at multiples of 16 bytes at the speed of memory, all others at a third
of it, which is what operands have that need a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from lowering.ground.dtypes import DType
from lowering.ground.expr import evaluate
from lowering.ground.locks import Lock
from lowering.ground.recent import bounded
from lowering.kernel.kernel import Kernel
from lowering.target.ptx import TMA_STRIDE_ALIGN
from wsched.program.prepare import torch_copy
from wsched.run.counts import LARGEST
from wsched.run.row_kernel import TYPES, row_kernel

if TYPE_CHECKING:
    import torch

__all__ = ["RowCopies", "copy_rows", "matrices"]

_LAUNCHES = 256
"""Pairs of tensors for which a launch is kept."""

_TYPES = {f"torch.{d.torch}": d for d in TYPES}


class Loaded(Protocol):
    """A kernel that can be launched; :class:`lowering.cuda.launch.LoadedKernel` is one."""

    def prepare(
        self, tensors: Mapping[str, Any], params: Mapping[str, int], grid: int
    ) -> Callable[[], None]:
        """What launches it on tensors that somebody keeps alive."""


class RowCopies:
    """Copies tensors; safe to use from threads.

    Args:
        load: makes a kernel ready, once for each type.
        device: the type of devices whose tensors it copies itself.
    """

    def __init__(self, load: Callable[[Kernel], Loaded], device: str = "cuda") -> None:
        self._load, self._device = load, device
        self._loaded: dict[DType, Loaded] = {}
        self._launches: dict[Any, Callable[[], None]] = {}
        self._lock = Lock()

    def __call__(self, target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        """Copy the elements of ``source`` into ``target``, of the same shape; ``target``.

        Raises:
            UnsupportedError: as a launch.
        """
        key = (
            target.data_ptr(), source.data_ptr(), source.shape, source.stride(), target.stride(),
            source.dtype, source.device,
        )  # fmt: skip
        launch = self._launches.get(key)
        if launch is None:
            if (launch := self._launch(target, source)) is None:
                return torch_copy(target, source)
            with self._lock:
                bounded(self._launches, key, launch, _LAUNCHES)
        launch()
        return target

    def _launch(self, target: torch.Tensor, source: torch.Tensor) -> Callable[[], None] | None:
        """What copies these two; None if that is for torch."""
        dtype = _TYPES.get(str(source.dtype))
        if source.device.type != self._device or dtype is None:
            return None
        if (views := matrices(target, source)) is None:
            return None
        kernel = row_kernel(dtype)
        params: dict[str, int] = dict(zip("BRC", views[0].shape, strict=True))
        if (grid := evaluate(kernel.grid, params)) > LARGEST:
            return None
        if dtype not in self._loaded:
            self._loaded[dtype] = self._load(kernel)
        tensors = {"target": views[0], "source": views[1]}
        return self._loaded[dtype].prepare(tensors, params, grid)


def matrices(
    target: torch.Tensor, source: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Both as three dimensions, the last one contiguous, that the kernel takes.

    None where it takes them not: one with other than two or three dimensions or without elements,
    columns apart, a target that TMA does not write, or a source that torch copies as fast.
    """
    if source.shape != target.shape or source.dtype != target.dtype or not 2 <= source.dim() <= 3:
        return None
    if 0 in source.shape or max(source.shape) > LARGEST:
        return None
    order = sorted(range(target.dim()), key=lambda d: (-target.stride(d), d))
    found = tuple(t.permute(order) for t in (target, source))
    if source.dim() == 2:
        found = tuple(t.unsqueeze(0) for t in found)
    into, out_of = found
    if (into.stride(2), out_of.stride(2)) != (1, 1) or not _aligned(into) or _aligned(out_of):
        return None
    return into, out_of


def _aligned(t: torch.Tensor) -> bool:
    """Whether rows and matrices begin at multiples of 16 bytes."""
    sizes, strides = t.shape[:2], t.stride()[:2]
    apart = [s for n, s in zip(sizes, strides, strict=True) if n > 1]
    size = t.element_size()
    return not any(at % TMA_STRIDE_ALIGN for at in (t.data_ptr(), *(s * size for s in apart)))


def _loaded(kernel: Kernel) -> Loaded:
    """The kernel in the driver's hands, from the disk cache or NVRTC."""
    from lowering.cuda.launch import LoadedKernel
    from wsched.run.made import compiled_kernel

    return LoadedKernel(kernel, compiled_kernel(kernel).cubin)


copy_rows = RowCopies(_loaded)
"""The process's."""
