"""nvFuser's ``FusionDefinition`` with wsched's kernels, whatever is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import nvfuser_direct

from wsched.doors.dropin.execute import in_front_of
from wsched.doors.dropin.patch import nvfusers_own

if TYPE_CHECKING:
    import torch

__all__ = ["FusionDefinition"]


def _nvfuser(fd: Any, inputs: Any, **options: Any) -> list[torch.Tensor]:
    """NvFuser's ``execute``, whether it is replaced or not."""
    own = nvfusers_own(nvfuser_direct.FusionDefinition)
    results: list[torch.Tensor] = own(fd, inputs, **options)
    return results


class FusionDefinition(nvfuser_direct.FusionDefinition):  # type: ignore[misc]
    """As nvFuser's, but ``execute`` takes wsched's kernels where they are faster."""

    execute = in_front_of(_nvfuser)
