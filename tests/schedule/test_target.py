"""A schedule is for one target: whoever refuses asks its limits, and the kernel carries it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.nest.lower import lower
from lowering.target.hopper import HOPPER
from lowering.target.target import Target
from tests.schedules import SCHEDULES, definition
from wsched.front.schedule import Schedule as OwnSchedule
from wsched.fusion import ParallelType, WarpSpecialized
from wsched.importer import build_fusion, record_text
from wsched.run.compiled import compile_fusion
from wsched.schedule.matmul.scheduler import plan_matmul
from wsched.schedule.matmul.tiles import fit_stages
from wsched.schedule.plan import make_plan
from wsched.schedule.registers import require_registers
from wsched.schedule.schedule import Schedule

FUSION = build_fusion(record_text(definition()))
PARAMS = SCHEDULES["coop_128x128"]
OTHER = replace(HOPPER, gpus=("other",))


def refused(target: Target) -> str:
    with pytest.raises(ScheduleError) as e:
        plan_matmul(FUSION, PARAMS, target)
    return f"{e.value.rule}: {e.value.why}"


def test_a_kernel_is_for_the_target_of_its_plan() -> None:
    made = plan_matmul(FUSION, PARAMS, OTHER)
    assert made.target is OTHER
    assert lower(made, "k").target is OTHER
    assert compile_fusion(FUSION, PARAMS, OTHER).kernel.target is OTHER
    assert OwnSchedule(definition()).target is HOPPER


def test_limits_of_parameters_are_the_targets() -> None:
    small = replace(HOPPER, shared_bytes=64 * 1024)
    assert refused(small) == (
        "smem: 6 stages of 32 KiB + epilogue 32 KiB + barriers 1 KiB = 225 KiB, limit 64 KiB"
    )
    assert refused(replace(HOPPER, max_threads=256)) == (
        "params: 3 warpgroups are 384 threads, a CTA has 256"
    )
    rows = replace(HOPPER, mma=replace(HOPPER.mma, m=128))
    assert "the warp tile's m 64 is no multiple of wgmma's 128" in refused(rows)
    operand = FUSION.tensor("T0").dtype
    fitted = [fit_stages(PARAMS, operand, (operand,), (), 1, target=t) for t in (HOPPER, small)]
    stages = [p and p.circular_buffer_options.smem_circular_buffer_stage for p in fitted]
    assert stages == [6, 1]


def test_the_proof_asks_the_target() -> None:
    """Of a schedule that is legal on Hopper: registers of warpgroups and of accumulators."""
    made = plan_matmul(FUSION, PARAMS)
    few = replace(HOPPER, setmaxnreg=(24, 208))
    with pytest.raises(ScheduleError) as e:
        make_plan(made.fusion, made.graph, few)
    assert (e.value.rule, e.value.why) == (
        "registers", "setmaxnreg takes multiples of 8 from 24 to 208, not 232"
    )  # fmt: skip
    with pytest.raises(ScheduleError) as e:
        require_registers(replace(made, target=replace(HOPPER, registers=32768)))
    assert e.value.why == (
        "64 accumulators of one wgmma and 32 other registers exceed the 80 of a thread, of 384 in "
        "a CTA"
    )


def test_a_call_asks_the_target_of_its_schedule() -> None:
    def called(target: Target) -> None:
        s = Schedule(made, target=target)
        s.circular_buffer(loads[0].name, 4, 2, WarpSpecialized(ParallelType.TIDy, (40, 232)))

    made = plan_matmul(FUSION, PARAMS).fusion
    loads = [replace(t, circular_buffer=None) for t in made.loads]
    made = made.updated(loads)
    called(HOPPER)
    with pytest.raises(ScheduleError) as e:
        called(replace(HOPPER, register_step=16))
    assert e.value.why == (
        "setmaxnreg takes multiples of 16 from 24 to 240, not 40; setmaxnreg takes multiples of 16 "
        "from 24 to 240, not 232"
    )


def test_rules_of_the_lowering_ask_the_target() -> None:
    """The fragments of a schedule for Hopper are half of another target's."""
    rows = replace(HOPPER, mma=replace(HOPPER.mma, m=128))
    with pytest.raises(UnsupportedError) as e:
        lower(replace(plan_matmul(FUSION, PARAMS), target=rows), "k")
    assert "[N / n, K / 16, M / 128 | Mma: 128, n, 16]" in str(e.value)
