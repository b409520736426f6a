"""nvFuser itself: a live definition, or one made again from its text, which is never executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType
from wsched.importer.definition import Definition, Node, Ref, Value

if TYPE_CHECKING:
    import torch

__all__ = ["NvfuserError", "execute", "rebuild"]


class NvfuserError(UnsupportedError):
    """NvFuser ended a call with an error of its own."""


def execute(
    fd: Any,
    inputs: Sequence[Any],
    function: Callable[..., list[torch.Tensor]] | None = None,
    **options: Any,
) -> list[torch.Tensor]:
    """``fd.execute``, or ``function`` of the definition, its inputs and options in place of it.

    Raises:
        NvfuserError: nvFuser refuses the definition or the inputs.
    """
    import torch

    try:
        if function is None:
            return list(fd.execute(list(inputs), **options))
        return list(function(fd, list(inputs), **options))
    except (RuntimeError, NotImplementedError, TypeError) as e:
        # A fault of the device or of its memory says nothing about the definition.
        if isinstance(e, torch.OutOfMemoryError) or "CUDA error" in str(e):
            raise
        raise NvfuserError(
            f"this definition by nvFuser ({_first_line(e)})", "what nvFuser takes"
        ) from e


def rebuild(definition: Definition) -> Any:
    """A ``nvfuser_direct.FusionDefinition`` with the recorded operations.

    Of TF32 it has fp32: whether matmuls of that read fewer bits torch's settings say there.

    Raises:
        UnsupportedError: nvFuser is not installed, does not have an operation, or refuses one.
    """
    try:
        import nvfuser_direct
    except ImportError as e:
        raise UnsupportedError(f"nvFuser, which is not installed ({e}),", "other routes") from e
    refused: UnsupportedError | None = None
    with nvfuser_direct.FusionDefinition() as fd:
        try:
            _define(nvfuser_direct, fd, definition)
        except UnsupportedError as e:  # one that passed through the block would be printed by it
            refused = e
    if refused is not None:
        raise refused
    return fd


def _define(nvfuser: Any, fd: Any, definition: Definition) -> None:
    """Call what the definition recorded."""
    values: dict[str, Any] = {}
    for node in definition.nodes:
        result = _call(nvfuser, fd, node, values)
        several = isinstance(result, list | tuple) and len(node.results) > 1
        results = result if several else [result]
        values |= dict(zip(node.results, results, strict=False))
    into, returned = definition.into, definition.returned
    for name in definition.outputs:
        try:
            if name in into:
                fd.add_output(values[name], values[into[name]])
            if name in returned:
                fd.add_output(values[name])
        except (RuntimeError, TypeError) as e:
            what = f"the output {name} by nvFuser ({_first_line(e)})"
            raise UnsupportedError(what, "what nvFuser takes") from e


def _call(nvfuser: Any, fd: Any, node: Node, values: dict[str, Any]) -> Any:
    function = getattr(fd if node.op.startswith("define_") else fd.ops, node.op, None)
    if function is None:
        raise UnsupportedError(f"fd.ops.{node.op} by this nvFuser", "operations that it has")

    def value(v: Value) -> Any:
        if isinstance(v, Ref):
            return values[v.name]
        if isinstance(v, DataType):
            found = getattr(nvfuser.DataType, v.made.name, None)
            if found is None:
                raise UnsupportedError(f"{v} by this nvFuser", "types that it has")
            return found
        return [value(x) for x in v] if isinstance(v, tuple) else v

    operands, named = [*map(value, node.operands)], {k: value(v) for k, v in node.kwargs}
    if node.op == "topk":  # takes a scalar of the definition alone
        place: Any = 1 if len(operands) > 1 else "k"
        counted = operands if place == 1 else named
        if isinstance(counted[place], int):
            counted[place] = fd.define_scalar(counted[place], dtype=nvfuser.DataType.Int)
    try:
        return function(*operands, **named)
    except (RuntimeError, TypeError) as e:
        what = f"line {node.line}: fd.{'' if node.op.startswith('define_') else 'ops.'}{node.op}"
        raise UnsupportedError(f"{what} by nvFuser ({_first_line(e)})", "what nvFuser takes") from e


def _first_line(e: Exception) -> str:
    return (str(e) or type(e).__name__).splitlines()[0]
