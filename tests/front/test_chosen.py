"""An illegal schedule of wsched's own choosing is a defect at every door, no missing kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import wsched
from lowering.ground.errors import InternalError, ScheduleError
from tests.schedules import definition
from wsched.choose.gpus import GPUS
from wsched.front import chosen, kernels, known, sizes
from wsched.front.ahead import kernels_on
from wsched.front.explain import explain_definition
from wsched.front.sizes import DEFAULT, extents_for, kernel_for, schedule_for
from wsched.losses.why import why
from wsched.schedule.matmul.params import CircularBufferOptions, MatmulParams

TOO_MANY = MatmulParams(
    circular_buffer_options=CircularBufferOptions(smem_circular_buffer_stage=64)
)
TEXT = (
    "the schedule that was chosen: illegal [smem]: smem_circular_buffer_stage=64: 64 stages of 48 "
    "KiB + epilogue 32 KiB + barriers 1 KiB = 3105 KiB, limit 227 KiB; matmul_bfloat16_bfloat16_"
    "128x256x64_cooperative_persistent_s64_f1_2c08a2, params "
    '{"circular_buffer_options": {"circular_buffer_smem_write": true, "circular_buffer_smem_read": '
    'false, "smem_circular_buffer_stage": 64, "smem_circular_buffer_prefetch_gap": 2}}'
    "\nThis is a defect of wsched, please report it with the dump."
)
CUT = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    y = fd.ops.linear(x, w)
    z = fd.ops.linear(y, w)
    fd.add_output(z)
"""
"""Two kernels, the second of what the first one makes."""


@pytest.fixture(autouse=True)
def defect(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (chosen, kernels, sizes):
        monkeypatch.setattr(module, "choose_params", lambda problem: TOO_MANY)
    monkeypatch.setattr(known, "_texts", {})


def explained(text: str) -> Any:
    return explain_definition(text, "H200", lambda f: extents_for(f).problem(f))


@pytest.mark.parametrize("text", [definition(), CUT], ids=["one kernel", "cut"])
@pytest.mark.parametrize("door", [explained, lambda text: kernels_on(GPUS["H200"], text)])
def test_planned(door: Callable[[str], Any], text: str) -> None:
    with pytest.raises(InternalError) as caught:
        door(text)
    assert str(caught.value) == TEXT
    assert isinstance(caught.value.__cause__, ScheduleError)


@pytest.mark.parametrize("door", [kernel_for, schedule_for])
def test_by_sizes(door: Callable[..., Any]) -> None:
    with pytest.raises(InternalError, match="the schedule that was chosen"):
        door(definition(), DEFAULT)
    with pytest.raises(ScheduleError):  # what the caller chose
        door(definition(), DEFAULT, params=TOO_MANY)


def test_why() -> None:
    with pytest.raises(InternalError, match="the schedule that was chosen"):
        why(definition())
    with pytest.raises(ScheduleError):
        why(definition(), params=TOO_MANY)


@pytest.mark.parametrize("text", [definition(), CUT], ids=["one kernel", "cut"])
@pytest.mark.parametrize("door", [wsched.execute, wsched.explain])
def test_called(door: Callable[..., Any], text: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x, w = torch.zeros(64, 64).bfloat16(), torch.zeros(64, 64).bfloat16()
    with pytest.raises(InternalError) as caught:
        door(text, [x, w])
    assert str(caught.value) == TEXT


def test_compiled() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x, w = torch.zeros(64, 64).bfloat16(), torch.zeros(64, 64).bfloat16()
    with pytest.raises(InternalError) as caught:
        wsched.compile(definition(), [x, w])
    assert str(caught.value) == TEXT
    with pytest.raises(ScheduleError):
        wsched.compile(definition(), [x, w], params=TOO_MANY)


def test_a_program_that_cannot_run() -> None:
    making = chosen.of_own_making("the program of a cut", lambda: "2 linear")
    with pytest.raises(InternalError) as caught, making:
        raise ScheduleError("output", "output y", "it is an input", (), "a\nprogram")
    assert str(caught.value).splitlines()[0] == (
        "the program of a cut: illegal [output]: output y: it is an input; 2 linear"
    )
