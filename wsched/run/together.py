"""Kernels that share the groups of a matmul out, as one that is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from passes.dump import dumper_from_environment
from wsched.fusion import Fusion
from wsched.run.made import STAGES
from wsched.run.on_device import OnDevice
from wsched.run.stack import Stack
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.siblings import members

__all__ = ["together"]

K = TypeVar("K", bound=OnDevice)


def together(fusion: Fusion, params: MatmulParams, make: Callable[[MatmulParams], K]) -> K:
    """The first of several kernels, with the others behind it.

    Args:
        fusion: unscheduled.
        params: of all, which have siblings.
        make: makes the kernel of its own parameters.

    Raises:
        ScheduleError: the kernels cannot share groups out.
    """
    first, *others = map(make, members(fusion, params))
    assert first.made_from is not None
    of_all = replace(params, num_registers=first.made_from.num_registers)
    vector = max(k.vector for k in (first, *others))
    made = replace(first, made_from=of_all, siblings=tuple(others), vector=vector)
    for stack in (grid for grid in made.grids if isinstance(grid, Stack)):
        if (dumper := dumper_from_environment(stack.name, STAGES)) is not None:
            stack.dump_code(dumper)
    return made
