"""Whether inputs fit each other: torch says it of tensors that have no memory.

What runs finds it out by running. What only explains has to ask, or it would name a way for a call
that no way takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from lowering.ground.errors import InternalError
from wsched.doors.fallback.interpret import evaluated
from wsched.fusion import DataType
from wsched.importer import Definition
from wsched.importer.input_error import InputError
from wsched.run.arguments import torch_dtype

__all__ = ["require_fitting", "require_fitting_sizes"]


def require_fitting(definition: Definition, inputs: Sequence[Any]) -> None:
    """Refuse what torch refuses of inputs of these shapes and types, whoever would run it.

    Args:
        definition: what they are for.
        inputs: of a call; their values are not read.

    Raises:
        InputError: an operation does not take what it would be given.
    """
    import torch

    def bare(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)

    try:
        with torch.device("meta"):
            evaluated(definition, [bare(value) for value in inputs])
    except (InputError, InternalError):
        raise
    except Exception:  # what depends on values, or is not there without any, says nothing
        return


def require_fitting_sizes(definition: Definition) -> None:
    """The same of a definition without inputs, if it fixes all of their sizes.

    Raises:
        InputError: nothing of these sizes fits.
    """
    if find_spec("torch") is None:
        return
    import torch

    made = list[Any]()
    for node in definition.inputs:
        shape, dtype = node.get("shape"), node.get("dtype", DataType.Float)
        known = isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape)
        if not known or not isinstance(shape, tuple) or not isinstance(dtype, DataType):
            return
        sizes = [n for n in shape if isinstance(n, int)]
        made.append(torch.empty(sizes, dtype=torch_dtype(dtype), device="meta"))
    require_fitting(definition, made)
