"""The bench of sweeps: its cases run on the machine in small, and what it prints."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.cuda.emit import emit_cuda
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.ground.errors import UnsupportedError
from wsched.bench import sweeps
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


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", CASES)
def test_machine_code_without_spills(name: str) -> None:
    """Of the kernel that is measured, the sine's among them."""
    case = CASES[name]
    made = compiled_sweep(import_sweep(record_text(case.text)))
    kernel = made.kernel(made.walk(case.tensors("meta")))
    found = read_resources(compile_cubin(emit_cuda(kernel), "sweep.cu"), kernel.name)
    assert found.spill_stores == found.spill_loads == found.stack == 0


@pytest.mark.parametrize("name", CASES)
def test_inputs_are_where_they_are_asked_for(name: str) -> None:
    """All of one case in one place, an index among them."""
    assert {t.device.type for t in CASES[name].tensors("meta")} == {"meta"}


def test_what_inputs_are_drawn_from() -> None:
    """Normal numbers; as many are true as are not."""
    inputs = ((100, 100), "Float"), ((100, 100), "Bool"), ((100,), "Int")
    case = replace(CASES["gate"], inputs=inputs, turned=())
    numbers, truths, index = case.tensors("cpu")
    assert abs(float(numbers.mean())) < 0.1 and abs(float(numbers.std()) - 1) < 0.1
    assert truths.dtype is torch.bool and abs(float(truths.float().mean()) - 0.5) < 0.1
    assert 0 <= int(index.min()) <= int(index.max()) < 100


def test_the_line() -> None:
    found = {
        "case": "gate", "bytes": 4_000_000, "predicted_us": 4.0, "error": 0.0,
        "us": {"wsched": 2.0, "nvfuser": 3.0}, "host_us": {"wsched": 4.5, "nvfuser": 20.0},
    }  # fmt: skip
    assert report(found) == (
        "gate                   wsched     2.0 (host   4.5)  nvfuser     3.0 (host  20.0) us; "
        "wsched 2.00 TB/s, 1.50 times as fast as nvFuser, predicted 4.0, error 0.0e+00"
    )


def test_a_case_that_nvfuser_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is told without a ratio; nvFuser is asked before anything is timed."""

    class Failing:
        def execute(self, inputs: list[object]) -> list[object]:
            raise RuntimeError("INTERNAL ASSERT FAILED")

    monkeypatch.setattr(sweeps, "rebuild", lambda definition: Failing())
    with pytest.raises(UnsupportedError) as error:
        sweeps.beside(record_text(CASES["gate"].text), [])
    found = {
        "case": "gate", "bytes": 4_000_000, "predicted_us": 4.0, "error": 0.0,
        "us": {"wsched": 2.0}, "host_us": {"wsched": 4.5},
        "failed": f"nvFuser fails: {error.value}",
    }  # fmt: skip
    assert report(found) == (
        "gate                   wsched     2.0 (host   4.5) us; wsched 2.00 TB/s, nvFuser fails: "
        "this definition by nvFuser (INTERNAL ASSERT FAILED) is not supported; "
        "supported: what nvFuser takes, predicted 4.0, error 0.0e+00"
    )


def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main([])
    assert error.value.code == 2
    told = "python -m wsched.bench.sweeps here (torch.cuda finds no GPU) is not supported; "
    assert capsys.readouterr().err == f"{told}supported: a CUDA GPU with torch\n"
