"""Memory of a call by its address: what lies between the kernels of a program needs no tensor.

The first kernel of a call waits for this memory, and a tensor costs the host several times what
the allocation does. It is torch's all the same: the functions are those of
``torch.cuda.caching_allocator_alloc`` and ``caching_allocator_delete``, so the statistics, limits
and pools of tensors are those of this memory, too.

*Streams.* A block is the stream's for which it was taken, and once it is given back the allocator
hands it out on that stream only. A call takes it for the stream that its launches go to, so it may
be given back as soon as they are in line, whether or not they have run.

*Graphs.* Tensors and addresses come from one function of the allocator, which asks first whether
that very stream is captured: then the memory is of the graph's pool. Given back in the capture it
stays there, for what is captured behind, and for as long as the graph lives.

*Devices.* The allocator takes memory of the current device, whichever the stream is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lowering.ground.streams import stream_functions

if TYPE_CHECKING:
    import torch

__all__ = ["Scratch"]


class Scratch:
    """So many bytes for each call that asks, on the stream that is current there.

    Who takes an address gives it back, in ``finally``; safe to use from threads.

    Args:
        nbytes: of each call; with 0 nothing is allocated.
        device: where.
    """

    __slots__ = ("_allocate", "_current", "_delete", "_device", "_stream", "nbytes")

    def __init__(self, nbytes: int, device: torch.device) -> None:
        import torch

        compiled: Any = torch._C
        self.nbytes, self._device = nbytes, device
        self._current, self._stream = stream_functions(torch)
        self._allocate: Callable[[int, int], int] = compiled._cuda_cudaCachingAllocator_raw_alloc
        self._delete: Callable[[int], None] = compiled._cuda_cudaCachingAllocator_raw_delete

    def take(self) -> int:
        """Memory of the current stream of the device; 0 where nothing is asked for.

        Raises:
            torch.OutOfMemoryError: there is not so much.
        """
        if not self.nbytes:
            return 0
        index = self._device.index
        if self._current() != index:
            import torch

            with torch.cuda.device(index):
                return self._allocate(self.nbytes, self._stream(index))
        return self._allocate(self.nbytes, self._stream(index))

    def give_back(self, address: int) -> None:
        """To the stream that it was taken for, behind what is in line there."""
        if address:
            self._delete(address)

    def tensor(self, address: int) -> torch.Tensor:
        """What was taken as a tensor of bytes, for those who look at how it lies. It keeps nothing
        alive.
        """
        import torch

        made: Any = torch._C._construct_storage_from_data_pointer(
            address, self._device, self.nbytes
        )
        bare = torch.empty(0, dtype=torch.uint8, device=self._device)
        return bare.set_(made, 0, (self.nbytes,), (1,))
