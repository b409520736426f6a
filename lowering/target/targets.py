"""The targets that there are, and which of them a device is."""

from __future__ import annotations

from typing import Any

from lowering.ground.errors import UnsupportedError
from lowering.target.blackwell import BLACKWELL
from lowering.target.hopper import HOPPER
from lowering.target.target import Target

__all__ = ["DEFAULT", "TARGETS", "gpus", "named", "require", "target_of_device"]

TARGETS: tuple[Target, ...] = (HOPPER, BLACKWELL)
"""Every GPU that wsched makes kernels for."""

DEFAULT = TARGETS[0]
"""What a kernel is made for where nobody names a device."""


def gpus() -> str:
    """Every such GPU in words."""
    return " or ".join(t.gpu for t in TARGETS)


def named(arch: str) -> Target:
    """The target that compilers call so.

    Raises:
        UnsupportedError: there is none.
    """
    found = next((t for t in TARGETS if t.arch == arch), None)
    if found is None:
        raise UnsupportedError(f"the target {arch}", ", ".join(t.arch for t in TARGETS))
    return found


def target_of_device(torch: Any, device: Any = None) -> Target | None:
    """The target of a device, None where wsched has no kernels for it.

    Args:
        torch: the module, which knows the device.
        device: a ``torch.device`` or the index of a GPU; None for the current GPU, if there is one.
    """
    if getattr(device, "type", "cuda") != "cuda" or (
        device is None and not torch.cuda.is_available()
    ):
        return None
    capability = torch.cuda.get_device_capability(device)
    return next((t for t in TARGETS if t.capability == capability), None)


def require(torch: Any, device: int, target: Target) -> None:
    """Refuse a device that does not have a kernel's instructions.

    Raises:
        UnsupportedError: its compute capability is not the target's.
    """
    if target_of_device(torch, device) is not target:
        major, minor = torch.cuda.get_device_capability(device)
        raise UnsupportedError(f"a GPU of compute capability {major}.{minor}", target.capabilities)
