"""The targets that there are, and which of them a device is."""

from __future__ import annotations

from typing import Any

from lowering.ground.errors import UnsupportedError
from lowering.target.blackwell import BLACKWELL, BLACKWELL_PAIRS
from lowering.target.hopper import HOPPER
from lowering.target.target import Target

__all__ = [
    "DEFAULT", "TARGETS", "gpus", "grouped", "named", "of_macro", "require", "target_of_device",
]  # fmt: skip

TARGETS: tuple[Target, ...] = (HOPPER, BLACKWELL)
"""Every GPU that wsched makes kernels for."""

_OF_MACRO = {t.mma.macro: t for t in (*TARGETS, BLACKWELL_PAIRS)}

DEFAULT = TARGETS[0]
"""What a kernel is made for where nobody names a device."""


def gpus() -> str:
    """Every such GPU in words."""
    numbers = ("{}.{}".format(*t.capability) for t in TARGETS)
    return f"a GPU of compute capability {' or '.join(numbers)}"


def named(name: str) -> Target:
    """The target of a name, as compilers call it or a schedule (:attr:`Target.name`).

    Raises:
        UnsupportedError: there is none.
    """
    found = next((t for t in _OF_MACRO.values() if t.name == name), None)
    if found is None:
        raise UnsupportedError(f"the target {name}", ", ".join(t.arch for t in TARGETS))
    return found


def grouped(arch: str) -> dict[int, Target]:
    """The targets that compilers call so, by the CTAs that have a part of one instruction."""
    return {t.mma.ctas: t for t in _OF_MACRO.values() if t.arch == arch}


def of_macro(arch: str) -> Target:
    """The target whose matrix instruction nvFuser calls so (``MmaMacro``'s architecture)."""
    return _OF_MACRO[arch]


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
    found = target_of_device(torch, device)
    if found is None or found.arch != target.arch:
        major, minor = torch.cuda.get_device_capability(device)
        raise UnsupportedError(f"a GPU of compute capability {major}.{minor}", target.capabilities)
