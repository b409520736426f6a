"""Sizes at which a kernel is looked at: what its parameters are divided by, and which belong
together.
"""

from __future__ import annotations

from collections.abc import Mapping

from lowering.ground.expr import Binary, Const, Var, parts_of
from lowering.kernel.kernel import Kernel
from lowering.kernel.visit import expressions, walk

__all__ = ["listed", "units_of"]


def units_of(kernel: Kernel) -> dict[str, int]:
    """The largest number that each parameter is divided by."""
    whole = [kernel.grid, kernel.grid_y, *(e for s in walk(kernel.body) for e in expressions(s))]
    found = {p.name: 1 for p in kernel.params}
    for part in {part for e in whole for part in parts_of(e)}:
        match part:
            case Binary("ceildiv" | "//", Var(name), Const(value)) if name in found:
                found[name] = max(found[name], value)
    return found


def listed(sizes: Mapping[str, int], units: Mapping[str, int]) -> dict[str, int]:
    """Sizes in which that of a list is the sum of its parts, which begin at whole units: ``N0`` and
    ``N1`` are side by side in ``N``.
    """
    found = dict(sizes)
    for name in sizes:
        parts = [p for p in sizes if p.startswith(name) and p[len(name) :].isdecimal()]
        if parts:
            found[name] = sum(units[p] * -(-sizes[p] // units[p]) for p in parts)
    return found
