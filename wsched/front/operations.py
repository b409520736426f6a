"""Definitions that are written down call by call, for functions of tensors with epilogues."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache, wraps
from inspect import signature
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import UnsupportedError
from wsched.fusion.types import DataType
from wsched.importer.definition import Node, Ref, Value
from wsched.importer.input_error import (
    InputError,
    no_tensor,
    require_array,
    require_own_memory,
)
from wsched.importer.watched import is_compiling

if TYPE_CHECKING:
    import torch

__all__ = [
    "Epilogue", "Operations", "computed", "kept", "listed", "named", "require_16_bits",
    "require_hashable", "require_tensors", "written",
]  # fmt: skip

_DEFINITIONS = 256
"""Texts that a function keeps; an epilogue that is made anew by each call makes a new one."""

Epilogue = Callable[..., Ref]
"""Takes the operations and a product for each matrix, gives what is computed of them."""


def kept(text: Callable[..., str]) -> Callable[..., str]:
    """A function that keeps the texts that it writes; not for Dynamo, which traces the writing, and
    warns of whoever keeps something.
    """
    known = lru_cache(_DEFINITIONS)(text)

    @wraps(text)
    def again(*args: Hashable) -> str:
        return text(*args) if is_compiling() else known(*args)

    return again


def listed(argument: str, value: torch.Tensor | Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """One tensor or several as several.

    Raises:
        InputError: neither, by the argument's name; what several are is not looked at.
    """
    if hasattr(value, "data_ptr"):
        return [value]
    if not isinstance(value, Iterable):
        raise no_tensor(argument, value)
    return list(value)


def require_hashable(epilogue: object) -> None:
    """Refuse an epilogue that nothing can be kept for.

    Raises:
        InputError: it has no hash.
    """
    if is_compiling():  # which keeps nothing
        return
    try:
        hash(epilogue)
    except TypeError:
        kind = type(epilogue).__name__
        text = f"the epilogue is a {kind}, which has no hash: its definition is kept for it"
        raise InputError(
            text, "epilogue", kind, "a function, or another object with a hash"
        ) from None


def require_tensors(**given: Iterable[Any]) -> None:
    """Refuse what is no tensor, or none of torch's arrays, by the argument's name.

    Raises:
        InputError: one of them, so.
    """
    import torch

    for name, some in given.items():
        for value in some:
            if not isinstance(value, torch.Tensor):
                raise no_tensor(name, value)
            if not is_compiling():  # Dynamo knows arrays alone
                require_array(name, value)
                require_own_memory(value)


def require_16_bits(**given: Iterable[torch.Tensor]) -> None:
    """Refuse operands of groups of other types than kernels multiply, by the argument's name.

    Raises:
        UnsupportedError: one of them is neither bf16 nor fp16.
    """
    import torch

    for name, some in given.items():
        for tensor in some:
            if tensor.dtype not in (torch.bfloat16, torch.float16):
                what = f"{name} of {tensor.dtype}"
                raise UnsupportedError(what, "torch.bfloat16, torch.float16")


_NAMED = {f"torch.{d.element.torch}": d for d in reversed(DataType) if d.is_stored}
"""Types by what torch calls them, of several the first."""


def named(dtype: torch.dtype) -> DataType:
    """The type of a torch type.

    Raises:
        InputError: wsched has no word for it.
    """
    if (found := _NAMED.get(str(dtype))) is not None:
        return found
    text = f"{dtype} is no type of a grouped matmul"
    raise InputError(text, "dtype", str(dtype), "torch.bfloat16, torch.float16")


class Operations:
    """Operations below ``fd.ops`` that an epilogue calls, as they are written down.

    Args:
        nodes: where to.
    """

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes

    def __getattr__(self, op: str) -> Callable[..., Ref]:
        def call(*operands: Value, **kwargs: Value) -> Ref:
            return written(self._nodes, op, *operands, **kwargs)

        return call


def computed(epilogue: Epilogue, nodes: list[Node], *given: Ref) -> Ref:
    """Write down what an epilogue computes of products and inputs.

    Raises:
        InputError: it is no function, takes something else than the operations and what is given,
            or gives something else than what an operation gives.
    """
    if not callable(epilogue):
        kind = type(epilogue).__name__
        text = f"the epilogue is a {kind}, not a function"
        raise InputError(text, "epilogue", kind, "a function")
    operations = Operations(nodes)
    if not is_compiling() and (why := _not_taken(epilogue, operations, *given)):
        text = f"the epilogue is given the operations and {len(given)} tensors: {why}"
        raise InputError(text, "epilogue", why, f"a function of {1 + len(given)} arguments")
    found = epilogue(operations, *given)
    if isinstance(found, Ref):
        if not any(found.name in n.results for n in nodes):
            text = f"the epilogue gives {found.name}, which none of its operations gives"
            raise InputError(text, "epilogue", found.name, "what one of its operations gives")
        return found
    kind = type(found).__name__
    text = f"the epilogue gives a {kind}, not what one of its operations gives"
    raise InputError(text, "epilogue", kind, "what an operation gives")


def _not_taken(function: Callable[..., object], *arguments: object) -> str:
    """Why a function does not take these arguments; empty of one that does, or does not say."""
    try:
        signature(function).bind(*arguments)
    except TypeError as e:
        return str(e)
    except ValueError:  # one that is written in C
        pass
    return ""


def written(nodes: list[Node], op: str, *operands: Value, **kwargs: Value) -> Ref:
    """Write a call down; what it gives.

    Raises:
        InputError: a complex number, which no operation takes.
    """
    for value in (*operands, *kwargs.values()):
        if isinstance(value, complex):
            text = f"fd.ops.{op} is given {value}, a complex number"
            raise InputError(text, "epilogue", str(value), "real numbers")
    name = f"v{len(nodes)}"
    nodes.append(Node(op, (name,), operands, tuple(kwargs.items()), len(nodes) + 1))
    return Ref(name)
