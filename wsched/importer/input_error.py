"""The caller's mistakes: what was passed does not fit the definition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import UnsupportedError, WschedError

if TYPE_CHECKING:
    import torch

__all__ = [
    "InputError", "is_array", "is_fake", "no_tensor", "require_64_bits", "require_array",
    "require_memory", "require_own_memory", "require_sequence", "require_tensor", "several_devices",
    "wrong_number", "wrong_rank", "wrong_size", "wrong_type",
]  # fmt: skip


class InputError(WschedError, ValueError):
    """What was passed does not fit the definition.

    Args:
        text: one sentence that says what is wrong.
        argument: which argument: ``input 2``, ``inputs``, ``out[0]``, ``params``.
        found: what it is: a type, a shape, a size, a device.
        expected: what it has to be; empty where that cannot be said in a few words.
    """

    def __init__(self, text: str, argument: str, found: str, expected: str = "") -> None:
        self.argument, self.found, self.expected = argument, found, expected
        super().__init__(text)


def wrong_number(found: int, expected: int) -> InputError:
    """Another number of inputs than the definition has."""
    text = f"{found} inputs, the definition has {expected}"
    return InputError(text, "inputs", str(found), str(expected))


def no_tensor(argument: str, value: object) -> InputError:
    """Something else where a tensor is expected."""
    kind = type(value).__name__
    return InputError(f"{argument} is a {kind}, not a torch.Tensor", argument, kind, "torch.Tensor")


def wrong_rank(argument: str, shape: Sequence[int], rank: int) -> InputError:
    """A tensor with another number of dimensions."""
    found = str(list(shape))
    text = f"{argument} has shape {found}, the definition has {rank} dimensions"
    return InputError(text, argument, found, f"{rank} dimensions")


def wrong_size(argument: str, axis: int, size: int, expected: int) -> InputError:
    """A dimension whose size the definition fixes otherwise."""
    text = f"dimension {axis} of {argument} is {size}, the definition says {expected}"
    return InputError(text, argument, f"dimension {axis} {size}", f"dimension {axis} {expected}")


def several_devices(devices: Iterable[str]) -> InputError:
    """Tensors of several devices."""
    found = " and ".join(sorted(devices))
    return InputError(f"inputs are on {found}, not on one device", "inputs", found, "one device")


def wrong_type(argument: str, dtype: object, expected: object) -> InputError:
    """A tensor of another type."""
    text = f"{argument} is {dtype}, the definition says {expected}"
    return InputError(text, argument, str(dtype), str(expected))


def is_array(tensor: torch.Tensor) -> bool:
    """Whether a tensor has a shape and strides: sparse ones and lists of others have none, and
    raise where they are asked.
    """
    import torch

    return tensor.layout is torch.strided and not tensor.is_nested


def require_tensor(argument: str, value: Any) -> None:
    """Refuse what is no tensor, no array, or has no memory of its own."""
    if not hasattr(value, "data_ptr"):
        raise no_tensor(argument, value)
    require_array(argument, value)
    require_own_memory(value)


def require_array(argument: str, tensor: torch.Tensor) -> None:
    """Refuse a tensor that is no array, be it sparse or a list of others, and one whose memory has
    other numbers than it: torch keeps the sign of ``z.conj().imag`` as a bit of the tensor.
    """
    if not is_array(tensor):
        layout = "nested" if tensor.is_nested else str(tensor.layout)
        text = f"{argument} is a tensor of layout {layout}, not torch.strided"
        raise InputError(text, argument, layout, "torch.strided")
    if tensor.is_neg():
        text = (
            f"{argument} has torch's negative bit: its memory has the other sign; call "
            "resolve_neg()"
        )
        raise InputError(text, argument, "the negative bit", "the result of resolve_neg()")


def is_fake(tensor: torch.Tensor) -> bool:
    """Whether a tensor only says that it has memory: torch's fake ones have shapes alone."""
    return type(tensor).__name__ == "FakeTensor"


def require_own_memory(tensor: torch.Tensor) -> None:
    """Refuse a tensor of somebody's class that stands for others and has no elements of its own
    (``torch.Tensor._make_wrapper_subclass``): its address is 0, which a kernel would read. Fake
    ones and who traces say shapes, and are let by.

    Raises:
        UnsupportedError: so it does.
    """
    import torch

    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return
    from wsched.importer.watched import is_traced  # which imports torch

    if is_fake(tensor) or tensor.device.type == "meta" or is_traced():
        return
    if tensor.numel() and not tensor.data_ptr():
        raise _without_memory(tensor)


def _without_memory(tensor: torch.Tensor) -> UnsupportedError:
    kind = type(tensor).__name__
    return UnsupportedError(f"running on a {kind} without memory", "tensors that have some")


def require_memory(tensors: Iterable[torch.Tensor]) -> None:
    """Refuse tensors that nothing can run on.

    Raises:
        UnsupportedError: one is neither on the CPU nor on a GPU, or only says that it is; or
            somebody traces or transforms, who does not see memory.
    """
    from wsched.importer.watched import without_memory  # which imports torch

    if who := without_memory():
        text = f"running a kernel inside of {who}, which does not see what it writes,"
        raise UnsupportedError(text, "wsched.execute and plain doors, which are operators there")
    for tensor in tensors:
        if tensor.device.type not in ("cpu", "cuda"):
            raise UnsupportedError(f"running on {tensor.device}", "tensors on cuda or cpu")
        if is_fake(tensor):
            raise _without_memory(tensor)
        require_own_memory(tensor)


def require_64_bits(argument: str, value: float) -> None:
    """Refuse a number that no kernel's argument holds."""
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        text = f"{argument} is a whole number of {value.bit_length()} bits, which 64 do not hold"
        raise InputError(text, argument, f"{value.bit_length()} bits", "64 bits")


def require_sequence(inputs: object) -> None:
    """Refuse a tensor in place of a list of them, and what can be gone through only once."""
    if isinstance(inputs, Sequence):
        return
    kind = type(inputs).__name__
    if hasattr(inputs, "data_ptr"):
        text = f"inputs is a {kind}, not a list of tensors; write [x] for a tensor x"
        raise InputError(text, "inputs", kind, "a list of tensors")
    text = f"inputs is a {kind}, not a list of tensors and numbers"
    raise InputError(text, "inputs", kind, "a list of tensors and numbers")
