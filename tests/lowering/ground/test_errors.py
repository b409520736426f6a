"""Errors cross processes: workers of a bench and of a test runner send them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator

import pytest

from lowering.cuda.nvrtc import CompileError
from lowering.ground.errors import InternalError, ScheduleError, UnsupportedError, WschedError
from lowering.kernel.lexer import IRSyntaxError
from lowering.machine.errors import DeadlockError, MachineError
from wsched.importer.input_error import InputError

ERRORS = (
    ScheduleError("smem", "stages=9", "too much", ("stages=8",), "for k"),
    UnsupportedError("fp4", "bf16", "cast it"),
    InternalError("verify", "no such name", "kernel k() {}"),
    MachineError("cta 0", "reads what was not written", "a = b"),
    DeadlockError(("warp 0 waits",)),
    CompileError("k", "NVRTC_ERROR_COMPILATION", "k.cu(3): error"),
    IRSyntaxError(3, "}", "a name"),
    InputError("2 inputs, the definition has 3", "inputs", "2", "3"),
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_an_error_comes_back_as_it_was(error: WschedError) -> None:
    for other in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert vars(other) == vars(error)


def test_every_error_can_be_sent() -> None:
    """Also one whose constructor takes something else than the text."""

    class _CountError(WschedError):
        def __init__(self, count: int, *, unit: str) -> None:
            self.count = count
            super().__init__(f"{count} {unit}")

    kinds = list(_subclasses(WschedError))
    assert {type(e) for e in ERRORS} <= set(kinds)
    assert all("__reduce__" not in vars(k) and "__reduce_ex__" not in vars(k) for k in kinds)
    restored, state = _CountError(3, unit="inputs").__reduce__()
    assert (str(restored(*state)), restored(*state).count) == ("3 inputs", 3)


def _subclasses(kind: type[WschedError]) -> Iterator[type[WschedError]]:
    for k in kind.__subclasses__():
        yield k
        yield from _subclasses(k)
