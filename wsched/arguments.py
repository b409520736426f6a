"""The caller's tensors against a fusion's bindings: checks, extents, and the matrices TMA sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lowering.errors import UnsupportedError, WschedError
from lowering.hopper import TMA_STRIDE_ALIGN
from wsched.fusion import DataType, Fusion, TensorBinding

if TYPE_CHECKING:
    import torch

__all__ = ["Arguments", "InputError", "bind", "extents_of", "torch_dtype"]

_DTYPES = {DataType.BFloat16: "bfloat16", DataType.Half: "float16", DataType.Float: "float32"}


class InputError(WschedError, ValueError):
    """The tensors passed do not fit the definition."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """Everything a launch needs to know about the tensors.

    Args:
        extents: value of each symbolic extent (``M``, ``N``, ``K``).
        matrices: each fusion input as the 2-D tensor that its tensor map describes, contiguous
            dimension last.
        device: where they are.
    """

    extents: dict[str, int]
    matrices: dict[str, torch.Tensor]
    device: torch.device


def torch_dtype(dtype: DataType) -> torch.dtype:
    """The torch type of a fusion type that kernels handle."""
    import torch

    found: torch.dtype = getattr(torch, _DTYPES[dtype])
    return found


def bind(fusion: Fusion, inputs: Sequence[Any]) -> Arguments:
    """Match tensors to the fusion's inputs.

    Raises:
        InputError: number, rank, type, sizes or devices do not fit.
        UnsupportedError: a layout that TMA cannot address, or a device that is neither the CPU
            (the machine model) nor a GPU.
    """
    extents = extents_of(fusion, inputs)
    matrices: dict[str, torch.Tensor] = {}
    for position, (binding, tensor) in enumerate(zip(fusion.inputs, inputs, strict=True)):
        wanted = torch_dtype(binding.dtype)
        if tensor.dtype != wanted:
            raise InputError(f"input {position} is {tensor.dtype}, the definition says {wanted}")
        matrices[binding.tensor] = matrix(fusion, binding, tensor, f"input {position}")
    devices = {t.device for t in inputs}
    if len(devices) > 1:
        raise InputError(
            f"inputs are on {' and '.join(sorted(map(str, devices)))}, not on one device"
        )
    device = devices.pop()
    if device.type not in ("cpu", "cuda"):
        raise UnsupportedError(f"running on {device}", "tensors on cuda or cpu")
    return Arguments(extents, matrices, device)


def extents_of(fusion: Fusion, inputs: Sequence[Any]) -> dict[str, int]:
    """The extents that the inputs' shapes give to the fusion's symbols.

    Raises:
        InputError: something else than tensors, number or rank is wrong, or sizes contradict each
            other or the definition.
    """
    import torch

    if len(inputs) != len(fusion.inputs):
        raise InputError(f"{len(inputs)} inputs, the definition has {len(fusion.inputs)}")
    extents: dict[str, int] = {}
    origin: dict[str, str] = {}
    for position, (binding, tensor) in enumerate(zip(fusion.inputs, inputs, strict=True)):
        if not isinstance(tensor, torch.Tensor):
            raise InputError(f"input {position} is a {type(tensor).__name__}, not a torch.Tensor")
        shape = tuple(tensor.shape)
        if len(shape) != len(binding.axes):
            raise InputError(
                f"input {position} has shape {list(shape)}, the definition has "
                f"{len(binding.axes)} dimensions"
            )
        for axis, (name, size) in enumerate(zip(binding.axes, shape, strict=True)):
            fixed = binding.sizes[axis]
            here = f"dimension {axis} of input {position}"
            if fixed is not None and fixed != size:
                raise InputError(f"{here} is {size}, the definition says {fixed}")
            if extents.setdefault(name, size) != size:
                raise InputError(
                    f"{name} is {extents[name]} in {origin[name]} and {size} in {here}"
                )
            origin.setdefault(name, here)
    return extents


def matrix(fusion: Fusion, binding: TensorBinding, tensor: torch.Tensor, what: str) -> torch.Tensor:
    """A view of ``tensor`` with dimensions in the fusion's order of memory, columns contiguous.

    The strides of an empty tensor mean nothing; it gets some that TMA takes.

    Raises:
        UnsupportedError: its columns are not contiguous, or its rows or base not aligned for TMA.
    """
    order = _in_memory(fusion, binding)
    if order != list(binding.axes):
        tensor = tensor.permute([binding.axes.index(name) for name in order])
    (rows, cols), (row, col) = tensor.shape, tensor.stride()
    if not rows or not cols:
        return tensor.as_strided((rows, cols), (-(-max(cols, 1) // 8) * 8, 1))
    if col != 1 and cols > 1:
        raise UnsupportedError(
            f"{what} with stride {col} along {order[1]}",
            f"{order[1]} contiguous (stride 1)",
            "A kernel is for one order of memory: compile one for these inputs"
            if binding in fusion.inputs
            else "",
        )
    row_bytes = row * tensor.element_size()
    if rows > 1 and (row_bytes % TMA_STRIDE_ALIGN or not row_bytes):
        raise UnsupportedError(
            f"{what} with {row_bytes} bytes from row to row",
            f"positive multiples of {TMA_STRIDE_ALIGN} bytes",
        )
    if past := tensor.data_ptr() % TMA_STRIDE_ALIGN:
        raise UnsupportedError(
            f"{what} that starts {past} bytes past a multiple of {TMA_STRIDE_ALIGN}",
            f"starts at multiples of {TMA_STRIDE_ALIGN} bytes",
        )
    return tensor


def result_shape(binding: TensorBinding, extents: Mapping[str, int]) -> list[int]:
    """Shape of a result."""
    return [extents[name] for name in binding.axes]


def new_result(
    fusion: Fusion, binding: TensorBinding, extents: Mapping[str, int], device: torch.device
) -> torch.Tensor:
    """An uninitialised result, in memory as the fusion stores it."""
    import torch

    order = _in_memory(fusion, binding)
    sizes = [extents[name] for name in order]
    result = torch.empty(sizes, dtype=torch_dtype(binding.dtype), device=device)
    return result.permute([order.index(name) for name in binding.axes])


def _in_memory(fusion: Fusion, binding: TensorBinding) -> list[str]:
    """The caller's axes in the order of memory, contiguous one last."""
    return [str(d.extent) for d in fusion.tensor(binding.tensor).in_memory]
