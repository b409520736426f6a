"""What the real nvFuser does with what wsched hands it: kept, and found anew where it can be.

``python -m tests.nvfuser.standin`` writes the answers; see tests/nvfuser/standin.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.nvfuser.cases import ASKED, OVERRIDES, REFUSED_FIELDS, ROUND_TRIPS
from tests.nvfuser.standin import ANSWERS, missing, probe
from wsched.choose.problem import Problem
from wsched.fusion import DataType
from wsched.nvfuser.choice import choose_params
from wsched.nvfuser.params import from_fields, to_fields


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    answers: dict[str, Any] = json.loads(ANSWERS.read_text())
    return answers


@pytest.mark.slow
def test_the_answers_are_what_nvfuser_says_today(found: dict[str, Any], tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    assert probe(tmp_path) == found


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_a_live_round_trip(name: str, found: dict[str, Any]) -> None:
    trip, params = found["round trips"][name], ROUND_TRIPS[name]
    assert trip["read"] == to_fields(params)
    assert from_fields(trip["read"], base=params) == params
    assert trip["scheduled"] == "taken"


@pytest.mark.parametrize("name", REFUSED_FIELDS)
def test_nvfuser_refuses_these_too(name: str, found: dict[str, Any]) -> None:
    assert found["refused here"][name] != "taken"


ARRIVED = {
    "tile=128": {
        "cta_tile": [128, 128, 64],
        "warp_tile": [64, 128, 64],
        "mma_macro": [64, 128, 16],
        "circular_buffer_options": [True, False, 6, 1],
    },
    "cluster_m=1 cluster_n=1": {"cluster_dims": [1, 1]},
    "cluster_m=2 cluster_n=1": {"cluster_dims": [2, 1]},
    "load_stages=2": {},
    "load_stages=1": {},
    "prefetch_gap=2": {"circular_buffer_options": [True, False, 3, 2]},
    "grid_swizzle_factor=4": {"grid_traversal_factor": [4, 1]},
    "cta_order=1": {"cta_order": "column_major"},
    "circular_buffer_smem_read=1": {},
    "splitk_factor=2": {
        "splitk_factor": 2,
        "tiling_strategy": "one_tile_per_cta",
        "cluster_dims": [2, 1],
        "circular_buffer_options": [True, False, 4, 1],
    },
    "splitk_factor=2 cluster_m=1 cluster_n=1": {
        "splitk_factor": 2,
        "tiling_strategy": "one_tile_per_cta",
        "cluster_dims": [2, 1],
        "circular_buffer_options": [True, False, 4, 1],
    },
}
"""What a plugin says -> what then differs from nvFuser's own choice. Stages are always those that
fit, reads of shared memory are never buffered, and split-K ends persistence and the cluster."""


@pytest.mark.parametrize("words", ARRIVED)
def test_which_fields_of_a_plugin_arrive(words: str, found: dict[str, Any]) -> None:
    assert set(ARRIVED) == set(OVERRIDES) - {""}
    own, changed = found["overrides"][""], found["overrides"][words]
    assert {k: v for k, v in changed.items() if v != own[k]} == ARRIVED[words]


@pytest.mark.parametrize("case", ASKED, ids=str)
def test_the_plugin_hands_over_wscheds_choice(case: tuple[Any, ...], found: dict[str, Any]) -> None:
    """All fields are those of door 2, but for what nvFuser sets itself."""
    (m, n, k), result = case[0], DataType.Float if len(case) > 2 else DataType.BFloat16
    chosen = choose_params(Problem(m, n, k, DataType.BFloat16, (result,), 132))
    arrived, wanted = found["plugin"][str(case)], to_fields(chosen)
    stages = min(wanted["circular_buffer_options"][2], steps_of_a_cta(m, n, k, chosen))
    wanted["circular_buffer_options"][2] = stages
    assert arrived == wanted


def steps_of_a_cta(m: int, n: int, k: int, params: Any) -> int:
    """nvFuser's bound on stages: as many as a CTA has steps."""
    tile = params.tile_sizes.cta_tile
    tiles = -(-m // tile.m) * -(-n // tile.n)
    return -(-k // tile.k) * -(-tiles // 132)


def test_nvfusers_schedule_in_wscheds_ir(found: dict[str, Any], golden: Any) -> None:
    assert "\n".join(found["read"]) == golden
