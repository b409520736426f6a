"""What is lost, effect by effect: differences of the cost model with and without each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.frozen import replaced
from tests.schedules import SCHEDULES, cooperative, ping_pong, split_k, stream_k
from wsched.choose.cost_model import cost, terms_of
from wsched.choose.heuristics import candidates
from wsched.choose.problem import Problem
from wsched.fusion import DataType
from wsched.losses.effects import EFFECTS, losses_of
from wsched.schedule.matmul.params import MatmulParams


def problem(m: int, n: int, k: int, **more: int) -> Problem:
    return replace(Problem(m, n, k, DataType.BFloat16, (DataType.BFloat16,), 132), **more)


def lost(p: Problem, params: MatmulParams) -> dict[str, float]:
    return {x.effect: x.us for x in losses_of(p, params)[1]}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "p",
    [
        problem(4096, 4096, 4096), problem(1000, 1000, 1000, align_a=16, align_b=16),
        problem(16, 28672, 8192), problem(840, 2408, 7720, align_a=16, n_major=1, work=12),
        problem(512, 8192, 8192, batch=3), problem(2048, 4096, 512, b_count=2),
    ],
)  # fmt: skip
def test_losses_are_the_gap(p: Problem) -> None:
    """Between the roofline and what is predicted, of every candidate; none is a gain."""
    for c in candidates(p)[::7]:
        roofline, losses = losses_of(p, c.params)
        assert [x.effect for x in losses] == [e for e in EFFECTS if e != "siblings"]
        assert roofline.us + sum(x.us for x in losses) == pytest.approx(c.cost.by_laws, rel=1e-9)
        assert min(x.us for x in losses) > -1e-9 and roofline.us < c.cost.by_laws


@pytest.mark.parametrize("name", ["split_2", "stream_k", "exchanged_cluster", "dynamic_pingpong"])
def test_other_schedules(name: str) -> None:
    p, params = problem(2048, 2304, 4096), SCHEDULES[name]
    roofline, losses = losses_of(p, params)
    predicted = cost(p, params).us
    assert roofline.us + sum(x.us for x in losses) == pytest.approx(predicted, rel=1e-9)


def test_roofline() -> None:
    """2 M N K at 4096 in a cycle of 132 SMs at 1.904 GHz, or everything once at 4.36 TB/s."""
    r = losses_of(problem(4096, 4096, 4096), SCHEDULES["coop_128x256"])[0]
    assert r.us == pytest.approx(2 * 4096**3 / (4096 * 132 * 1904)) and r.bound == "tensor cores"
    assert r.l2.amount == 512 * 64 * (128 + 256) * 64 * 2
    few = losses_of(problem(16, 28672, 8192), SCHEDULES["coop_128x256"])[0]
    moved = 2 * (16 * 8192 + 28672 * 8192 + 16 * 28672)
    assert few.us == pytest.approx(moved / 4.36e6) and few.bound == "memory"
    assert few.memory.least == moved and few.flop.amount == 8 * few.flop.least


def test_a_last_round_for_one_tile() -> None:
    """133 tiles take as long as 264: the other SMs are idle for nearly half of the k loops."""
    params = cooperative(128, 128)
    even, odd = (lost(problem(128 * m, 128 * n, 4096), params) for m, n in ((12, 11), (19, 7)))
    assert even["idle SMs"] == 0 and even["edges"] == 0
    tile = 2 * 128 * 128 * 4096 / 4096 / 1904
    assert odd["idle SMs"] == pytest.approx(tile * (2 - 133 / 132), rel=0.02)


def test_zeros_beyond_the_edges() -> None:
    found = lost(problem(12 * 128 - 64, 11 * 256, 4096), cooperative(128, 256))
    tile = 2 * 128 * 256 * 4096 / 4096 / 1904
    assert found["edges"] == pytest.approx(tile / 24, rel=0.02)
    assert found["idle SMs"] == pytest.approx(0, abs=1e-9)


def test_each_effect_has_its_cause() -> None:
    """What is changed alone changes its own loss."""
    p = problem(4096, 4096, 4096)
    coop, ping = cooperative(128, 256), ping_pong(128, 128)
    assert lost(p, coop)["hand-over"] == 0 < lost(p, ping)["hand-over"]
    assert lost(p, ping)["epilogue"] < lost(p, coop)["epilogue"]
    assert lost(p, coop)["latency"] == 0 < lost(p, cooperative(128, 256, stages=2))["latency"]
    pairs = cooperative(128, 256, cluster=(2, 1))
    assert lost(p, coop)["clusters"] == 0 < lost(p, pairs)["clusters"]
    assert lost(p, coop)["adding parts"] == 0 < lost(p, split_k(coop, 2))["adding parts"]
    assert lost(p, coop)["other steps"] == 0 < lost(p, stream_k(coop))["other steps"]
    odd = replaced(p, align_a=16)
    assert lost(p, coop)["row alignment"] == 0 < lost(odd, coop)["row alignment"]
    assert lost(p, coop)["copies"] == pytest.approx(lost(odd, coop)["copies"], rel=0.5)
    late = replace(coop, programmatic_dependent_launch=False)
    assert lost(p, late)["start"] - lost(p, coop)["start"] == pytest.approx(0.81, abs=0.01)
    assert lost(p, SCHEDULES["coop_narrow"])["narrow products"] > 100


def test_power_and_memory_are_those_of_explain() -> None:
    p, params = problem(8192, 8192, 8192), ping_pong(128, 192)
    found, whole = lost(p, params), cost(p, params)
    assert found["power"] == pytest.approx(whole.power_us) and terms_of(p, params).energy > 0
    few = problem(16, 28672, 8192)
    assert lost(few, cooperative(64, 224, groups=1))["memory"] > 0.5
