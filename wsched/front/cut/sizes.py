"""The sizes of a definition's tensors: from the caller's, or where only the definition is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowering.ground.expr import Var
from wsched.doors.fallback import check_inputs
from wsched.front.cut.tensors import Tensors
from wsched.importer import Definition

__all__ = ["OPEN", "bind_extents", "open_extents"]

OPEN = 512
"""The size of a dimension that neither the definition nor the user says."""


def bind_extents(
    definition: Definition, tensors: Tensors, inputs: Sequence[Any], *, runs: bool = True
) -> dict[str, int]:
    """Value of each symbol, from the inputs' shapes; ``runs`` as :func:`check_inputs` has it.

    Raises:
        InputError: inputs that do not fit the definition.
        UnsupportedError: they are neither on the CPU nor on a GPU.
    """
    check_inputs(definition, inputs, runs=runs)
    sizes: dict[str, int] = {}
    for node, value in zip(definition.inputs, inputs, strict=True):
        tensor = tensors.types.get(node.results[0])
        for dim, size in zip(
            tensor.dims or () if tensor else (), getattr(value, "shape", ()), strict=False
        ):
            if isinstance(dim.extent, Var):
                sizes.setdefault(dim.extent.name, size)
    return sizes


def open_extents(definition: Definition, tensors: Tensors) -> dict[str, int]:
    """A value for each symbol where there are no inputs: :data:`OPEN`."""
    named = (tensors.types.get(n.results[0]) for n in definition.inputs)
    extents = (d.extent for t in named if t is not None for d in t.dims or ())
    return {e.name: OPEN for e in extents if isinstance(e, Var)}
