"""A recorded definition executed by torch, one operation after the other."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import UnsupportedError
from wsched.doors.fallback.inputs import written_into
from wsched.doors.fallback.torch_ops import PROMOTED, operations
from wsched.doors.fallback.torch_settings import as_written, without_modes
from wsched.fusion import DataType
from wsched.importer import first_unknown
from wsched.importer.definition import Definition, Node, Ref, Value
from wsched.importer.input_error import InputError
from wsched.run.arguments import torch_dtype

if TYPE_CHECKING:
    import torch

__all__ = ["evaluated", "interpret", "unknown_ops"]


def unknown_ops(definition: Definition) -> tuple[str, ...]:
    """Operations that cannot be interpreted, in the order of the definition; of types that torch
    has not with the type.
    """
    known = {"define_tensor", "define_scalar", *operations()}
    found = dict[str, None]()
    for node in definition.nodes:
        types = [v for v in node.values if isinstance(v, DataType) and not v.is_in_torch]
        if node.op not in known:
            found[node.op] = None
        elif types and not node.is_input:
            found[f"{node.op} with {types[0]}"] = None
    return tuple(found)


def interpret(
    definition: Definition, inputs: Sequence[Any], device: torch.device | None = None
) -> list[torch.Tensor]:
    """The results of a definition, on the device of its inputs.

    Args:
        definition: what to compute; see ``unknown_ops``.
        inputs: tensors and numbers that ``check_inputs`` has accepted.
        device: where the results are if no input is on a device.

    Raises:
        UnsupportedError: an operation that is not in the table.
        InputError: torch refuses an operation on these inputs, or what is written in place
            requires gradients.
    """
    import torch

    written_into(definition, inputs)
    tensors = [t for t in inputs if isinstance(t, torch.Tensor)]
    made = [_fresh(value, tensors) for value in evaluated(definition, inputs, device=device)]
    results = dict(zip(definition.outputs, made, strict=True))
    given = dict(zip((n.results[0] for n in definition.inputs), inputs, strict=True))
    for w in definition.written:
        made, target = results[w.output], given[w.into]
        if (made.dtype, made.shape) != (target.dtype, target.shape):
            kinds = [f"{t.dtype} {list(t.shape)}" for t in (made, target)]
            what = f"line {w.line}: {w.output} of {kinds[0]}, written into {w.into} of {kinds[1]},"
            raise UnsupportedError(what, "outputs of the input's type and shape")
    for name, into in definition.into.items():
        results[name] = given[into].copy_(results[name])
    return [results[name] for name in definition.returned]


def evaluated(
    definition: Definition,
    inputs: Sequence[Any],
    *,
    gradients: bool = False,
    device: torch.device | None = None,
) -> list[torch.Tensor]:
    """All outputs, which may be inputs or views of them; of torch's fake tensors also. Nothing is
    written into inputs.

    With ``gradients`` torch records what it takes to differentiate them; ``device`` is where what
    is made of nothing lies if no input is on a device.
    """
    import torch

    if unknown := unknown_ops(definition):
        raise first_unknown(definition) or UnsupportedError(
            f"fd.ops.{unknown[0]} without nvFuser", "operations that torch has as well"
        )
    devices = [t.device for t in inputs if isinstance(t, torch.Tensor)]
    there = next((d for d in devices if d.type != "cpu"), device or next(iter(devices), None))
    values: dict[str, Any] = {}
    arguments = iter(inputs)
    with torch.set_grad_enabled(gradients), as_written():
        for node in definition.nodes:
            constant = node.op == "define_scalar" and node.operands[:1] not in ((), (None,))
            if constant:
                values[node.results[0]] = _value(node.operands[0], values)
            elif node.op in ("define_tensor", "define_scalar"):
                values[node.results[0]] = next(arguments)
            else:
                results = _call(node, values, there)
                values |= dict(zip(node.results, results, strict=True))
        return [_tensor(values[name]) for name in definition.outputs]


def _call(node: Node, values: dict[str, Any], device: torch.device | None) -> tuple[Any, ...]:
    """Results of one operation."""
    import torch

    function = operations()[node.op]
    operands = [_value(v, values) for v in node.operands]
    kwargs = {k: _value(v, values) for k, v in node.kwargs}
    if node.op in PROMOTED:
        operands = [_widened(v) for v in operands]
    plain = node.op in ("cast", "iota")
    of_numbers = bool(operands) and not plain and all(map(_is_number, operands))
    where: AbstractContextManager[Any] = nullcontext()
    if of_numbers:
        where = without_modes()
    elif device and node.op in ("full", "iota"):
        where = device  # a graph has no copies from the host
    try:
        with where:
            if of_numbers:  # torch's own functions want a tensor
                operands = list(map(_of_number, operands))
            result = function(*operands, **kwargs)
            if of_numbers and isinstance(result, torch.Tensor) and result.dim() == 0:
                return (result.item(),)
    except (RuntimeError, TypeError, IndexError, ValueError) as e:
        if isinstance(e, torch.OutOfMemoryError):
            raise
        shapes = [list(v.shape) for v in operands if isinstance(v, torch.Tensor)]
        text = (str(e) or type(e).__name__).splitlines()[0]
        told = f"line {node.line}: fd.ops.{node.op}"
        raise InputError(f"{told} of {shapes}: {text}", told, str(shapes)) from e
    several = isinstance(result, tuple) and len(node.results) > 1
    return tuple(result) if several else (result,)


_NUMBERS: dict[type, Any] = {
    bool: lambda torch: torch.bool,
    int: lambda torch: torch.int64,
    float: lambda torch: torch.float64,
}


def _is_number(value: Any) -> bool:
    import torch

    return type(value) in _NUMBERS or isinstance(value, torch.SymInt)


def _of_number(value: Any) -> torch.Tensor:
    """A number as torch's functions want it, on the host wherever torch makes tensors by default.

    One that varies while torch traces is this one from here on.
    """
    import torch

    value = int(value) if isinstance(value, torch.SymInt) else value
    return torch.tensor(value, dtype=_NUMBERS[type(value)](torch), device="cpu")


def _value(value: Value, values: dict[str, Any]) -> Any:
    """What a recorded argument stands for."""
    if isinstance(value, Ref):
        return values[value.name]
    if isinstance(value, DataType):
        return torch_dtype(value)
    if isinstance(value, tuple):
        return [_value(v, values) for v in value]
    return value


def _widened(value: Any) -> Any:
    """A 16-bit float as fp32."""
    import torch

    half = isinstance(value, torch.Tensor) and value.dtype in (torch.bfloat16, torch.float16)
    return value.float() if half else value


def _tensor(value: Any) -> torch.Tensor:
    import torch

    return value if isinstance(value, torch.Tensor) else torch.tensor(value, device="cpu")


def _fresh(result: torch.Tensor, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """A result with memory of its own, so that writing to it does not change an input."""
    taken = {t.untyped_storage().data_ptr() for t in inputs}
    fresh = result.untyped_storage().data_ptr() not in taken
    return result if fresh and 0 not in result.stride() else result.clone()
