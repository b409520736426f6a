"""The caller's tensors against a fusion's bindings: checks, extents, and the matrices TMA sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import UnsupportedError
from lowering.kernel.tensors import WIDEST_ACCESS
from lowering.target.ptx import TMA_STRIDE_ALIGN
from wsched.fusion import DataType, Fusion, TensorBinding
from wsched.fusion.names import blocks_of
from wsched.importer.input_error import (
    InputError,
    no_tensor,
    require_64_bits,
    require_array,
    require_memory,
    several_devices,
    wrong_number,
    wrong_rank,
    wrong_size,
    wrong_type,
)
from wsched.run.beside import beside
from wsched.run.copies import thread_bytes, tma_reads
from wsched.run.counts import require_extents
from wsched.run.words import sizes_of
from wsched.schedule.entries import with_sums
from wsched.schedule.matmul.epilogue_inputs import matrix_inputs

if TYPE_CHECKING:
    import torch

__all__ = [
    "ONE", "Arguments", "apart", "bind", "columns_at_once", "extents_of", "in_memory",
    "input_matrix", "loaded_inputs", "rows_by_columns", "scale_matrix", "torch_dtype",
]  # fmt: skip

ONE = (
    "supported_vec_size=SupportedVectorization(epilogue=1), or configure(vector=1) of a schedule "
    "written call by call, makes a kernel that takes any"
)
"""What to do about tensors of which threads cannot access two elements at once."""

_NONE: Mapping[str, int] = MappingProxyType({})

_BETWEEN = ("row to row", "matrix to matrix", "batch to batch")
"""What the strides of a tensor lead from and to, behind that of its columns."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """Everything a launch needs to know about the tensors.

    Args:
        extents: value of each symbolic extent (``M``, ``N``, ``K``).
        matrices: each input as a 2-D tensor, by its binding's key: operands as their tensor map
            describes them, contiguous dimension last; the epilogue's as rows by columns of the
            result, 1 where it repeats them.
        device: where they are.
    """

    extents: dict[str, int]
    matrices: dict[str, torch.Tensor]
    device: torch.device


def torch_dtype(dtype: DataType) -> torch.dtype:
    """The torch type of a fusion type."""
    import torch

    found: torch.dtype = getattr(torch, dtype.torch)
    return found


def bind(
    fusion: Fusion, inputs: Sequence[Any], vector: int = 2, by_threads: Mapping[str, int] = _NONE
) -> Arguments:
    """Match tensors to the fusion's inputs.

    Args:
        fusion: scheduled.
        inputs: the caller's, in the order of the definition.
        vector: columns that threads access at once where they read or write global memory.
        by_threads: of the operands that threads load, by name, the bytes that one copies at once.

    Raises:
        InputError: number, rank, type, sizes or devices do not fit.
        UnsupportedError: a layout that TMA cannot address, a size that no coordinate reaches, or a
            device that is neither the CPU (the machine model) nor a GPU.
    """
    extents = extents_of(fusion, inputs)
    matrices: dict[str, torch.Tensor] = {}
    loaded = loaded_inputs(fusion)
    for position, (binding, tensor) in enumerate(zip(fusion.inputs, inputs, strict=True)):
        if not binding.axes and isinstance(tensor, (int, float)):
            continue
        wanted = torch_dtype(binding.dtype)
        if tensor.dtype != wanted:
            raise wrong_type(f"input {position}", tensor.dtype, wanted)
        matrices[binding.key] = input_matrix(fusion, loaded, vector, position, tensor, by_threads)
    device = device_of(inputs)
    for binding, value in zip(fusion.inputs, inputs, strict=True):
        if binding.key not in matrices:
            matrices[binding.key] = _scalar(value, (1,) * len(fusion.result_axes), device)
    return Arguments(extents, matrices, device)


def input_matrix(
    fusion: Fusion, loaded: frozenset[str], vector: int, position: int, tensor: torch.Tensor,
    by_threads: Mapping[str, int] = _NONE,
) -> torch.Tensor:  # fmt: skip
    """A tensor as the kernel reads it: a view, or a copy where it cannot be read as it lies.

    Args:
        fusion: scheduled.
        loaded: its :func:`loaded_inputs`.
        vector: columns that threads access at once.
        position: of the tensor among the inputs.
        tensor: of the input's type and rank.
        by_threads: of the operands that threads load, by name, the bytes that one copies at once.

    Raises:
        UnsupportedError: as :func:`matrix` and :func:`epilogue_matrix`.
    """
    from torch import contiguous_format

    binding, what = fusion.inputs[position], f"input {position}"
    if binding.tensor in by_threads:
        align = by_threads[binding.tensor]
        return matrix(fusion, binding, tensor, what, align=align, rows=False)
    if binding.tensor in fusion.operands:
        return matrix(fusion, binding, tensor, what)
    if binding.tensor in fusion.beside:
        return beside(fusion, binding, tensor)
    if binding.tensor in fusion.scales:
        return scale_matrix(fusion, binding, tensor)
    if binding.tensor not in loaded:
        return epilogue_matrix(fusion, binding, tensor, what, vector)
    if not _rows_by_tma(fusion, tensor):
        # ``wsched.compile`` chose this kernel for other inputs, or was told to use TMA.
        view = _as_result(fusion, tensor)
        tensor = _as_result(fusion, view.clone(memory_format=contiguous_format))
    return matrix(fusion, binding, tensor, what)


def tma_inputs(fusion: Fusion, inputs: Sequence[Any]) -> tuple[DataType, ...] | None:
    """Types of the epilogue's matrices; None if TMA cannot address all of them as they are."""
    names = matrix_inputs(fusion)
    read = [x for b, x in zip(fusion.inputs, inputs, strict=True) if b.tensor in names]
    if not all(_rows_by_tma(fusion, x) for x in read):
        return None
    return tuple(fusion.tensor(name).dtype for name in names)


