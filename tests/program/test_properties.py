"""Properties of programs are those of all their steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from tests.program.programs import plans, whole
from tests.schedules import definition, dynamic, ping_pong, split_k, stream_k
from wsched.front.known import import_fusion
from wsched.program.program import KernelStep, Program
from wsched.program.properties import batch_invariant, deterministic
from wsched.schedule import Work, properties
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.scheduler import plan_matmul


def with_functions(deterministic: bool, batch_invariant: bool) -> Program:
    """The whole program with functions of which this is known."""
    told = {"deterministic": deterministic, "batch_invariant": batch_invariant}
    program = whole().program
    return replace(
        program,
        steps=tuple(replace(s, **told) if hasattr(s, "function") else s for s in program.steps),
    )


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_what_is_known_of_functions(first: bool, second: bool) -> None:
    program = with_functions(first, second)
    assert (deterministic(program), batch_invariant(program)) == (first, second)


def test_one_function_of_which_nothing_is_known() -> None:
    assert deterministic(whole().program) and not batch_invariant(whole().program)


@pytest.mark.parametrize(
    ("change", "invariant"), [(lambda p: split_k(p, 2), True), (stream_k, False), (dynamic, True)]
)
def test_kernels(change: Callable[[MatmulParams], MatmulParams], invariant: bool) -> None:
    """Stream-K cuts K where the number of tiles says; who adds what is said by numbers of CTAs."""
    made = plan_matmul(import_fusion(definition()), change(ping_pong(64, 64)))
    program = with_functions(True, True)
    steps = tuple(
        replace(s, plan=made) if isinstance(s, KernelStep) and s.plan is plans()["matmul"] else s
        for s in program.steps
    )
    program = replace(program, steps=steps)
    assert deterministic(program) and batch_invariant(program) is invariant


def test_parts_that_are_cut_at_run_time_are_not_deterministic() -> None:
    """No schedule is proved with both; the rule says what would follow."""
    fusion, params = import_fusion(definition()), ping_pong(64, 64)
    queue, cut = (plan_matmul(fusion, f(params)) for f in (dynamic, stream_k))
    work = cast(Work, SimpleNamespace(ends_within_tiles=True, at_run_time=True))
    relation = replace(queue.operands, work=work)
    both = replace(queue, edges=(replace(queue.edges[0], relation=relation), *queue.edges[1:]))
    assert [properties.deterministic(p) for p in (queue, cut, both)] == [True, True, False]
