"""A part of a definition by nvFuser, or by torch where nvFuser ends it with an error of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from wsched.doors.fallback.interpret import interpret, unknown_ops
from wsched.doors.fallback.nvfuser import NvfuserError
from wsched.importer.definition import Definition

if TYPE_CHECKING:
    import torch

__all__ = ["or_torch"]

Run = Callable[[Sequence[Any]], "list[torch.Tensor]"]


def or_torch(definition: Definition, by_nvfuser: Run, device: torch.device | None = None) -> Run:
    """How a part runs: by nvFuser, or from its first refusal on by torch, operation by operation.

    A definition that nvFuser takes as a whole may be one that it does not take in parts, and the
    other way round; whoever cuts it has to answer for the parts.

    Args:
        definition: of the part.
        by_nvfuser: runs it; raises ``NvfuserError`` where nvFuser refuses.
        device: where results are if no input is on a device.
    """
    refused = False

    def run(values: Sequence[Any]) -> list[torch.Tensor]:
        nonlocal refused
        if not refused:
            try:
                return by_nvfuser(values)
            except NvfuserError:
                if unknown_ops(definition):
                    raise
            refused = True
        return interpret(definition, values, device)

    return run
