"""The sizes of a definition's tensors: from the caller's, or where only the definition is there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lowering.ground.expr import Var
from wsched.choose.problem import Problem
from wsched.doors.fallback import check_inputs
from wsched.front.cut.tensors import Tensors
from wsched.fusion import Fusion
from wsched.importer import Definition
from wsched.schedule.entries import with_sums

__all__ = ["OPEN", "bind_extents", "open_extents", "problem_extents"]

OPEN = 512
"""The size of a dimension that neither the definition nor the user says; of a fourth one from the
right and those outside of it 1, as nobody has a quarter of a million matrices.
"""

MATRICES = 3
"""Dimensions of a tensor that are as large as :data:`OPEN`: of a batch of matrices."""


def bind_extents(
    definition: Definition, tensors: Tensors, inputs: Sequence[Any], *, runs: bool = True
) -> dict[str, int]:
    """Value of each symbol, from the inputs' shapes; ``runs`` as :func:`check_inputs` has it.

    Raises:
        InputError: inputs that do not fit the definition.
        UnsupportedError: they are neither on the CPU nor on a GPU.
    """
    check_inputs(definition, inputs, runs=runs)
    return _bound(definition, tensors, [getattr(value, "shape", ()) for value in inputs])


def open_extents(definition: Definition, tensors: Tensors) -> dict[str, int]:
    """A value for each symbol where there are no inputs: :data:`OPEN`, or 1 where it is but of
    dimensions outside of a batch of matrices.
    """
    found: dict[str, int] = {}
    for node in definition.inputs:
        tensor = tensors.types.get(node.results[0])
        dims = tensor.dims or () if tensor is not None else ()
        for left, dim in zip(range(len(dims), 0, -1), dims, strict=True):
            if isinstance(dim.extent, Var):
                size = OPEN if left <= MATRICES else 1
                found[dim.extent.name] = max(size, found.get(dim.extent.name, 1))
    return found


def problem_extents(
    definition: Definition, tensors: Tensors, fusion: Fusion, problem: Problem
) -> dict[str, int]:
    """A value for each symbol of a definition that is the ``fusion``: those of the ``problem``."""
    sizes = with_sums(fusion, problem.extents(fusion))
    shapes = [[sizes.get(name, 1) for name in b.extents] for b in fusion.inputs]
    return _bound(definition, tensors, shapes)


def _bound(
    definition: Definition, tensors: Tensors, shapes: Iterable[Sequence[int]]
) -> dict[str, int]:
    """Value of each symbol, from the shapes of the inputs, () of a number."""
    sizes: dict[str, int] = {}
    for node, shape in zip(definition.inputs, shapes, strict=True):
        tensor = tensors.types.get(node.results[0])
        for dim, size in zip(tensor.dims or () if tensor else (), shape, strict=False):
            if isinstance(dim.extent, Var):
                sizes.setdefault(dim.extent.name, size)
    return sizes
