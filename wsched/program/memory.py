"""Tensors for the buffers of a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lowering.ground.dtypes import DType
from lowering.ground.expr import Var, evaluate
from wsched.importer.input_error import InputError, wrong_number, wrong_rank, wrong_size
from wsched.program.classes import ALIGNMENT
from wsched.program.program import Buffer

if TYPE_CHECKING:
    import torch

__all__ = [
    "allocator", "device_of", "extents_of", "new_tensor", "part_of", "sizes_of", "spanned_bytes",
    "within",
]  # fmt: skip


def extents_of(buffers: Sequence[Buffer], inputs: Sequence[Any]) -> dict[str, int]:
    """The value that the inputs' shapes give to each symbol.

    Args:
        buffers: of a program, for its inputs.
        inputs: tensors; anything for a buffer without a shape and a type.

    Raises:
        InputError: their number, ranks or sizes are not the program's.
    """
    if len(inputs) != len(buffers):
        raise wrong_number(len(inputs), len(buffers))
    extents: dict[str, int] = {}
    known: list[tuple[int, Buffer, tuple[int, ...]]] = []
    for at, (buffer, tensor) in enumerate(zip(buffers, inputs, strict=True)):
        if not buffer.is_known:
            continue
        if len(tensor.shape) != len(buffer.shape):
            raise wrong_rank(f"input {at}", tensor.shape, len(buffer.shape))
        known.append((at, buffer, sizes := sizes_of(buffer.dtype, tensor)))
        for extent, size in zip(buffer.shape, sizes, strict=True):
            if isinstance(extent, Var):
                extents.setdefault(extent.name, size)
    for at, buffer, sizes in known:
        for axis, (extent, size) in enumerate(zip(buffer.shape, sizes, strict=True)):
            if (value := evaluate(extent, extents)) != size:
                raise wrong_size(f"input {at}", axis, size, value)
    return extents


def sizes_of(dtype: DType | None, given: Any) -> tuple[int, ...]:
    """The sizes of a tensor in elements of a type: of words those of the integers in them.

    Args:
        dtype: of the elements, None where nobody knows it.
        given: the tensor, torch's or NumPy's.
    """
    shape = tuple(given.shape)
    if dtype is None or dtype.packed == 1:
        return shape
    return (*shape[:-1], dtype.count(given.itemsize * shape[-1]))


def device_of(inputs: Sequence[Any]) -> torch.device:
    """The device of the first tensor.

    Raises:
        InputError: there is none.
    """
    for value in inputs:
        if hasattr(value, "device"):
            found: torch.device = value.device
            return found
    raise InputError("no tensor among the inputs", "inputs", "numbers", "a tensor")


def new_tensor(buffer: Buffer, extents: Mapping[str, int], device: torch.device) -> torch.Tensor:
    """New memory for a buffer; a tensor without memory on the device ``meta``."""
    import torch

    sizes, strides = buffer.sizes(extents), buffer.pitches(extents)
    like = torch.empty_strided(sizes, strides, dtype=_dtype(buffer), device="meta")
    return like if device.type == "meta" else allocator(like, device)()


def within(
    memory: torch.Tensor, offset: int, buffer: Buffer, extents: Mapping[str, int]
) -> torch.Tensor:
    """A buffer in memory that is there: bytes of ``memory`` from ``offset`` on."""
    taken = memory[offset:].view(_dtype(buffer))
    return taken.as_strided(buffer.sizes(extents), buffer.pitches(extents), taken.storage_offset())


def part_of(memory: torch.Tensor, buffer: Buffer, extents: Mapping[str, int]) -> torch.Tensor:
    """A part of a workspace.

    Args:
        memory: the workspace, or any tensor that begins where it does.
        buffer: the part, which says what is ``past`` in front of it.
        extents: value of each symbol in its sizes.
    """
    assert buffer.past is not None
    past = memory.storage_offset() + evaluate(buffer.past, extents)
    return memory.as_strided(buffer.sizes(extents), buffer.pitches(extents), past)


def spanned_bytes(tensor: torch.Tensor) -> int:
    """Bytes from the first element of a tensor to the end of its last one, 0 without elements."""
    count = tensor.numel()
    if count and not tensor.is_contiguous():
        pairs = zip(tensor.shape, tensor.stride(), strict=True)
        count = 1 + sum((n - 1) * step for n, step in pairs)
    return int(count * tensor.element_size())


def _dtype(buffer: Buffer) -> torch.dtype:
    import torch

    assert buffer.dtype is not None  # the verifier's
    found: torch.dtype = getattr(torch, buffer.dtype.torch)
    return found


def allocator(like: torch.Tensor, device: torch.device | None = None) -> Callable[[], torch.Tensor]:
    """A function that allocates a tensor of the same shape, strides and type.

    Its device is that of ``like`` unless it is given. What TMA writes beside the last of rows that
    lie apart is its own, too.

    A contiguous one is made in the likeness of an expanded single element, which is the fastest
    way that torch offers in public and keeps no result alive.
    """
    import torch

    shape, strides = tuple(like.shape), like.stride()
    dtype, device = like.dtype, device or like.device
    model = torch.empty((1,) * like.dim(), dtype=dtype, device=device).expand(shape)
    if torch.empty_like(model).stride() == strides:
        empty_like = torch.empty_like
        return lambda: empty_like(model)
    if (spanned := spanned_bytes(like)) % ALIGNMENT == 0:
        return lambda: torch.empty_strided(shape, strides, dtype=dtype, device=device)
    count = -(-spanned // ALIGNMENT) * ALIGNMENT // dtype.itemsize
    return lambda: torch.empty(count, dtype=dtype, device=device).as_strided(shape, strides)
