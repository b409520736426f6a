"""The caller's inputs against a recorded definition, whatever its operations are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wsched.fusion import DataType
from wsched.importer.definition import Definition, Node
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
from wsched.importer.ranks import places
from wsched.program.versions import taken
from wsched.run.arguments import torch_dtype

__all__ = ["check_inputs", "written_into"]


def check_inputs(definition: Definition, inputs: Sequence[Any], *, runs: bool = True) -> None:
    """Check number, kinds, types, ranks, fixed sizes and devices.

    Sizes that only operations tie together are left to who runs them.

    Args:
        definition: what they are for.
        inputs: the caller's.
        runs: whether anything runs; what is only explained may have tensors without memory.

    Raises:
        InputError: an input does not fit.
        UnsupportedError: tensors that are neither on the CPU nor on a GPU.
    """
    import torch

    wanted = definition.inputs
    if len(inputs) != len(wanted):
        raise wrong_number(len(inputs), len(wanted))
    for position, (node, value) in enumerate(zip(wanted, inputs, strict=True)):
        if node.op == "define_tensor":
            _check_tensor(node, value, f"input {position}")
        elif not isinstance(value, bool | int | float):
            argument, kind = f"input {position}", type(value).__name__
            raise InputError(f"{argument} is a {kind}, not a number", argument, kind, "a number")
        else:
            require_64_bits(f"input {position}", value)
    _check_squeezed(definition, inputs)
    tensors = [
        t
        for n, t in zip(wanted, inputs, strict=True)
        if isinstance(t, torch.Tensor) and not n.get("is_cpu", False)
    ]
    devices = sorted({str(t.device) for t in tensors})
    if len(devices) > 1:
        raise several_devices(devices)
    if runs:
        require_memory(tensors)


def written_into(definition: Definition, inputs: Sequence[Any]) -> list[Any]:
    """Those of a call's inputs that the definition writes into.

    Raises:
        InputError: one of them requires gradients, and torch records.
    """
    if not definition.into:
        return []
    names = [n.results[0] for n in definition.inputs]
    places = sorted({names.index(into) for into in definition.into.values()})
    return taken(places, inputs)


def _check_squeezed(definition: Definition, inputs: Sequence[Any]) -> None:
    """Of inputs no dimension is squeezed that has elements of its own. What is computed has been
    expanded somewhere, which nvFuser sees to.

    Raises:
        InputError: one of them is.
    """
    given = dict(zip((n.results[0] for n in definition.inputs), inputs, strict=True))
    for node in definition.nodes:
        dims = node.get("dims")
        if node.op != "squeeze" or not node.refs or not isinstance(dims, tuple):
            continue
        source: Any = given.get(node.refs[0])
        shape = tuple(getattr(source, "shape", ()))
        for d in dims:
            for at in places((d,), len(shape)):  # what is none is refused where it is read
                if shape[at] != 1 and source.stride(at) != 0:
                    where, found = f"line {node.line}: fd.ops.squeeze", str([list(shape)])
                    what = f"dimension {d} of extent {shape[at]} is squeezed"
                    raise InputError(f"{where} of {found}: {what}", where, found)


def _check_tensor(node: Node, value: Any, what: str) -> None:
    import torch

    if not isinstance(value, torch.Tensor):
        raise no_tensor(what, value)
    require_array(what, value)
    dtype, shape = node.get("dtype", DataType.Float), node.get("shape")
    if isinstance(dtype, DataType) and value.dtype is not torch_dtype(dtype):
        raise wrong_type(what, value.dtype, torch_dtype(dtype))
    if not isinstance(shape, tuple):
        return
    if value.dim() != len(shape):
        raise wrong_rank(what, value.shape, len(shape))
    for axis, (fixed, size) in enumerate(zip(shape, value.shape, strict=True)):
        if isinstance(fixed, int) and fixed >= 0 and fixed != size:
            raise wrong_size(what, axis, size, fixed)
