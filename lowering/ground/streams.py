"""Where torch is: the current device, and the current stream of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["stream_functions"]


def stream_functions(torch: Any) -> tuple[Callable[[], int], Callable[[int], int]]:
    """Functions for the current device and for a device's current stream.

    Torch's public ones make objects, which takes a microsecond; the compiled ones that they call
    are used where this torch has them.
    """
    compiled = getattr(torch, "_C", None)
    device = getattr(compiled, "_cuda_getDevice", torch.cuda.current_device)
    stream = getattr(compiled, "_cuda_getCurrentRawStream", None)
    return device, stream or (lambda index: int(torch.cuda.current_stream(index).cuda_stream))
