"""accumulate_in: before, after, refusals, as text."""

from __future__ import annotations

import pytest

import wsched
from lowering.ground.errors import ScheduleError
from lowering.target.blackwell import BLACKWELL
from tests.schedule.fusions import linear
from tests.schedules import definition
from wsched.fusion import DataType
from wsched.schedule import accumulate_in, split


def test_the_product_is_cast_from_the_sums() -> None:
    f, name = accumulate_in(linear("Half"), "T4", DataType.Half)
    assert name == "T6" and f.mmas[0].output == "T6"
    assert [f"{e.output} = {e}" for e in f.exprs][2:] == [
        "T6 = mma(T2, T3)", "T4 = cast(T6)", "T5 = cast(T4)",
    ]  # fmt: skip
    assert str(f.tensor("T6")) == "T6_l___half[ iS15{M}, iS16{N}, rS17{K} ]"
    assert str(f.tensor("T4")).endswith("_l_float[ iS10{M}, iS11{N} ]")


@pytest.mark.parametrize(
    ("tv", "dtype", "why"),
    [
        ("T5", DataType.Half, "T5 is no matrix product"),
        (
            "T4",
            DataType.BFloat16,
            "wgmma sums products of f16 by f16 in f32 or f16, not in BFloat16",
        ),
    ],
)
def test_refused(tv: str, dtype: DataType, why: str) -> None:
    with pytest.raises(ScheduleError) as error:
        accumulate_in(linear("Half"), tv, dtype)
    assert (error.value.rule, error.value.why) == ("accumulate_in", why)


def test_refused_by_types_target_and_what_is_done() -> None:
    half = DataType.Half
    for f, why in (
        (linear(), "wgmma sums products of bf16 by bf16 in f32, not in Half"),
        (split(linear("Half"), "T4", 0, 2), "T4 is transformed already: say it first"),
    ):
        with pytest.raises(ScheduleError) as error:
            accumulate_in(f, "T4", half)
        assert error.value.why == why
    with pytest.raises(ScheduleError, match=r"tcgen05\.mma sums products of f16 by f16 in f32"):
        accumulate_in(linear("Half"), "T4", half, BLACKWELL)


def test_it_is_a_call_of_a_schedule() -> None:
    s = wsched.Schedule(definition("f16", "f16"))
    acc = s[s.acc].accumulate_in(DataType.Half)
    assert acc.name == s.acc
    again = wsched.Schedule.parse(str(s))
    assert again.fusion == s.fusion and "s.accumulate_in('T4', DataType.Half)" in str(s)
