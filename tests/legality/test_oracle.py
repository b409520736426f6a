"""The oracle itself: what is known to run is legal, what is known to fail is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.epilogues import RESIDUAL
from tests.legality.illegal import ILLEGAL, SOUND, TRIMMED
from tests.legality.oracle import NotJudged, judge, tile_of, why_illegal
from tests.schedules import SCHEDULES, definition, for_result
from wsched.fusion import Fusion
from wsched.importer import build_fusion, record_text
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.scheduler import schedule_matmul

STREAM_K = [name for name in SCHEDULES if name.startswith("stream_k")]


def scheduled(params: MatmulParams, text: str) -> Fusion:
    return schedule_matmul(build_fusion(record_text(text)), params)


@pytest.mark.parametrize("name", sorted(set(SCHEDULES) - set(STREAM_K)))
def test_built_in_schedules_are_legal(name: str) -> None:
    assert why_illegal(scheduled(SCHEDULES[name], definition())) is None


@pytest.mark.parametrize(
    "name", ["coop_traversal_odd", "pingpong_64x256", "dynamic_pingpong", "cluster_pingpong"]
)
def test_so_are_rings_of_the_epilogue(name: str) -> None:
    fits = for_result(SCHEDULES[name], "bf16", inputs=("bf16",))
    fusion = scheduled(replace(fits, epilogue_input_stages=2), RESIDUAL)
    assert len(fusion.loads) == 3
    assert why_illegal(fusion) is None


@pytest.mark.parametrize("name", STREAM_K[:1])
def test_stream_k_is_not_judged(name: str) -> None:
    with pytest.raises(NotJudged):
        judge(scheduled(SCHEDULES[name], definition()))


@pytest.mark.parametrize("name", [*SOUND, *TRIMMED])
def test_legal(name: str) -> None:
    fusion = (SOUND | TRIMMED)[name]()
    assert why_illegal(fusion) is None
    assert tile_of(fusion)[2] == 32


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal(name: str) -> None:
    make, reason = ILLEGAL[name]
    verdict = judge(make())
    assert verdict.why is not None
    assert reason in verdict.why
    assert not verdict.shape
