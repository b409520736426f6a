"""Warpgroups that load: they fill a stage together, and count for the registers of the CTA."""

from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import ExprLike, Var, maximum
from lowering.target.targets import DEFAULT
from tests.legality.builder import P
from tests.legality.by_hand.loads import b_by_two_warpgroups, both_by_threads, loading, share
from wsched.fusion import Fusion, LoadStoreOpType, WarpSpecialized
from wsched.schedule import make_plan
from wsched.schedule.proof.loading import load_registers_problem, warpgroups_that_load

SET = LoadStoreOpType.Set


def shared_out(a: ExprLike, b: ExprLike, registers: tuple[int, int] | None = None) -> Fusion:
    """Parts of ``a`` rows of A and of ``b`` rows of B for each warpgroup; none of 0."""
    m = loading(SET, SET)
    m.tile(64, 64, 32)
    m.merge(m.every, "Mo No", "tiles")
    m.run(m.every, "tiles", P.BIDx)
    for tv, label, rows in zip(m.loads, ("Mi", "Ni"), (a, b), strict=True):
        if rows:
            share(m, tv, label, rows)
    m.stage(3, 1, WarpSpecialized(P.TIDy, registers, 2))
    m.fragments("tiles", 32)
    m.inline("tiles")
    return m.s.fusion


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (32, 0, "T6 by 2 [TIDy] and T7 by 1"),
        (0, 16, "T6 by 1 and T7 by 4 [TIDy]"),
        (32, 16, "T6 by 2 [TIDy] and T7 by 4 [TIDy]"),
    ],
)
def test_a_stage_is_filled_together(a: int, b: int, said: str) -> None:
    with pytest.raises(ScheduleError) as error:
        make_plan(shared_out(a, b))
    assert error.value.rule == "role"
    assert error.value.why == f"warpgroups fill a stage together, but load {said}"


@pytest.mark.parametrize("rows", [32, 64])
def test_shared_alike(rows: int) -> None:
    """By two warpgroups, or by a loop of one iteration."""
    plan = make_plan(shared_out(rows, rows))
    assert plan.parts[0].loads and warpgroups_that_load(plan.fusion, [("T6", "T7")]) == 64 // rows


def test_a_number_that_is_not_known_when_the_kernel_is_made() -> None:
    rows = maximum(Var("M"), 1)
    with pytest.raises(ScheduleError) as error:
        make_plan(shared_out(rows, rows))
    why = "the number of warpgroups that load T6 is no constant"
    assert (error.value.rule, error.value.why) == ("role", why)


def test_registers_of_all_warpgroups() -> None:
    """Three warpgroups start with 168 registers a thread: 2 x 96 and 312 for one would be too many
    for setmaxnreg, 2 x 136 and 240 are too many for the CTA.
    """
    assert make_plan(shared_out(32, 32, (96, 240))).registers(0) == 96
    with pytest.raises(ScheduleError) as error:
        make_plan(shared_out(32, 32, (136, 240)))
    assert error.value.rule == "registers"
    assert "256 x 136 + 128 x 240 = 65536 registers, the CTA has 384 x 168" in error.value.why


def test_how_many_load() -> None:
    two, both = b_by_two_warpgroups(), both_by_threads()
    assert warpgroups_that_load(two, [("T6", "T7")]) == 2
    assert warpgroups_that_load(both, [("T6", "T7"), ("T4",)]) == 3  # one more for a ring of TMA's
    assert warpgroups_that_load(two, [("T6",)] * 5) == 2
    assert warpgroups_that_load(two, [("T6", "T7")], 1) == 3  # of which one fetches tiles


@pytest.mark.parametrize(("loading_", "pair"), [(1, (40, 232)), (2, (96, 160))])
def test_pairs_that_fit(loading_: int, pair: tuple[int, int]) -> None:
    assert load_registers_problem(DEFAULT, loading_, 2, pair) is None
    more = (pair[0], pair[1] + 8)
    assert load_registers_problem(DEFAULT, loading_, 2, more) is not None
