"""Definitions that are written down call by call, for functions of tensors with epilogues."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from wsched.fusion.types import DataType
from wsched.importer.definition import Node, Ref, Value
from wsched.importer.input_error import InputError

if TYPE_CHECKING:
    import torch

__all__ = ["DEFINITIONS", "Epilogue", "Operations", "computed", "named", "written"]

DEFINITIONS = 256
"""Texts that a function keeps; an epilogue that is made anew by each call makes a new one."""

Epilogue = Callable[..., Ref]
"""Takes the operations and a product for each matrix, gives what is computed of them."""


@lru_cache
def named(dtype: torch.dtype) -> DataType:
    """The type of a torch type. Each is looked for once: a layer of experts asks for five.

    Raises:
        InputError: wsched has no word for it.
    """
    found = (d for d in DataType if d.is_stored and f"torch.{d.element.torch}" == str(dtype))
    for d in found:
        return d
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
        InputError: it gives something else than what an operation gives.
    """
    found = epilogue(Operations(nodes), *given)
    if isinstance(found, Ref):
        return found
    kind = type(found).__name__
    text = f"the epilogue gives a {kind}, not what one of its operations gives"
    raise InputError(text, "epilogue", kind, "what an operation gives")


def written(nodes: list[Node], op: str, *operands: Value, **kwargs: Value) -> Ref:
    """Write a call down; what it gives."""
    name = f"v{len(nodes)}"
    nodes.append(Node(op, (name,), operands, tuple(kwargs.items()), len(nodes) + 1))
    return Ref(name)
