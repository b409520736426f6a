"""A warning of what lines that a kernel prints cost."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import For, FragPrint, MmaTile
from lowering.kernel.visit import walk

__all__ = ["PrintWarning", "warn_of_prints"]


class PrintWarning(UserWarning):
    """A kernel prints, and its times mean nothing."""


def warn_of_prints(kernel: Kernel) -> None:
    """Say why the tensor core idles in a kernel that prints.

    ``printf`` is a call, in front of which ptxas waits for all wgmmas of the function (C7510); and
    sums that are printed in the loop that adds them up are waited for in each of its steps.
    Products into tensor memory are in nobody's registers and go on: who prints is late alone.

    Args:
        kernel: at tile level.
    """
    why = "the call of printf ends what is in flight of wgmma, in all of the kernel"
    if kernel.target.tensor_memory is not None:
        why = "a warp that prints is late for all that wait for it"
    sums = ", ".join(sorted(set(_waited_for(kernel))))
    also = f", and {sums} is waited for in each step that adds to it" if sums else ""
    text = f"{kernel.name} prints: on a GPU {why}{also}: its times mean nothing"
    warnings.warn(text, PrintWarning, stacklevel=2)


def _waited_for(kernel: Kernel) -> Iterator[str]:
    """The tensors behind whose products elements of the sums are printed, step by step."""
    for loop in (s for s in walk(kernel.body) if isinstance(s, For)):
        made = {s.out.name for s in loop.body if isinstance(s, MmaTile)}
        for s in walk(loop.body):
            if isinstance(s, FragPrint) and s.value.name in made:
                yield s.where
