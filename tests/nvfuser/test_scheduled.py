"""Door 2 with a stand-in for nvFuser's module: what it is told, what is refused, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lowering.ground.errors import ScheduleError, UnsupportedError
from tests.nvfuser.cases import COOPERATIVE, linear
from wsched.importer.input_error import InputError
from wsched.importer.linear import LINEAR
from wsched.nvfuser import from_nvfuser, schedule, to_fields, to_nvfuser
from wsched.nvfuser.params import read_fields
from wsched.schedule.matmul.params import MatmulParams


@pytest.fixture
def nvf(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The real nvfuser_direct, but for what needs a device: parameters, scheduler, kernel."""
    nvf = pytest.importorskip("nvfuser_direct")
    made = lambda: SimpleNamespace(cparams=SimpleNamespace(enable_magic_zero=True))  # noqa: E731
    scheduled: list[Any] = []
    monkeypatch.setattr(nvf, "MatmulParams", made)
    monkeypatch.setattr(nvf.schedule, "schedule", lambda *a: scheduled.append(a))
    monkeypatch.setattr(nvf, "scheduled", scheduled, raising=False)
    return nvf


def matrices(m: int = 64, n: int = 64, k: int = 64) -> list[Any]:
    import torch

    return [torch.empty(*s, dtype=torch.bfloat16) for s in ((m, k), (n, k))]


@pytest.mark.parametrize("text", [True, False])
def test_what_nvfuser_is_told(nvf: Any, text: bool) -> None:
    fd = linear(nvf)
    done = schedule(LINEAR if text else fd, matrices(256, 512, 64), COOPERATIVE)
    ((fusion, kind, live),) = nvf.scheduled
    assert (fusion, kind, live) == (done.definition.fusion, nvf.SchedulerType.matmul, done.live)
    assert fusion is not fd.fusion  # the caller's definition stays as it is
    assert read_fields(live) == done.fields == to_fields(COOPERATIVE)
    assert live.supported_vec_size.epilogue == 2
    assert not live.cparams.enable_magic_zero
    assert done.params is COOPERATIVE


def test_to_nvfuser(nvf: Any) -> None:
    live = to_nvfuser(COOPERATIVE)
    assert from_nvfuser(live, base=COOPERATIVE) == COOPERATIVE
    assert read_fields(live) == to_fields(COOPERATIVE)


@pytest.mark.parametrize("ask", ["to_nvfuser", "schedule"])
def test_without_a_gpu(ask: str) -> None:
    """nvFuser's own parameters ask the device when they are made."""
    pytest.importorskip("nvfuser_direct")
    with pytest.raises(
        UnsupportedError, match=r"CUDA.* nvFuser asks a CUDA GPU, and there is none"
    ):
        to_nvfuser(COOPERATIVE) if ask == "to_nvfuser" else schedule(LINEAR, matrices())


def test_the_choice_is_for_nvfusers_kernel(nvf: Any) -> None:
    done = schedule(LINEAR, matrices(200, 320, 256))
    assert not done.params.use_ldst_matrix
    assert done.params.wgmma_in_flight == 0


def test_execute(nvf: Any) -> None:
    inputs = matrices()
    done = schedule(LINEAR, inputs)
    ran: list[Any] = []
    done.definition.manual_execute = lambda *a: ran.append(a) or ["D"]
    assert done.execute(inputs) == ["D"]
    assert ran == [(inputs, done.live)]


def test_other_shapes_need_another_schedule(nvf: Any) -> None:
    done = schedule(LINEAR, matrices())
    with pytest.raises(InputError) as error:
        done.execute(matrices(128))
    assert str(error.value) == (
        "inputs of shapes ((128, 64), (64, 64)), scheduled for ((64, 64), (64, 64))"
    )


def test_nvfuser_refuses(nvf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("\nExpected this . But that.\nframe 0")

    monkeypatch.setattr(nvf.schedule, "schedule", refuse)
    text = (
        "this schedule by nvFuser's matmul scheduler (Expected this . But that.) is not supported; "
        "supported: what nvFuser takes"
    )
    with pytest.raises(UnsupportedError) as error:
        schedule(LINEAR, matrices())
    assert str(error.value) == text
    monkeypatch.undo()


def test_the_kernel_does_not_compile(nvf: Any) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("too many resources")

    done = schedule(LINEAR, matrices())
    done.definition.manual_execute = fail
    with pytest.raises(UnsupportedError, match="too many resources"):
        done.execute(matrices())


def test_a_fault_of_the_device_passes(nvf: Any) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    done = schedule(LINEAR, matrices())
    done.definition.manual_execute = fail
    with pytest.raises(RuntimeError, match="illegal memory access"):
        done.execute(matrices())


def test_parameters_that_make_a_wrong_kernel(nvf: Any) -> None:
    with pytest.raises(UnsupportedError, match="sizes that are multiples of 16"):
        schedule(LINEAR, matrices(200, 64, 64), COOPERATIVE)


def test_wscheds_default_parameters_are_refused_by_name(nvf: Any) -> None:
    """Four stages of 48 KiB do not fit beside nvFuser's whole tile of results."""
    with pytest.raises(ScheduleError) as error:
        schedule(LINEAR, matrices(256, 256, 64), MatmulParams())
    assert str(error.value) == (
        "ScheduleError[smem]: smem_circular_buffer_stage=4: 3 stages fit beside nvFuser's "
        "epilogue, which keeps a whole tile of each result\n"
        "  legal here: smem_circular_buffer_stage=3"
    )
