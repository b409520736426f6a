"""A defect of wsched's under ``install``: nvFuser runs the call, and a warning tells it."""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from lowering.ground.errors import InternalError
from tests.doors.dropin.definitions import BUILDERS, built, inputs_of, torch
from tests.doors.dropin.spy import Spy
from wsched.doors.dropin import execute
from wsched.doors.fallback import interpret
from wsched.front import kernels
from wsched.importer import definition_of
from wsched.schedule.matmul.params import CircularBufferOptions, MatmulParams


@pytest.fixture(autouse=True)
def installed(nvfuser: Spy) -> Any:
    with wsched.enabled():
        yield


def too_many_stages(problem: Any) -> MatmulParams:
    """A choice that is a defect of whoever makes it."""
    return MatmulParams(
        circular_buffer_options=CircularBufferOptions(smem_circular_buffer_stage=64)
    )


def test_a_defect_is_told_once_and_nvfuser_runs_the_call(
    monkeypatch: pytest.MonkeyPatch, nvfuser: Spy
) -> None:
    monkeypatch.setattr(kernels, "choose_params", too_many_stages)
    fd, inputs = built(BUILDERS["linear"]), inputs_of("linear")
    with pytest.warns(RuntimeWarning) as caught:
        (found,) = fd.execute(inputs)
    (text,) = (str(w.message) for w in caught)
    assert text.startswith(
        "wsched: linear: nvFuser runs it, because of a defect of wsched's, the schedule that was "
        "chosen: illegal [smem]: smem_circular_buffer_stage=64: 64 stages of "
    )
    assert "\n" not in text
    torch.testing.assert_close(found, interpret(definition_of(fd), inputs)[0])
    fd.execute(inputs)
    assert [c[0] is fd for c in nvfuser.calls] == [True, True]
    (tally,) = fd._wsched.known.left.values()
    assert tally.calls == 2 and text.endswith(tally.reason)


@pytest.mark.filterwarnings("error")
def test_a_defect_is_an_error_where_warnings_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "choose_params", too_many_stages)
    with pytest.raises(RuntimeWarning, match="a defect of wsched's"):
        built(BUILDERS["linear"]).execute(inputs_of("linear"))


def test_a_defect_that_a_kernel_meets_surfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(*args: Any) -> Any:
        raise InternalError("watchdog", "something")

    monkeypatch.setattr(execute, "_run_of", lambda *_: hangs)
    with pytest.raises(InternalError):
        built(BUILDERS["linear"]).execute(inputs_of("linear"))
