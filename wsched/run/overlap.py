"""Results that share memory with what the kernel reads: which of them come out right.

CTAs, and the threads of one, read and write in any order, so that a result may not lie where an
input lies. The exception is an input of the epilogue with the result's own elements at the same
addresses: each is read in front of the store that replaces it, by the same warpgroup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from wsched.fusion import Fusion
from wsched.run.input_error import InputError

if TYPE_CHECKING:
    import torch

__all__ = ["Pack", "disjoint", "require_disjoint"]

_WORK = 10_000
"""How long numpy may look for a shared element, in its own units; beyond that there is one."""


Pack = Callable[[Sequence[Any], Sequence["torch.Tensor"]], Callable[[], None]]
"""Packs a launch for inputs and results."""


def disjoint(fusion: Fusion, pack: Pack) -> Pack:
    """The same, once the results are where they may be; raises as :func:`require_disjoint`."""

    def packed(inputs: Sequence[Any], outputs: Sequence[torch.Tensor]) -> Callable[[], None]:
        require_disjoint(fusion, inputs, outputs)
        return pack(inputs, outputs)

    return packed


def require_disjoint(
    fusion: Fusion, inputs: Sequence[Any], outputs: Sequence[torch.Tensor]
) -> None:
    """Check where a caller wants the results.

    Args:
        fusion: what is computed.
        inputs: the caller's, in the order of the definition.
        outputs: of the sizes and types of the results.

    Raises:
        InputError: two elements of the results are at one address, or an element of a result is at
            that of an input that is still read.
    """
    for place, out in enumerate(outputs):
        if any(
            size > 1 and stride == 0 for size, stride in zip(out.shape, out.stride(), strict=True)
        ):
            what, found = f"out[{place}]", f"strides {tuple(out.stride())}"
            raise InputError(f"{what} has several elements at one address", what, found)
    for (a, one), (b, other) in combinations(enumerate(outputs), 2):
        if _share(one, other):
            raise _overlap(f"out[{b}]", f"out[{a}]")
    for place, (result, out) in enumerate(zip(fusion.outputs, outputs, strict=True)):
        for position, (binding, tensor) in enumerate(zip(fusion.inputs, inputs, strict=True)):
            if not hasattr(tensor, "data_ptr") or not _share(out, tensor):
                continue
            if binding.extents != result.extents or not _same(out, tensor):
                raise _overlap(f"out[{place}]", f"input {position}")


def _overlap(what: str, other: str) -> InputError:
    return InputError(
        f"{what} shares memory with {other}; only an input of the epilogue that has the shape, "
        "type and strides of the result and begins where it begins may be written over",
        what,
        f"memory of {other}",
        "memory of its own",
    )


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have the same elements at the same addresses."""
    return (a.data_ptr(), a.shape, a.stride(), a.dtype) == (
        b.data_ptr(), b.shape, b.stride(), b.dtype,
    )  # fmt: skip


def _share(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have an element at one address."""
    if a.device != b.device or a.device.type == "meta" or 0 in a.shape or 0 in b.shape:
        return False
    try:
        return np.shares_memory(_addresses(a), _addresses(b), max_work=_WORK)
    except np.exceptions.TooHardError:
        return True


class _Addresses:
    """A tensor's addresses for numpy, which does not look what is there."""

    def __init__(self, tensor: torch.Tensor) -> None:
        size = tensor.element_size()
        self.__array_interface__ = {
            "version": 3,
            "data": (tensor.data_ptr(), True),
            "shape": tuple(tensor.shape),
            "strides": tuple(size * stride for stride in tensor.stride()),
            "typestr": f"|V{size}",
        }


def _addresses(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    return np.asarray(_Addresses(tensor))
