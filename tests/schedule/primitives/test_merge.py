"""merge: before, after, refusals."""

from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError
from tests.schedule.fusions import linear, tiled
from wsched.fusion import nest_text
from wsched.schedule import merge


def test_merge() -> None:
    f = merge(linear(), "T5", 0)
    assert nest_text(f.tensor("T5")) == "T5_g___bfloat:\n  0: for i15 = M·N [Serial] in 0 .. M * N"
    assert str(f.history[0]) == "merge('T5', 0, 1)"


def test_inner_before_outer_with_traversal() -> None:
    f = merge(linear(), "T5", 1, 0, traversal=8, label="tiles")
    assert str(f.tensor("T5").transforms[0]) == (
        "Merge: iS14{N}, iS13{M}, traversal 8 -> iS15{N * M}"
    )
    assert str(f.history[0]) == "merge('T5', 1, 0, traversal=8, label='tiles')"


def test_tile_and_k_of_the_accumulator_are_not_merged() -> None:
    with pytest.raises(ScheduleError) as error:
        tiled().merge("T4", 1)
    assert str(error.value) == (
        "ScheduleError[merge]: merge('T4', 1, 2): tile is a dimension of T4 and k is summed over: "
        "the result has no k to be stored by\n"
        "  legal here: merge('T6', 1, 2); merge('T7', 1, 2)\n"
        "  in:\n"
        "    T4_l_float:\n"
        "      0: for i47 = cta [BIDx] in 0 .. %nctaid.x\n"
        "      1: for i46 = tile [Serial] in 0 .. "
        "ceildiv(ceildiv(M, 128) * ceildiv(N, 256), %nctaid.x)\n"
        "      2: for i39 = k [Serial] in 0 .. ceildiv(K, 64)\n"
        "      3: for i44 = Mi [Mma] in 0 .. 128\n"
        "      4: for i42 = Ni [Mma] in 0 .. 256\n"
        "      5: for i40 = Ki [Mma] in 0 .. 64"
    )


@pytest.mark.parametrize(
    ("axes", "traversal", "why"),
    [
        ((0, 0), 0, "a loop cannot be merged with itself"),
        ((1, 2), -1, "T5 has axes 0 to 1, not 2"),
    ],
)
def test_refused(axes: tuple[int, int], traversal: int, why: str) -> None:
    with pytest.raises(ScheduleError) as error:
        merge(linear(), "T5", *axes, traversal=traversal)
    assert (error.value.rule, error.value.why, error.value.legal) == ("merge", why, ())


def test_parallel_loop_is_refused() -> None:
    with pytest.raises(ScheduleError) as error:
        tiled().merge("T6", 0)
    assert error.value.why == "loop cta is parallelized on BIDx"
