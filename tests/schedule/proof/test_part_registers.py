"""Registers of parts: each ring says two numbers, and each part has one."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from lowering.ground.errors import ScheduleError
from lowering.kernel.text import print_kernel
from tests.legality.agreement import outcome
from tests.legality.by_hand.loads import loading
from tests.legality.by_hand.parts import epilogue_apart, operand_cast
from tests.legality.illegal import eight_in_turns
from tests.legality.machine import compiled
from wsched.fusion import CircularBuffer, Fusion, LoadStoreOpType, ParallelType, WarpSpecialized
from wsched.schedule import Plan, make_plan

Pair = tuple[int, int] | None


def with_pairs(f: Fusion, **pairs: Pair) -> Fusion:
    """The schedule with registers of the threads that fill a tensor and of those that read it."""
    changed = []
    for name, pair in pairs.items():
        t = f.tensor(name)
        assert isinstance(t.circular_buffer, CircularBuffer)
        assert isinstance(t.circular_buffer.type, WarpSpecialized)
        kind = replace(t.circular_buffer.type, num_registers=pair)
        changed.append(replace(t, circular_buffer=replace(t.circular_buffer, type=kind)))
    return f.updated(changed)


def refused(f: Fusion) -> tuple[str, str, tuple[str, ...]]:
    with pytest.raises(ScheduleError) as error:
        make_plan(f)
    return error.value.rule, error.value.why, error.value.legal


def registers(p: Plan) -> list[int | None]:
    return [p.registers(at) for at in range(len(p.parts))]


def test_each_part_has_its_own() -> None:
    f = with_pairs(epilogue_apart(), T6=(40, 160), T7=(40, 160), T8=(160, 144))
    assert registers(make_plan(f)) == [40, 160, 144]
    assert registers(make_plan(epilogue_apart())) == [None, None, None]


def test_they_are_set_in_the_kernel() -> None:
    """128 threads of 40 and 144 registers each, 256 of 160: what 512 threads of 128 have."""
    f = with_pairs(epilogue_apart(), T6=(40, 160), T7=(40, 160), T8=(160, 144))
    text = print_kernel(compiled(f))
    found = re.findall(r"role (\w+) .*\n *setmaxnreg (\w+), (\d+)", text)
    assert found == [("compute", "inc", "160"), ("epilogue", "inc", "144"), ("load", "dec", "40")]


def test_more_threads_than_a_cta_has() -> None:
    with pytest.raises(ScheduleError) as error:
        make_plan(eight_in_turns())
    assert str(error.value).splitlines()[:2] == [
        "ScheduleError[threads]: loop turn 8 [TIDy] of T4: 8 warpgroups that compute and 1 that "
        "load are 1152 threads, and a CTA has at most 1024",
        "  legal here: at most 7 warpgroups that compute",
    ]


def test_the_warp_that_fetches_tiles_is_of_a_warpgroup() -> None:
    """Threads of one load all operands, seven compute in turns, and nobody else is there."""
    m = loading(LoadStoreOpType.Set, LoadStoreOpType.Set)
    m.tile(64, 32, 32)
    m.deal(dynamic=True)
    m.split(m.every, "tile", 7, "tile turn")
    m.run(m.compute, "turn", ParallelType.TIDy)
    m.steps("tile turn k")
    m.stage(4, 2)
    m.fragments("turn", 32)
    m.inline("turn")
    said = outcome(m.s.fusion)
    assert said.refused == "threads" and not said.legal
    assert said.why.startswith("7 warpgroups that compute and 2 that load are 1152 threads")


def test_two_numbers_for_one_part() -> None:
    f = with_pairs(epilogue_apart(), T6=(40, 168), T7=(40, 168), T8=(160, 144))
    assert refused(f) == (
        "registers",
        "the threads of one part, compute, have different numbers of registers: 168 by T6, T7, "
        "160 by T8",
        ("one number on all rings that a part fills or reads",),
    )
    with pytest.raises(ScheduleError) as error:
        make_plan(f)
    first = str(error.value).partition(": the threads")[0]
    assert first.startswith("ScheduleError[registers]: circular_buffer('T6', ")
    assert re.findall(r"circular_buffer\('(\w+)'", first) == ["T6", "T7", "T8"], "all are named"


def test_loads_share_a_warpgroup() -> None:
    f = with_pairs(operand_cast(), T8=(40, 160), T7=(24, 144), T3=(144, 160))
    rule, why, _ = refused(f)
    assert (rule, why) == (
        "registers",
        "the threads of one part, load, have different numbers of registers: 40 by T8, 24 by T7",
    )


def test_a_ring_without() -> None:
    f = with_pairs(epilogue_apart(), T6=(40, 160), T7=(40, 160))
    rule, why, _ = refused(f)
    assert (rule, why) == (
        "registers",
        "the threads of one part, compute, have different numbers of registers: 160 by T6, T7, "
        "none by T8",
    )


def test_more_than_the_cta_has() -> None:
    f = with_pairs(epilogue_apart(), T6=(40, 168), T7=(40, 168), T8=(168, 152))
    assert refused(f) == (
        "registers",
        "128 x 40 + 256 x 168 + 128 x 152 = 67584 registers, the CTA has 512 x 128 = 65536",
        ("num_registers=None",),
    )


def test_warps_on_two_axes() -> None:
    """One axis counts those that fill rings, whatever they fill them with."""
    f = epilogue_apart()
    t = f.tensor("T8")
    assert t.circular_buffer is not None and isinstance(t.circular_buffer.type, WarpSpecialized)
    kind = replace(t.circular_buffer.type, on=ParallelType.TIDz)
    moved = f.updated([replace(t, circular_buffer=replace(t.circular_buffer, type=kind))])
    assert refused(moved) == (
        "role",
        "the warps that fill T8 are specialized on TIDz, those that fill T6 and T7 on TIDy: one "
        "axis counts the warps of a CTA",
        ("WarpSpecialized(ParallelType.TIDy)",),
    )
