"""Results that share memory with what the kernel reads: which of them come out right.

CTAs, and the threads of one, read and write in any order, so that a result may not lie where an
input lies. The exception is an input of the epilogue with the result's own elements at the same
addresses: each is read in front of the store that replaces it, by the same warpgroup.

Most tensors are told apart by the bytes from their first to their last element. Only where these
ranges meet is it asked whether two elements do: views may lie between each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lowering.ground.locks import Lock
from lowering.ground.recent import bounded
from wsched.fusion import Fusion
from wsched.importer.input_error import InputError
from wsched.program.memory import spanned_bytes
from wsched.program.prepare import Into

if TYPE_CHECKING:
    import torch

__all__ = ["InPlace", "Pack", "apart", "disjoint", "never", "require_disjoint", "written_over"]

_WORK = 10_000
"""How long numpy may look for a shared element, in its own units; beyond that there is one."""

_CALLS = 256
"""Sets of addresses of a class that are remembered as lying apart."""


InPlace = Callable[[int, int], bool]
"""Of a result and an input, by their places: whether the one may be written over the other."""


Pack = Callable[[Sequence[Any], Sequence["torch.Tensor"]], Callable[[], None]]
"""Packs a launch for inputs and results."""


def disjoint(fusion: Fusion, pack: Pack) -> Pack:
    """The same, once the results are where they may be; raises as :func:`require_disjoint`."""
    in_place = written_over(fusion)

    def packed(inputs: Sequence[Any], outputs: Sequence[torch.Tensor]) -> Callable[[], None]:
        require_disjoint(inputs, outputs, in_place)
        return pack(inputs, outputs)

    return packed


def apart(fusion: Fusion, run: Into) -> Into:
    """The same, of calls whose results are where they may be; raises as :func:`require_disjoint`.

    Tensors of one class that begin where they began in an earlier call are not looked at again.
    """
    in_place = written_over(fusion)
    known, lock = dict[tuple[int, ...], None](), Lock()

    def checked(inputs: Sequence[Any], outputs: list[torch.Tensor]) -> list[torch.Tensor]:
        tensors = [t for t in (*inputs, *outputs) if hasattr(t, "data_ptr")]
        at = tuple([t.data_ptr() for t in tensors])
        if at not in known:
            require_disjoint(inputs, outputs, in_place)
            with lock:
                bounded(known, at, None, _CALLS)
        return run(inputs, outputs)

    return checked


def require_disjoint(
    inputs: Sequence[Any], outputs: Sequence[torch.Tensor], in_place: InPlace
) -> None:
    """Check where a caller wants the results.

    Args:
        inputs: the caller's, in the order of the definition; numbers lie nowhere.
        outputs: of the sizes and types of the results.
        in_place: whether each element of that input is read by the thread that then writes that
            result's element of the same place, and by nobody else.

    Raises:
        InputError: two elements of the results are at one address, or an element of a result is at
            that of an input that is still read.
    """
    written = [_Span.of(t) for t in outputs]
    read = [(at, _Span.of(t)) for at, t in enumerate(inputs) if hasattr(t, "data_ptr")]
    for place, out in enumerate(outputs):
        if out.numel() and not out.is_contiguous() and _meets_itself(out):
            what, found = f"out[{place}]", f"strides {tuple(out.stride())}"
            raise InputError(f"{what} has several elements at one address", what, found)
        mine = written[place]
        for other in range(place):
            if mine.shares(written[other]):
                raise _overlap(f"out[{place}]", f"out[{other}]")
        for position, theirs in read:
            if mine.shares(theirs) and not (
                in_place(place, position) and _same(out, inputs[position])
            ):
                raise _overlap(f"out[{place}]", f"input {position}")


def written_over(fusion: Fusion) -> InPlace:
    """Which results of a kernel may be written over which of its inputs: matrices over inputs of
    the epilogue that have an element for each of theirs.

    What CTAs reduce together, and what several of them read (a row, a column, an operand), is read
    by some when others have written.
    """

    def in_place(place: int, position: int) -> bool:
        result, binding = fusion.outputs[place], fusion.inputs[position]
        whole = fusion.reduction(result.tensor) is None and "1" not in result.extents
        return whole and result.extents == binding.extents and (
            binding.tensor not in fusion.operands
        )  # fmt: skip

    return in_place


def never(place: int, position: int) -> bool:
    """No result may be written over an input."""
    return False


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


def _meets_itself(tensor: torch.Tensor) -> bool:
    """Whether two elements of a tensor may be at one address.

    They are not where each step, the longer ones behind the shorter, leads past all that the
    shorter ones reach. Other strides might do as well; nobody has such results.
    """
    reach = 0
    pairs = zip(tensor.stride(), tensor.shape, strict=True)
    for step, size in sorted(pair for pair in pairs if pair[1] > 1):
        if step <= reach:
            return True
        reach += step * (size - 1)
    return False


@dataclass(frozen=True, slots=True)
class _Span:
    """The bytes from the first to the last of a tensor: [begin, end) on a device.

    Nothing where it has no elements, or no memory.
    """

    tensor: torch.Tensor
    device: torch.device
    begin: int
    end: int

    @staticmethod
    def of(tensor: torch.Tensor) -> _Span:
        device, begin, size = tensor.device, tensor.data_ptr(), spanned_bytes(tensor)
        if not size or device.type == "meta":
            return _Span(tensor, device, 0, 0)
        return _Span(tensor, device, begin, begin + size)

    def shares(self, other: _Span) -> bool:
        """Whether two tensors have a byte in common."""
        if self.begin >= other.end or other.begin >= self.end or self.device != other.device:
            return False
        try:
            return np.shares_memory(
                _addresses(self.tensor), _addresses(other.tensor), max_work=_WORK
            )
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
