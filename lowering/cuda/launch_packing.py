"""The arguments of a kernel's launches, from tensors and scalars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lowering.cuda.launch_block import Arguments
from lowering.cuda.launch_maps import Descriptors
from lowering.cuda.pointers import pointer_of
from lowering.ground.errors import InternalError, UnsupportedError
from lowering.kernel.kernel import Kernel

if TYPE_CHECKING:
    import torch

__all__ = ["Packed", "Packing"]


@dataclass(frozen=True, slots=True)
class Packed:
    """What a launch passes to a kernel, but for counters and workspaces.

    Args:
        kernel: that takes it.
        descriptors: of the tensor maps that are passed by value.
        places: addresses of those in device memory, address and strides of each global tensor,
            addresses of trace buffers and of the watch.
        scalars: values of the scalar parameters.
        device: of the tensors, -1 where there is none.
    """

    kernel: Kernel
    descriptors: list[bytes]
    places: list[int]
    scalars: list[int]
    device: int

    def block(self, *memory: int) -> Arguments:
        """The parameter block, with the addresses of each array of counters and each workspace."""
        return Arguments(self.kernel, self.descriptors, [*self.places, *memory], self.scalars)


class Packing:
    """Packs the arguments of a kernel's launches; threads may share it.

    Args:
        kernel: whose parameters they are.
        descriptors: of its tensor maps.
    """

    def __init__(self, kernel: Kernel, descriptors: Descriptors) -> None:
        self.kernel, self.descriptors = kernel, descriptors

    def of(self, tensors: Mapping[str, torch.Tensor], params: Mapping[str, int]) -> Packed:
        """The arguments for these tensors and scalars, by name.

        Raises:
            UnsupportedError: a tensor that TMA or the kernel cannot address (``layout_of``,
                ``pointer_of``), or tensors of several devices.
            InternalError: a missing argument.
        """
        kernel = self.kernel
        descriptors, device = self.descriptors.of(tensors)
        places = [_argument(tensors, m.name).data_ptr() for m in kernel.tensor_maps if m.device]
        for g in (g for array in kernel.globals for g in array.entries):
            t = _argument(tensors, g.name)
            places += pointer_of(g, t)
            if device not in (-1, t.device.index):
                raise UnsupportedError("tensors of several devices", "tensors of one device")
            device = t.device.index
        places += [_argument(tensors, t.name).data_ptr() for t in kernel.traces]
        if kernel.watch is not None:
            places.append(_argument(tensors, kernel.watch.name).data_ptr())
        scalars = [_argument(params, p.name) for p in kernel.params]
        return Packed(kernel, descriptors, places, scalars, device)


def _argument(values: Mapping[str, Any], name: str) -> Any:
    try:
        return values[name]
    except KeyError:
        raise InternalError("launch", f"no argument {name}") from None