def _as_result(fusion: Fusion, tensor: torch.Tensor) -> torch.Tensor:
    """An [M, N] tensor with the product's order of dimensions, or back: it may be [N, M]."""
    *_, by_row, by_col = fusion.result_axes
    return tensor.mT if by_row > by_col else tensor


def _rows_by_tma(fusion: Fusion, tensor: torch.Tensor) -> bool:
    """Whether TMA can read a matrix of the result's size by the rows of the product."""
    view = _as_result(fusion, tensor)
    return tma_reads(view, view.dim() - 1)


def loaded_inputs(fusion: Fusion) -> frozenset[str]:
    """Names of the inputs that the load warpgroup of a scheduled fusion loads."""
    return frozenset(source.name for t in fusion.loads for source in fusion.producers(t.name))


def device_of(inputs: Sequence[Any]) -> torch.device:
    """The one device of all tensors.

    Raises:
        InputError: there are several, or no tensors.
        UnsupportedError: it is neither the CPU nor a GPU.
    """
    tensors = [t for t in inputs if not isinstance(t, (int, float))]
    devices = {t.device for t in tensors}
    if len(devices) > 1:
        raise several_devices(map(str, devices))
    require_memory(tensors)
    found: torch.device = devices.pop()
    return found


def _scalar(value: float, shape: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """A run-time scalar as the kernel reads it: one fp32 element in global memory."""
    import torch

    return torch.full(shape, value, dtype=torch.float32, device=device)


def epilogue_matrix(
    fusion: Fusion, binding: TensorBinding, tensor: torch.Tensor, what: str, vector: int = 2
) -> torch.Tensor:
    """An input of the epilogue as rows by columns, of which it has 1 where it is repeated.

    Threads read ``vector`` columns at once. One that cannot be read so (columns that are not next
    to each other; for pairs an odd row stride or base) is copied.

    Raises:
        UnsupportedError: an odd number of columns, to be read by pairs.
    """
    from torch import contiguous_format

    tensor = rows_by_columns(fusion, binding, tensor)
    if fusion.result_axes[-1] not in binding.axes or columns_at_once(tensor) >= vector:
        return tensor
    if vector > 1 and tensor.shape[-1] % vector:
        columns = tensor.shape[-1]
        raise UnsupportedError(f"{what} with {columns} columns", "an even number of columns", ONE)
    return tensor.clone(memory_format=contiguous_format)


def reads_pairs(fusion: Fusion, inputs: Sequence[Any], loaded: bool) -> bool:
    """Whether threads can read two columns at once of all that they read as it lies.

    ``loaded`` says whether TMA loads the matrices. A tensor that has to be copied anyhow counts by
    the length of its rows.
    """
    by_tma = matrix_inputs(fusion) if loaded else ()
    onto = {a.onto for a in fusion.added.values()}
    for binding, tensor in zip(fusion.inputs, inputs, strict=True):
        if binding.tensor in onto and (
            columns_at_once(tensor) < 2 or thread_bytes(tensor) < WIDEST_ACCESS
        ):
            return False
        inside = binding.tensor in fusion.inside
        if inside or fusion.result_axes[-1] not in binding.axes:
            continue
        if binding.tensor not in by_tma:
            view = rows_by_columns(fusion, binding, tensor)
            if view.shape[-1] % 2 or columns_at_once(view) == 1:
                return False
    return True


def apart(fusion: Fusion, inputs: Sequence[Any]) -> int:
    """How many inputs beside operands have columns apart, so that each call copies them."""
    count = 0
    for binding, tensor in zip(fusion.inputs, inputs, strict=True):
        inside = binding.tensor in fusion.inside
        columns = not inside and fusion.result_axes[-1] in binding.axes
        if columns and not columns_at_once(rows_by_columns(fusion, binding, tensor)):
            count += 1
    return count


def rows_by_columns(fusion: Fusion, binding: TensorBinding, tensor: torch.Tensor) -> torch.Tensor:
    """An input of the epilogue with the product's dimensions, of size 1 where it is repeated."""
    if tuple(binding.axes) == fusion.result_axes:
        return tensor
    one = tuple(0 if axis == "1" else slice(None) for axis in binding.axes)
    axes = [axis for axis in binding.axes if axis != "1"]
    wanted = fusion.result_axes
    tensor = tensor[one].permute([axes.index(axis) for axis in wanted if axis in axes])
    return tensor[tuple(slice(None) if axis in axes else None for axis in wanted)]


def columns_at_once(tensor: torch.Tensor) -> int:
    """Columns of matrices that can be accessed at once: 2, 1, or 0 if they are apart."""
    (*sizes, cols), (*strides, col) = tensor.shape, tensor.stride()
    pair = 2 * tensor.element_size()
    if col != 1 and cols > 1:
        return 0
    odd = any(n > 1 and step % 2 for n, step in zip(sizes, strides, strict=True))
    return 1 if cols % 2 or tensor.data_ptr() % pair or odd else 2


def extents_of(fusion: Fusion, inputs: Sequence[Any]) -> dict[str, int]:
    """The extents that the inputs' shapes give to the fusion's symbols.

    Raises:
        InputError: something else than tensors, number or rank is wrong, or sizes contradict each
            other or the definition.
        UnsupportedError: a size that no coordinate reaches.
    """
    import torch

    if len(inputs) != len(fusion.inputs):
        raise wrong_number(len(inputs), len(fusion.inputs))
    extents: dict[str, int] = {}
    origin: dict[str, str] = {}
    for position, (binding, tensor) in enumerate(zip(fusion.inputs, inputs, strict=True)):
        if not binding.axes and isinstance(tensor, (int, float)):
            require_64_bits(f"input {position}", tensor)
            continue
        if not isinstance(tensor, torch.Tensor):
            raise no_tensor(f"input {position}", tensor)
        require_array(f"input {position}", tensor)
        if len(tensor.shape) != len(binding.axes):
            raise wrong_rank(f"input {position}", tuple(tensor.shape), len(binding.axes))
        sizes = sizes_of(binding.dtype, tensor)
        for axis, (name, size) in enumerate(zip(binding.extents, sizes, strict=True)):
            fixed = binding.sizes[axis]
            here = f"dimension {axis} of input {position}"
            if fixed is not None and fixed != size:
                raise wrong_size(f"input {position}", axis, size, fixed)
            if name == "1":
                continue
            if extents.setdefault(name, size) != size:
                raise InputError(
                    f"{name} is {extents[name]} in {origin[name]} and {size} in {here}",
                    f"input {position}", f"{name} {size}", f"{name} {extents[name]}",
                )  # fmt: skip
            origin.setdefault(name, here)
    found = with_sums(fusion, extents) if fusion.lists else extents
    require_extents(found)
    require_blocks(found)
    return found


def require_blocks(extents: Mapping[str, int]) -> None:
    """Refuse tensors that have another number of blocks than the axis that they count.

    Raises:
        InputError: so it is.
    """
    for name, size in extents.items():
        axis, rows = blocks_of(name) or ("", 1)
        if axis and size != (wanted := -(-extents[axis] // rows)):
            text = f"{size} blocks of {rows} along {axis}, which is {extents[axis]}: {wanted}"
            raise InputError(text, name, str(size), str(wanted))


def scale_matrix(fusion: Fusion, binding: TensorBinding, tensor: torch.Tensor) -> torch.Tensor:
    """Scales of blocks as the kernel reads them, copied where they lie otherwise."""
    from torch import contiguous_format

    order = fusion.order(binding)
    if order != binding.axes:
        tensor = tensor.permute([binding.axes.index(name) for name in order])
    plain = tensor.stride(-1) == 1 or tensor.shape[-1] == 1
    return tensor if plain else tensor.clone(memory_format=contiguous_format)


def matrix(
    fusion: Fusion, binding: TensorBinding, tensor: torch.Tensor, what: str, instead: str = "",
    align: int = TMA_STRIDE_ALIGN, rows: bool = True,
) -> torch.Tensor:  # fmt: skip
    """A view of ``tensor`` with dimensions in the fusion's order of memory, columns contiguous.

    The strides of an empty tensor mean nothing; it gets some that TMA takes. ``instead`` is what
    to do about a tensor that is not aligned. ``align`` are the bytes of which its rows and its base
    have to be multiples; without ``rows`` threads load it, which may have
    all rows at one place, and of which they have to be multiples of that long, too.

    Raises:
        UnsupportedError: its columns are not contiguous, or its rows or base not aligned so.
    """
    order = in_memory(fusion, binding)
    if order != list(binding.axes):
        tensor = tensor.permute([binding.axes.index(name) for name in order])
    (*sizes, cols), (*strides, col) = tensor.shape, tensor.stride()
    if 0 in tensor.shape:
        row = -(-max(cols, 1) // 8) * 8
        return tensor.as_strided(tensor.shape, (*(row for _ in sizes), 1))
    if col != 1 and cols > 1:
        raise UnsupportedError(
            f"{what} with stride {col} along {order[-1]}",
            f"{order[-1]} contiguous (stride 1)",
            "A kernel is for one order of memory: compile one for these inputs"
            if binding in fusion.inputs
            else "",
        )
    if not rows and (length := cols * tensor.element_size()) % align:
        raise UnsupportedError(
            f"{what} with rows of {length} bytes, of which a thread copies {align} at once",
            f"rows of multiples of {align} bytes",
            instead,
        )
    for n, step, between in zip(sizes[::-1], strides[::-1], _BETWEEN, strict=False):
        apart = step * tensor.element_size()
        if n > 1 and (apart % align or (rows and not apart)):
            raise UnsupportedError(
                f"{what} with {apart} bytes from {between}",
                f"positive multiples of {align} bytes" if rows else f"multiples of {align} bytes",
                instead,
            )
    if past := tensor.data_ptr() % align:
        raise UnsupportedError(
            f"{what} that starts {past} bytes past a multiple of {align}",
            f"starts at multiples of {align} bytes",
            instead,
        )
    return tensor


def in_memory(fusion: Fusion, binding: TensorBinding) -> list[str]:
    """The caller's axes in the order of memory, contiguous one last."""
    return list(fusion.order(binding))
