"""What would mend a loss, priced by the cost model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.schedules import SCHEDULES, cooperative, ping_pong
from wsched.choose.cost_model import cost
from wsched.choose.heuristics import CLUSTERS, candidates
from wsched.choose.problem import Problem
from wsched.fusion import DataType
from wsched.losses.effects import losses_of
from wsched.losses.mends import Mend, mends_of
from wsched.schedule.matmul.early import launched
from wsched.schedule.matmul.params import MatmulParams

P = Problem(2304, 4352, 4096, DataType.BFloat16, (DataType.BFloat16,), 132)


def found(p: Problem, name: str, effect: str) -> dict[str, Mend]:
    return {m.what: m for m in mends_of(p, SCHEDULES[name], effect)}


def test_a_last_round() -> None:
    """Parts of K and stream-K are priced, the best of each kind is named, the best first."""
    mends = mends_of(P, SCHEDULES["coop_128x256"], "idle SMs")
    words = [m.what.split()[0] for m in mends]
    assert sorted(words) == ["split-K", "stream-K", "the"]
    saved = [m.us for m in mends if m.us is not None]
    assert saved == sorted(saved, reverse=True) and len(saved) == 3
    now = cost(P, SCHEDULES["coop_128x256"]).us
    split = next(m for m in mends if m.what.startswith("split-K"))
    tried = [cost(P, replace(SCHEDULES["coop_128x256"], splitk_factor=n)).us for n in (2, 3, 4)]
    assert split.us == pytest.approx(now - min(tried))


def test_another_schedule_loses_at_most_half_as_much() -> None:
    """The fastest such one, whatever it costs elsewhere."""
    params = ping_pong(128, 128)
    (other,) = (m for m in mends_of(P, params, "shared memory") if m.what.startswith("the "))

    def lost(schedule: MatmulParams) -> float:
        return next(x.us for x in losses_of(P, schedule)[1] if x.effect == "shared memory")

    half = [c for c in candidates(P) if lost(c.params) <= 0.5 * lost(params)]
    assert other.us == pytest.approx(cost(P, params).us - half[0].cost.by_laws)


def test_orders_of_tiles() -> None:
    """The best is priced as what it is."""
    base, wide = SCHEDULES["coop_128x256"], replace(P, m=8192, n=8192, k=8192)
    (mend,) = (m for m in mends_of(wide, base, "power") if m.what.startswith("groups of "))
    tried = (replace(base, grid_traversal_factor=(rows, 1)) for rows in (8, 16, 32))
    saved = max(cost(wide, base).us - cost(wide, other).us for other in tried)
    assert mend.us == pytest.approx(saved) and saved > 50


BASE = SCHEDULES["coop_128x256"]


def staged(stages: int) -> MatmulParams:
    options = BASE.circular_buffer_options
    return replace(
        BASE, circular_buffer_options=replace(options, smem_circular_buffer_stage=stages)
    )


@pytest.mark.parametrize(
    ("effect", "params", "others"),
    [
        ("latency", staged(3), {f"stages {n}": staged(n) for n in (2, 4)}),
        ("copies", BASE, {f"clusters of {c.m}x{c.n}": replace(BASE, cluster_dims=c)
                          for c in CLUSTERS if c != BASE.cluster_dims}),
        ("memory", BASE, {"no dependent launch": launched(BASE, False)}),
        ("memory", launched(BASE, False), {"a dependent launch": launched(BASE, True)}),
        ("adding parts", replace(BASE, splitk_factor=2), {"K whole": BASE}),
    ],
)  # fmt: skip
def test_another_value_of_a_parameter_saves_what_it_is_priced_at(
    effect: str, params: MatmulParams, others: dict[str, MatmulParams]
) -> None:
    """Of several the best is told."""
    saved = {what: cost(P, params).us - cost(P, other).us for what, other in others.items()}
    best = max(saved, key=saved.__getitem__)
    found = {m.what: m.us for m in mends_of(P, params, effect)}
    assert found[best] == pytest.approx(saved[best]) and saved[best] != 0
    assert {*others} & {*found} == {best}


def test_rows_that_somebody_pads() -> None:
    odd = replace(P, k=4104, align_a=16, align_b=16)
    mends = found(odd, "coop_128x256", "row alignment")
    padded = mends["rows padded to 128 bytes by who makes them"]
    assert padded.us is not None and padded.us > 20
    assert any(what.startswith("clusters of") for what in mends)


def test_what_is_refused_says_why() -> None:
    """Four stages of 128 x 256 fill shared memory."""
    mends = mends_of(P, cooperative(128, 256, stages=4), "latency")
    assert all(m.us is not None for m in mends if m.what.startswith("stages"))  # fewer fit
    tight = mends_of(P, cooperative(256, 256, stages=2, groups=2), "latency")
    refused = [m for m in tight if m.us is None]
    assert refused and all(m.why for m in refused)
    assert str(refused[0]) == f"{refused[0].what}: refused, {refused[0].why}"


def test_nothing_is_told_of_what_all_schedules_have() -> None:
    assert [m.what for m in mends_of(P, SCHEDULES["coop_128x256"], "start")] == [
        "no dependent launch"
    ]
    assert not any(m.what.startswith("the ")
                   for m in mends_of(P, SCHEDULES["coop_128x256"], "power"))  # fmt: skip


def test_texts() -> None:
    assert str(Mend("stages 5", 3.26)) == "stages 5: 3.3 us less in all"
    assert str(Mend("stages 5", -3.26)) == "stages 5: 3.3 us more in all"
    assert str(Mend("stages 5", 0.05)) == "stages 5: 0.1 us less in all"
    assert str(Mend("stages 5", 0.01)) == "stages 5: as long"
    assert Mend("x", None, "y").to_dict() == {"what": "x", "saves_us": None, "refused": "y"}
