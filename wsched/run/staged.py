"""Inputs that a kernel cannot read where they are: made anew by each call, packed once.

A number is read from an element in global memory, a matrix whose columns are apart from a copy. The
memory that torch gives for these is the same in most calls, so the launches that are kept by
addresses (:class:`~wsched.run.host.HostPlan`) serve them, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lowering.ground.streams import stream_functions
from wsched.fusion import Fusion
from wsched.run.arguments import Arguments, input_matrix, loaded_inputs, rows_by_columns
from wsched.run.host import HostPlan

if TYPE_CHECKING:
    import torch

__all__ = ["Make", "Number", "StagedPlan", "makes_of", "staged", "staged_packer"]

Make = Callable[[Any], "torch.Tensor"]
"""What a kernel reads in place of an input."""

_KEPT = 64
"""Numbers whose elements are kept, of 512 bytes each in torch's memory."""


class Number:
    """The element that a kernel reads a number from.

    It is filled by the stream of the call and never written again, so it is kept for calls on that
    stream with the same number. One that is filled while a graph is captured belongs to the graph.

    Args:
        shape: of the element, all ones.
        dtype: its type.
        device: of the call.
    """

    __slots__ = ("_device", "_dtype", "_kept", "_shape")

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> None:
        self._shape, self._dtype, self._device = shape, dtype, device
        self._kept: dict[tuple[object, int], torch.Tensor] = {}

    def __call__(self, value: float) -> torch.Tensor:
        """The element with this number, for a launch on torch's current stream."""
        stream = self._stream()
        if stream is None:
            return self._filled(value)
        key = value or repr(value), stream  # -0.0 equals 0.0
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            found = self._kept[key] = self._filled(value)
        return found

    def _filled(self, value: float) -> torch.Tensor:
        import torch

        return torch.full(self._shape, value, dtype=self._dtype, device=self._device)

    def _stream(self) -> int | None:
        """The stream of the call; None where nothing may be kept for it."""
        import torch

        if self._device.type != "cuda":
            return 0
        device, raw = stream_functions(torch)
        if device() != self._device.index or torch.cuda.is_current_stream_capturing():
            return None
        return raw(device())


def makes_of(
    fusion: Fusion, arguments: Arguments, inputs: Sequence[Any], vector: int
) -> dict[int, Make]:
    """What calls on inputs like these have to make, by positions among the inputs.

    Args:
        fusion: scheduled.
        arguments: of a call on the inputs.
        inputs: the caller's.
        vector: columns that threads access at once.
    """
    loaded = loaded_inputs(fusion)
    theirs = {t.untyped_storage().data_ptr() for t in inputs if hasattr(t, "untyped_storage")}
    found = dict[int, Make]()
    for at, (binding, value) in enumerate(zip(fusion.inputs, inputs, strict=True)):
        read = arguments.matrices[binding.key]
        if not hasattr(value, "untyped_storage"):
            found[at] = Number(tuple(read.shape), read.dtype, arguments.device)
        elif read.untyped_storage().data_ptr() not in theirs:
            found[at] = (
                partial(input_matrix, fusion, loaded, vector, at)
                if binding.tensor in {*loaded, *fusion.scales, *fusion.beside}
                else _copying(value, rows_by_columns(fusion, binding, value))
            )
    return found


def _copying(tensor: torch.Tensor, view: torch.Tensor) -> Make:
    """Copies tensors that lie as this one does, as they are seen in ``view``."""
    from torch import contiguous_format

    shape, strides = view.shape, view.stride()
    first = view.storage_offset() - tensor.storage_offset()

    def copy(other: torch.Tensor) -> torch.Tensor:
        seen = other.as_strided(shape, strides, first + other.storage_offset())
        return seen.clone(memory_format=contiguous_format)

    return copy


Pack = Callable[[Arguments, Sequence["torch.Tensor"]], Callable[[], None]]
"""Packs a launch for arguments, which it adds the results to."""


def staged_packer(
    fusion: Fusion,
    arguments: Arguments,
    makes: Mapping[int, Make],
    vector: int,
    pack: Pack,
    by_threads: Mapping[str, int],
) -> Callable[[Sequence[Any], Sequence[torch.Tensor]], Callable[[], None]]:
    """Packs launches for inputs as :func:`staged` leaves them, of one class; ``by_threads`` as
    :func:`~wsched.run.arguments.bind` takes it.
    """
    loaded = loaded_inputs(fusion)
    extents, device = arguments.extents, arguments.device

    def packed(read: Sequence[Any], outputs: Sequence[torch.Tensor]) -> Callable[[], None]:
        matrices = {
            b.key: t if at in makes else input_matrix(fusion, loaded, vector, at, t, by_threads)
            for at, (b, t) in enumerate(zip(fusion.inputs, read, strict=True))
        }
        return pack(Arguments(extents, matrices, device), outputs)

    return packed


def staged(inputs: Sequence[Any], makes: Mapping[int, Make]) -> list[Any]:
    """Inputs as a kernel reads them.

    Args:
        inputs: the caller's.
        makes: for the positions of those that it cannot read, what it reads in their place.
    """
    values = list(inputs)
    for at, make in makes.items():
        values[at] = make(values[at])
    return values


class StagedPlan:
    """Calls of one kernel on CUDA inputs of one class, of which it cannot read all.

    Args:
        plan: for the inputs as the kernel reads them.
        makes: what each call makes anew, by positions among the inputs.
    """

    __slots__ = ("_makes", "_plan")

    def __init__(self, plan: HostPlan, makes: Mapping[int, Make]) -> None:
        self._plan, self._makes = plan, makes

    def __call__(self, inputs: Sequence[Any]) -> list[torch.Tensor]:
        """Make what has to be made, allocate the outputs and launch."""
        return self._plan(staged(inputs, self._makes))

    def into(self, inputs: Sequence[Any], outputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """The same with results that are there, which are returned."""
        return self._plan.into(staged(inputs, self._makes), outputs)
