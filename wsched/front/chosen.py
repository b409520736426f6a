"""Kernels of schedules that wsched chooses itself, and whose fault it is if one is illegal.

A schedule that somebody gave may be illegal, and a ``ScheduleError`` tells that person what is
legal. What wsched chose or cut may not be: to whoever only asked for a matmul such an error says
nothing, and taken for "there is no kernel" it would hide a defect behind another route.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from lowering.ground.errors import InternalError, ScheduleError
from wsched.choose.heuristics import choose_params
from wsched.choose.problem import Problem
from wsched.fusion import Fusion
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.kernel_name import kernel_name
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["chosen_kernel", "of_own_making", "own_choice"]


def chosen_kernel(
    fusion: Fusion,
    problem: Problem,
    make: Callable[[Fusion, MatmulParams], CompiledFusion] = compile_fusion,
) -> CompiledFusion:
    """The kernel of the schedule that a problem gets.

    Args:
        fusion: what it computes.
        problem: what is planned for.
        make: what makes a kernel of parameters.

    Raises:
        UnsupportedError: there is no schedule, or no lowering for it.
        InternalError: as :func:`own_choice`.
    """
    params = choose_params(problem)
    with own_choice(fusion, params):
        return make(fusion, params)


@contextmanager
def of_own_making(where: str, told: Callable[[], str]) -> Iterator[None]:
    """Something that no caller wrote.

    Args:
        where: what it is.
        told: of which definition, and how to get it again; a line.

    Raises:
        InternalError: it is illegal, in place of the ``ScheduleError``, which is its cause and has
            the loop nest or the program: the text has the rule and the reason alone.
    """
    try:
        yield
    except ScheduleError as e:
        raise InternalError(where, f"illegal [{e.rule}]: {e.wrote}: {e.why}; {told()}") from e


def own_choice(fusion: Fusion, params: MatmulParams) -> AbstractContextManager[None]:
    """What is made of parameters that wsched chose; raises as :func:`of_own_making`. The text has
    the kernel's name, and of the parameters what differs from the defaults, as ``--params`` reads
    it.
    """

    def told() -> str:
        default = MatmulParams().to_dict()
        changed = {n: v for n, v in params.to_dict().items() if v != default[n]}
        return f"{kernel_name(fusion, params)}, params {json.dumps(changed)}"

    return of_own_making("the schedule that was chosen", told)
