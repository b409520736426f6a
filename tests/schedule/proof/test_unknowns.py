"""Values that only the device knows, as factors of splits: what is proved of them, and refused."""

from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Const, Expr, Var, ceildiv, maximum, minimum
from lowering.nest.lower import lower
from tests.lists import side_by_side as tensors_side_by_side
from tests.lowering.nest.own import Draft
from tests.schedule.fusions import LOADS, buffered, tiled
from tests.schedule.proof.test_legality_enumerated import PROBLEMS, SIZES, holds
from tests.schedule.relation import load_relation
from wsched import Schedule
from wsched.fusion import Fusion, Unknown
from wsched.schedule.loops import loops_text, side_by_side

TURN = Unknown("turn", 1, 4, "the host writes it before the launch")
turn = Var("turn")


def given(least: int = 1) -> tuple[str, int, int, str]:
    return "turn", least, TURN.most, TURN.promise


def in_pieces(factor: Expr) -> Fusion:
    """k in pieces of as many steps as ``factor`` says, at small sizes; loads count one by one."""
    s = tiled(SIZES)
    s.assume(*given())
    s.split("T4", 2, factor, labels=("ko", "ki"))
    for tv in LOADS:
        s.merge(tv, 1)
    return buffered(s)


def own(factor: Expr, least: int | None = 1) -> Schedule:
    """Likewise a whole schedule; without ``least`` nothing is assumed."""
    draft = Draft()
    draft.tile(64, 128, 64)
    draft.deal()
    draft.fill("tile", "k")
    if least is not None:
        draft.s.assume(*given(least))
    draft.s[draft.acc].split("k", factor, labels=("ko", "ki"))
    draft.multiply()
    draft.store("tile")
    return draft.s


@pytest.mark.sampled
@pytest.mark.parametrize(
    "factor", [turn, turn * 2, maximum(turn, 2), ceildiv(turn + 1, 2), turn % 5]
)
def test_legal_for_all_that_is_assumed(factor: Expr) -> None:
    """Each value gives, by enumeration, the loads that compute takes, in its order."""
    f = in_pieces(factor)
    relation = load_relation(f)
    for value in range(TURN.least, TURN.most + 1):
        for env in PROBLEMS:
            assert holds(f, {**env, "turn": value}, relation)


def test_the_plan_lists_what_it_assumes() -> None:
    made = own(turn).plan()
    assert made.assumptions == (TURN,)
    assert turn in made.numbers  # no launch binds it, and none is asked to: it is not lowered


def test_sides_that_agree_for_some_values_only() -> None:
    """Compute takes every piece's first step, then every piece's second one."""
    s = tiled(SIZES)
    s.assume(*given())
    s.split("T4", 2, turn, labels=("ko", "ki"))
    s.reorder("T4", {2: 3, 3: 2})
    for tv in LOADS:
        s.merge(tv, 1)
    f = buffered(s)
    with pytest.raises(ScheduleError) as error:
        load_relation(f)
    assert error.value.rule == "load-order"
    agree = {v: all(holds(f, {**env, "turn": v}, None) for env in PROBLEMS) for v in (1, 2)}
    assert agree == {1: True, 2: False}


@pytest.mark.parametrize(
    ("least", "factor", "why"),
    [
        (0, turn, "the factor turn is not known to be positive"),
        (1, turn // 2, "the factor turn // 2 is not known to be positive"),
        (1, turn - 2, "the factor turn - 2 is not known to be positive"),
        (1, turn % 3, "the factor turn % 3 is not known to be positive"),
        (1, minimum(turn, Var("K")), "the factor min(turn, K) is not known to be positive"),
        (0, ceildiv(Const(8), turn), "ceildiv(8, turn) divides by turn, which is not known to be "
         "positive"),
    ],
)  # fmt: skip
def test_factors_that_may_not_be_positive(least: int, factor: Expr, why: str) -> None:
    with pytest.raises(ScheduleError) as error:
        own(factor, least)
    assert (error.value.rule, error.value.why) == ("factor", why)


@pytest.mark.parametrize("factor", [turn // 2, turn - 1])
def test_legal_for_larger_bounds(factor: Expr) -> None:
    """The bounds decide: a factor that is refused from 1 on is taken from 2 on."""
    with pytest.raises(ScheduleError):
        own(factor, 1)
    own(factor, 2)


def test_a_name_of_which_nothing_is_assumed() -> None:
    with pytest.raises(ScheduleError) as error:
        own(turn, None)
    assert error.value.rule == "factor"
    assert error.value.why == "turn is no extent of the definition"


@pytest.mark.parametrize(
    ("name", "least", "most", "why"),
    [
        ("M", 1, 2, "M is the size of a tensor"),
        ("turn", 1, 2, "turn is assumed already"),
        ("sms", 1, 2, "'sms' is no name of an extent"),
        ("2x", 1, 2, "'2x' is no name of an extent"),
        ("rows", 3, 2, "3 .. 2 is no range within 0 .. 2147483647"),
        ("rows", -1, 2, "-1 .. 2 is no range within 0 .. 2147483647"),
        ("rows", 0, 2**31, "0 .. 2147483648 is no range within 0 .. 2147483647"),
    ],
)
def test_assumptions_that_are_none(name: str, least: int, most: int, why: str) -> None:
    s = own(turn)
    with pytest.raises(ScheduleError) as error:
        s.assume(name, least, most, "")
    wrote = f"assume({name!r}, {least}, {most}, '')"
    assert (error.value.rule, error.value.wrote, error.value.why) == ("assume", wrote, why)


@pytest.mark.parametrize("name", ["M", "N", "K", "N0", "N1"])
def test_names_of_the_sizes_of_a_list(name: str) -> None:
    """Each tensor of it has a size of its own, which a launch binds like the others."""
    s = Schedule(tensors_side_by_side(2))
    with pytest.raises(ScheduleError) as error:
        s.assume(name, 1, 2, "")
    assert error.value.why == f"{name} is the size of a tensor"
    s.assume("N2", 1, 2, "")


def test_it_is_shown_and_not_lowered() -> None:
    s = own(turn)
    line = "assumed: 1 <= turn <= 4: the host writes it before the launch"
    assert loops_text(s.fusion).endswith(f"{line}\n")
    assert side_by_side(s.fusion).endswith(f"{line}\n")
    found = s.check()
    assert found.legal and f"  {line}\n" in str(found)
    assert str(found.error) == (
        "a loop that depends on turn, which only the device knows is not supported; supported: "
        "loops that depend on the sizes of tensors and the number of CTAs"
    )


def test_the_text_of_a_schedule_has_it() -> None:
    s = own(turn)
    assert Schedule.parse(str(s)).fusion == s.fusion


def test_an_unknown_that_no_loop_depends_on() -> None:
    """It is no assumption of the proof, and the kernel is made."""
    made = own(Const(2)).plan()
    assert made.assumptions == ()
    assert lower(made, "k").name == "k"
