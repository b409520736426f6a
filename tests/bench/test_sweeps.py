"""The bench of sweeps: its cases run on the machine in small, and what it prints."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wsched.bench.sweeps import CASES, main, report
from wsched.doors.fallback import interpret
from wsched.importer import record_text
from wsched.importer.sweep import import_sweep
from wsched.run.sweep import compiled_sweep

torch = pytest.importorskip("torch", reason="torch is not installed")


@pytest.mark.parametrize("name", CASES)
def test_cases_are_right(name: str) -> None:
    """In small, with rows as odd as they are."""
    case = CASES[name]
    inputs = tuple((tuple(min(n, 32 + n % 2) for n in s), kind) for s, kind in case.inputs)
    small = replace(case, inputs=inputs)
    definition, tensors = record_text(small.text), small.tensors("cpu")
    found = compiled_sweep(import_sweep(definition))(*tensors)
    for a, b in zip(found, interpret(definition, tensors), strict=True):
        torch.testing.assert_close(a, b, rtol=2**-7, atol=2**-7)


def test_the_line() -> None:
    found = {
        "case": "gate", "bytes": 4_000_000, "predicted_us": 4.0, "error": 0.0,
        "us": {"wsched": 2.0, "nvfuser": 3.0}, "host_us": {"wsched": 4.5, "nvfuser": 20.0},
    }  # fmt: skip
    assert report(found) == (
        "gate                   wsched     2.0 (host   4.5)  nvfuser     3.0 (host  20.0) us; "
        "wsched 2.00 TB/s, 1.50 of nvFuser's time, predicted 4.0, error 0.0e+00"
    )


def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(SystemExit) as error:
        main([])
    assert error.value.code == 2
    assert "measuring sweeps without a GPU is not supported" in capsys.readouterr().err
