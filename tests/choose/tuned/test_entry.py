"""Entries as data, and which of them are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.choose.tuned.entries import PROBLEM, entry
from wsched.choose.heuristics import TILES, candidates, modelled
from wsched.choose.problem import Problem
from wsched.choose.tuned.entry import Entry, EntryError, problem_from_dict, problem_to_dict
from wsched.fusion import DataType
from wsched.schedule.matmul.computed import Computed

BF16, FLOAT = DataType.BFloat16, DataType.Float
HUGE = 10**400
"""JSON has it, and no float does."""


@pytest.mark.parametrize(
    "problem",
    [
        PROBLEM,
        replace(PROBLEM, inputs=None, matrices=(BF16,), work=9, gpu="NVIDIA H100 80GB HBM3"),
        replace(PROBLEM, results=(BF16, FLOAT), inputs=(FLOAT,), n_major=True, pairs=False),
        replace(PROBLEM, computed=Computed("b", DataType.Float8_e4m3fn, 3.5)),
        replace(PROBLEM, operand=DataType.Float8_e4m3fn, promotion=128, scaled=(1, 128)),
    ],
)
def test_round_trip(problem: Problem) -> None:
    data = json.loads(json.dumps(problem_to_dict(problem)))
    assert problem_from_dict(data) == problem
    made = replace(entry(problem), params=modelled(problem))
    assert Entry.of(problem, json.loads(json.dumps(made.to_dict()))) == made


def test_what_a_problem_did_not_have_before_has_its_default() -> None:
    data = problem_to_dict(PROBLEM)
    assert data["target"] == "sm_90a"
    del data["batch_invariant"], data["gpu"], data["target"]
    assert problem_from_dict(data) == PROBLEM


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"m": 8.0}, "m is 8.0, not a int"),
        ({"m": True}, "m is True, not a int"),
        ({"gpu": None}, "gpu is None, not a str"),
        ({"operand": "fp7"}, "operand has 'fp7', which is no type"),
        ({"results": "BFloat16"}, "results is 'BFloat16', not a list"),
        ({"results": None}, "results is None, not a list"),
        ({"inputs": [3]}, "inputs has 3, which is no type"),
        ({"target": "sm_80"}, "target is 'sm_80', which is no target: sm_90a, sm_100a"),
        ({"groups": 3}, "a problem has no 'groups'"),
        ({"computed": {"side": "c"}}, "computed is {'side': 'c'}, not a side, a dtype and work"),
        (
            {"computed": {"side": "c", "dtype": "Half", "work": 1.0}},
            "computed is {'side': 'c', 'dtype': 'Half', 'work': 1.0}, not a side, a dtype and work",
        ),
        (
            {"computed": {"side": "a", "dtype": "Half", "work": 0}},
            "computed is {'side': 'a', 'dtype': 'Half', 'work': 0}, not a side, a dtype and work",
        ),
        (
            {"computed": {"side": "a", "dtype": "Half", "work": HUGE}},
            f"computed is {{'side': 'a', 'dtype': 'Half', 'work': {HUGE}}}, not a side, a dtype "
            "and work",
        ),
        ({"results": []}, "a problem without results"),
        ({"scaled": []}, "scaled is [], not rows of A and columns of B"),
        ({"scaled": [1, 0]}, "scaled is [1, 0], not rows of A and columns of B"),
    ],
)
def test_no_problem(change: dict[str, Any], said: str) -> None:
    with pytest.raises(EntryError) as error:
        problem_from_dict(problem_to_dict(PROBLEM) | change)
    assert str(error.value) == said


def test_a_problem_without_sizes() -> None:
    with pytest.raises(EntryError, match="missing 5 required positional arguments: 'n'"):
        problem_from_dict({"m": 8})
    with pytest.raises(EntryError, match="problem is 8, not a dict"):
        problem_from_dict(8)


def _params(**change: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda data: data | {"params": data["params"] | change}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d | {"us": 0}, "us is 0, not a time"),
        (lambda d: d | {"us": True}, "us is True, not a time"),
        (lambda d: d | {"us": float("nan")}, "us is nan, not a time"),
        (lambda d: d | {"us": HUGE}, f"us is {HUGE}, not a time"),
        (lambda d: d | {"choice_us": HUGE}, f"choice_us is {HUGE}, not a time"),
        (lambda d: d | {"choice_us": "9"}, "choice_us is '9', not a time"),
        (lambda d: d | {"date": 2026}, "date is 2026, not a text"),
        (lambda d: d | {"params": None}, "params is None, not a dict"),
        (
            _params(stream_l=2),
            "ScheduleError[params]: MatmulParams.stream_l: there is no field stream_l",
        ),
        (
            _params(splitk_factor="2"),
            "ScheduleError[params]: MatmulParams(splitk_factor='2'): splitk_factor takes an int",
        ),
        (
            _params(circular_buffer_options={"smem_circular_buffer_stage": 9}),
            "ScheduleError[smem]: smem_circular_buffer_stage=9: 9 stages of 32 KiB + epilogue "
            "16 KiB + barriers 1 KiB = 305 KiB, limit 227 KiB",
        ),
        (_params(batch_invariant=True), "batch_invariant=True: the problem says otherwise"),
    ],
)
def test_no_entry(change: Callable[[dict[str, Any]], dict[str, Any]], said: str) -> None:
    with pytest.raises(EntryError) as error:
        Entry.of(PROBLEM, change(entry().to_dict()))
    assert str(error.value) == said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n": 1004}, "use_smem_epilogue=True: TMA does not store rows of 1004 elements"),
        (
            {"smem_epilogue": False},
            "use_smem_epilogue=True: these results are stored from registers",
        ),
        ({"inputs": None}, "epilogue_input_stages=2: TMA cannot load these"),
        ({"pairs": False}, "supported_vec_size.epilogue=2: no pairs here"),
    ],
)
def test_a_schedule_of_another_problem(change: dict[str, Any], said: str) -> None:
    """What the sizes and places of the tensors forbid, beside their types."""
    with pytest.raises(EntryError) as error:
        Entry.of(replace(PROBLEM, **change), entry().to_dict())
    assert str(error.value) == said


@pytest.mark.sampled
@pytest.mark.parametrize(
    "problem",
    [
        PROBLEM,
        replace(PROBLEM, n=1001, pairs=False),
        replace(PROBLEM, results=(FLOAT,), inputs=(BF16,), matrices=(BF16,), work=9),
        replace(PROBLEM, inputs=None, matrices=(BF16,), work=9, batch_invariant=True),
        replace(PROBLEM, m_major=True, n_major=True),
    ],
)
def test_every_candidate_is_legal(problem: Problem) -> None:
    found = candidates(problem)
    assert len(found) > len(TILES) / 2
    for c in found:
        made = Entry(problem, c.params, 1.0, None, "0.1.0", "2026-11-21")
        assert Entry.of(problem, made.to_dict()) == made
