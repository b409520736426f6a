"""Definitions that wsched writes for functions of tensors, and the kernels that run them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wsched.front.kernels import compile
from wsched.fusion import DataType
from wsched.program.classes import Key, class_key
from wsched.run.compiled import CompiledFusion

if TYPE_CHECKING:
    import torch

__all__ = [
    "FLOATS", "INTEGERS", "PACKED", "RESULTS", "Call", "definition", "run", "run_all", "run_class",
    "tensor_line", "torch_names", "type_of_torch",
]  # fmt: skip

Call = tuple[str, list["torch.Tensor"]]
"""A definition and its inputs, for ``wsched.compile`` and ``wsched.explain``."""

FLOATS = (DataType.Float8_e4m3fn, DataType.Float8_e5m2)
INTEGERS = (DataType.Int8, DataType.UInt8)
PACKED = (DataType.UInt4,)
RESULTS = (DataType.BFloat16, DataType.Half, DataType.Float)

_CLASSES = 1024
"""Classes of inputs for which the kernel is remembered."""

_kernels: dict[tuple[str, Key], CompiledFusion] = {}


def run(text: str, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """The one result of a definition, by its own kernel."""
    return run_class(text, inputs, class_key(inputs))


def run_all(text: str, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """All results of a definition."""
    return tuple(_results(text, inputs, class_key(inputs)))


def run_class(text: str, inputs: Sequence[torch.Tensor], key: Key | None) -> torch.Tensor:
    """The one result for a caller that knows the :func:`~wsched.program.classes.class_key`."""
    return _results(text, inputs, key)[0]


def _results(text: str, inputs: Sequence[torch.Tensor], key: Key | None) -> Sequence[torch.Tensor]:
    kernel = _kernels.get((text, key)) if key is not None else None
    if kernel is None:
        kernel = compile(text, inputs)
        if key is not None:
            if len(_kernels) >= _CLASSES:
                _kernels.clear()
            _kernels[text, key] = kernel
    return kernel.call(inputs, key)


def definition(*lines: str, outputs: Sequence[str] = ("d",)) -> str:
    """The text of a definition of these lines, whose outputs have these names."""
    head = "def nvfuser_fusion(fd : FusionDefinition) -> None :"
    more = (f"fd.add_output({name})" for name in outputs)
    return "".join(f"{line}\n" for line in (head, *(f"    {x}" for x in (*lines, *more))))


def tensor_line(name: str, shape: tuple[int, ...], dtype: DataType, more: str = "") -> str:
    """The line that defines an input; ``more`` are further arguments, with a comma in front."""
    contiguity = [None if n == 1 else True for n in shape]
    return (
        f"{name} = fd.define_tensor(shape={list(shape)}, contiguity={contiguity}, "
        f"dtype={dtype!r}{more})"
    )


def type_of_torch(dtype: torch.dtype) -> DataType:
    """The type of such tensors in a definition; ``Bool``, which no door takes, for all others."""
    return _BY_NAME.get(str(dtype).removeprefix("torch."), DataType.Bool)


_BY_NAME = {d.element.torch: d for d in (*FLOATS, *INTEGERS, *PACKED, *RESULTS)}


def torch_names(types: Sequence[DataType]) -> str:
    """Names of types of torch, in words."""
    return ", ".join(d.element.torch for d in types)
