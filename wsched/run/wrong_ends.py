"""A word for each device that says whether grouped matmuls have met ends that are none.

Which ends there are only the device knows, so it is the device that finds out: the thread that
walks over the groups writes the word where an end falls or lies behind the matrix. Nobody clears it
but who asks, so that a graph may be replayed many times before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowering.ground.locks import Lock

if TYPE_CHECKING:
    import torch

__all__ = ["flag_of", "wrong_ends"]

_FLAGS: dict[torch.device, torch.Tensor] = {}
_LOCK = Lock()


def flag_of(device: torch.device) -> torch.Tensor:
    """The word of a device, an int32 tensor of one element; zero when it is first asked for.

    Its memory stays the same as long as the process runs. If the first kernel that needs it is made
    while a stream is captured, its zero is written by each replay, too.
    """
    import torch

    found = _FLAGS.get(device)
    if found is None:
        made = torch.zeros(1, dtype=torch.int32, device=device)
        if device.type == "meta":
            return made
        with _LOCK:
            found = _FLAGS.setdefault(device, made)
    return found


def wrong_ends(device: torch.device | str | None = None) -> bool:
    """Whether a grouped matmul on a device has met offsets that fall or lie behind the matrix since
    somebody asked last.

    Its result is that of the ends that there would be with each at least the one in front of it and
    at most the extent of the matrix; nothing else was written.

    Args:
        device: by default torch's current GPU, without one the CPU. Of a GPU it waits for the
            current stream, and tells of what that has run or waited for.
    """
    import torch

    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    where = torch.device(device)
    if where.type == "cuda" and where.index is None:
        where = torch.device("cuda", torch.cuda.current_device())
    flag = _FLAGS.get(where)
    if flag is None:
        return False
    found = bool(flag.item())
    flag.zero_()
    return found
