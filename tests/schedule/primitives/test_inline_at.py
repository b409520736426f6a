"""inline_at: before, after, refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import ScheduleError
from tests.schedule.fusions import COOPERATIVE, NON_PERSISTENT, linear, tiled
from wsched.fusion import Fusion, ParallelType
from wsched.schedule import Schedule, inline_at, schedule_matmul


def rows(parallel: ParallelType = ParallelType.Serial) -> Schedule:
    """T4 and T5 both split into rows of 128."""
    s = Schedule(linear())
    s.split("T4", 0, 128)
    s.split("T5", 0, 128)
    s.parallelize("T4", 0, parallel)
    return s


def test_inline_at() -> None:
    s = rows()
    s.inline_at("T4", 3)
    assert s.tensor("T4").compute_at == 3
    assert str(s.fusion.history[-1]) == "inline_at('T4', 3)"


def test_not_inside_a_reduction() -> None:
    with pytest.raises(ScheduleError) as error:
        rows().inline_at("T4", 4)
    assert str(error.value) == (
        "ScheduleError[inline]: inline_at('T4', 4): T4 sums over loop K: T5 needs the whole sum; "
        "T5 has only 3 loops\n"
        "  legal here: inline_at('T4', 3)\n"
        "  in:\n"
        "    T4_l_float:\n"
        "      0: for i15 = Mo [Serial] in 0 .. ceildiv(M, 128)\n"
        "      1: for i16 = Mi [Serial] in 0 .. 128\n"
        "      2: for i11 = N [Serial] in 0 .. N\n"
        "      3: for i12 = K [Serial] in 0 .. K"
    )


def test_loops_must_be_mapped_and_alike() -> None:
    with pytest.raises(ScheduleError) as error:
        rows(ParallelType.BIDx).inline_at("T4", 1)
    assert error.value.why == "loop Mo is BIDx on T4 and Serial on T5"
    s = rows()
    s.split("T4", 0, 2)
    with pytest.raises(ScheduleError) as error:
        s.inline_at("T4", 1)
    assert error.value.why == "loop 0 of T4 is Moo, that of T5 is Mo"


def test_positions_and_readers() -> None:
    with pytest.raises(ScheduleError) as error:
        rows().inline_at("T4", 5)
    assert error.value.why == "T4 has positions 0 to 4, not 5"
    with pytest.raises(ScheduleError) as error:
        rows().inline_at("T5", 1)
    assert error.value.why == "nothing reads T5"


def unbuffered(f: Fusion) -> Fusion:
    loads = [replace(f.tensor(n), circular_buffer=None) for n in ("T6", "T7")]
    return f.updated(loads)


def test_nothing_is_inlined_across_the_cut() -> None:
    f = schedule_matmul(linear(), NON_PERSISTENT)
    with pytest.raises(ScheduleError) as error:
        inline_at(f, "T6", 1)
    assert error.value.why == (
        "T6 is loaded by the load warpgroup and T4 runs in the compute warpgroups: the two share "
        "no loop, the load index ties them"
    )
    assert error.value.legal == ("inline_at('T6', 0)",)
    assert inline_at(unbuffered(f), "T6", 1).tensor("T6").compute_at == 1


def test_a_merged_load_loop_is_not_the_consumers() -> None:
    f = unbuffered(schedule_matmul(linear(), COOPERATIVE))
    with pytest.raises(ScheduleError) as error:
        inline_at(f, "T6", 2)
    assert error.value.why == "loop 1 of T6 is tile·k, that of T4 is tile"


def test_tiled_loads_could_be_inlined_up_to_k() -> None:
    s = tiled()
    s.inline_at("T6", 3)
    assert s.tensor("T6").compute_at == 3
