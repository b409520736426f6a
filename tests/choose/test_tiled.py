"""What schedules have in common that differ in their launch, or in the number of parts of K."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from wsched.choose.cost_model import cost, priced, terms_of, tiled
from wsched.choose.heuristics import candidates, ranked
from wsched.choose.launch import Launch
from wsched.choose.problem import Problem
from wsched.fusion import DataType
from wsched.schedule.matmul.params import MatmulParams, SplitKMode

BF16 = DataType.BFloat16
PROBLEM = Problem(600, 264, 4000, BF16, (BF16,), 132)


def others(params: MatmulParams) -> list[MatmulParams]:
    """The same launched otherwise, with as many parts or, of several, another number."""
    parts = (1,) if params.splitk_factor == 1 else (2, 5)
    return [
        replace(params, programmatic_dependent_launch=d, prefetched_steps=n, splitk_factor=p)
        for d, n, p in product((True, False), (0, 3), parts)
    ]


@pytest.mark.parametrize("mode", SplitKMode)
@pytest.mark.parametrize("parts", [1, 3])
def test_a_schedule_costs_what_one_like_it_does_launched_so(mode: SplitKMode, parts: int) -> None:
    for _, params in ranked(PROBLEM)[::97]:
        shared = tiled(PROBLEM, replace(params, splitk_factor=parts, splitk_mode=mode))
        for other in others(shared.params):
            assert tiled(PROBLEM, other) == replace(shared, params=other)
            assert priced(shared.terms(Launch.of(other))) == cost(PROBLEM, other)


def test_a_launch_is_given_to_a_schedule() -> None:
    """Hints are only where one grid begins before the other has ended, and of whole tiles."""
    hinting = MatmulParams(prefetched_steps=4)
    assert Launch.of(hinting) == Launch(True, 1)
    assert Launch(True).given_to(hinting) == hinting
    for launch in (Launch(False), Launch(True, 3), Launch(False, 2)):
        given = launch.given_to(hinting)
        assert Launch.of(given) == launch and given.prefetched_steps == 0
        assert replace(given, splitk_factor=1, programmatic_dependent_launch=True) == MatmulParams()


def test_candidates_carry_what_their_cost_was_made_of() -> None:
    for c in candidates(PROBLEM)[::53]:
        assert c.terms == terms_of(PROBLEM, c.params)
