"""Random inputs without torch, and NumPy arrays as the machine takes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowering.ground.errors import UnsupportedError
from wsched.front.sizes import Extents
from wsched.fusion import DataType, Fusion, TensorBinding
from wsched.fusion.names import ROWS, TOKENS
from wsched.run.finish import parts_shape, with_parts
from wsched.run.on_device import OnDevice
from wsched.run.words import in_words, sizes_of
from wsched.schedule.entries import with_sums

__all__ = [
    "MachineArrays", "drawn_inputs", "drawn_values", "extents_of_arrays", "machine_arrays",
    "of_product", "plain", "rounded",
]  # fmt: skip


def drawn_inputs(fusion: Fusion, extents: Extents, seed: int) -> list[Any]:
    """NumPy arrays in the order of the definition, in memory as it says: :func:`drawn_values`."""
    found = []
    for binding, values, axes in drawn_values(fusion, extents, seed):
        held = values if binding.dtype.element.packed > 1 else rounded(values, binding.dtype)
        found.append(held.transpose(axes))
    return found


def drawn_values(
    fusion: Fusion, extents: Extents, seed: int
) -> Iterator[tuple[TensorBinding, Any, list[int]]]:
    """Of each input its values in fp32, in the order of memory, and how to permute them; of
    integers of 4 bits their words, of groups the ends of some that share all out.

    Raises:
        UnsupportedError: rows that end within a word.
    """
    generator, sizes = np.random.default_rng(seed), extents.named(fusion)
    groups = fusion.groups
    for binding in fusion.inputs:
        order = _stored(fusion, binding)
        own = dict(zip(binding.axes, binding.extents, strict=True))
        if groups is not None and binding.key == groups.ends:
            values = _ends(generator, sizes[groups.axis], sizes[groups.along])
        elif binding.tensor in {a.rows for a in fusion.added.values()}:
            shape = [sizes[own[a]] for a in order]
            values = generator.integers(0, sizes[TOKENS], shape).astype(np.float32)
        else:
            values = _drawn(generator, [sizes[own[a]] for a in order], binding.dtype)
        yield binding, values, [order.index(a) for a in binding.axes]


def _ends(generator: np.random.Generator, groups: int, whole: int) -> Any:
    """Where groups end that share ``whole`` rows out: any number is as likely to be an end."""
    ends = np.sort(generator.integers(0, whole + 1, groups))
    ends[-1:] = whole
    return ends.astype(np.float32)


def _drawn(generator: np.random.Generator, shape: list[int], dtype: DataType) -> Any:
    """Values of a normal distribution in fp32; of integers all that the type has."""
    element = dtype.element
    if element.packed > 1:
        return in_words(generator.integers(0, 1 << element.bits, shape, np.uint8))
    try:
        info = np.iinfo(element.numpy)
    except (TypeError, ValueError):  # floats, which NumPy may not know
        return generator.standard_normal(shape, dtype=np.float32)
    return generator.integers(info.min, info.max + 1, shape).astype(np.float32)


@dataclass(frozen=True, slots=True)
class MachineArrays:
    """What the machine is given of a call.

    Args:
        arrays: inputs and results by the names that the kernel has for them.
        extents: a value for each of its parameters.
        results: those to be written, in the order of the definition, NaN for now.
    """

    arrays: dict[str, Any]
    extents: dict[str, int]
    results: list[Any]


def machine_arrays(kernel: OnDevice, inputs: list[Any]) -> MachineArrays:
    """What ``run_arrays`` is given of a call with NumPy arrays."""
    fusion, groups = kernel.fusion, kernel.fusion.groups
    arrays: dict[str, Any] = {}
    numbers = {a.rows for a in fusion.added.values()}
    if groups is not None:
        arrays[groups.wrong] = np.zeros(1, np.int32)
    for binding, x in zip(fusion.inputs, inputs, strict=True):
        sizes = dict(zip(binding.axes, x.shape, strict=True))
        order = _stored(fusion, binding)
        arrays[binding.key] = x.transpose([binding.axes.index(a) for a in order])
        if binding.tensor in numbers:
            rows = [sizes[a] if a == ROWS else 1 for a in fusion.result_axes]
            arrays[binding.key] = x.astype(np.int32).reshape(rows)
        elif binding.tensor not in fusion.inside:
            x = x.reshape(plain(binding.axes, x.shape))
            x = x.transpose(of_product(fusion, binding.axes))
            hidden = _not_seen(kernel, binding)
            seen = (a for a in fusion.result_axes if a != hidden)
            arrays[binding.key] = x.reshape([sizes.get(a, 1) for a in seen])
    extents = with_sums(fusion, extents_of_arrays(fusion, inputs))
    results = []
    for b in with_parts(kernel.plan).fusion.outputs:
        stored = parts_shape(fusion, b, extents)
        if b.added is None:
            results.append(rounded(np.full(stored, np.nan, np.float32), b.dtype))
        else:
            results.append(np.array(arrays.pop(b.added.onto)))
        arrays[b.key] = results[-1]
        if groups is not None and fusion.ragged(b.tensor) and _not_seen(kernel, b) is None:
            of = [str(d.extent) for d in fusion.tensor(b.tensor).in_memory]
            arrays[b.key] = np.expand_dims(results[-1], of.index(groups.axis))
    return MachineArrays(arrays, extents, results)


def _not_seen(kernel: OnDevice, binding: TensorBinding) -> str | None:
    """The dimension that counts groups, of a tensor that has all of them in another one and that
    TMA reads or writes: threads see such a tensor as the only one of a batch.
    """
    groups, by_tma = kernel.fusion.groups, {t.name for t in kernel.kernel.tensor_maps}
    if groups is None or binding.key not in by_tma or not kernel.fusion.ragged(binding.tensor):
        return None
    return groups.axis


def extents_of_arrays(fusion: Fusion, inputs: list[Any]) -> dict[str, int]:
    """Sizes by name."""
    tensors = ((b, x) for b, x in zip(fusion.inputs, inputs, strict=True) if b.axes)
    named = (zip(b.extents, sizes_of(b.dtype, x), strict=True) for b, x in tensors)
    return {name: size for found in named for name, size in found}


def of_product(fusion: Fusion, names: tuple[str, ...]) -> list[int]:
    """The dimensions that a tensor has beside those of size 1, in the order of the product's."""
    axes = [axis for axis in names if axis != "1"]
    return [axes.index(axis) for axis in fusion.result_axes if axis in axes]


def plain(axes: tuple[str, ...], shape: tuple[int, ...]) -> list[int]:
    """A shape without the dimensions that the definition says are 1."""
    return [n for axis, n in zip(axes, shape, strict=True) if axis != "1"]


def _stored(fusion: Fusion, binding: TensorBinding) -> list[str]:
    """Axes of a tensor in the order of memory, innermost last."""
    if binding.tensor not in fusion.inside:
        return list(binding.axes)
    stored = (str(d.extent) for d in fusion.tensor(binding.tensor).in_memory)
    return [axis for axis in stored if axis in binding.axes]  # of groups without the batch


def rounded(values: Any, dtype: DataType) -> Any:
    """``values`` in the NumPy type of ``dtype``, for some that of ml_dtypes."""
    if hasattr(np, dtype.element.numpy):
        return values.astype(dtype.element.numpy)
    try:
        import ml_dtypes
    except ImportError as e:
        raise UnsupportedError(
            f"{dtype.element.numpy} without torch and ml_dtypes",
            "either of them",
            "Install ml_dtypes",
        ) from e
    return values.astype(getattr(ml_dtypes, dtype.element.numpy))
