"""The examples, on the machine model: each one runs, and says what it promises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from examples import (
    batched,
    drop_in,
    eight_bits,
    epilogue,
    gated_mlp,
    linear,
    own_schedule,
    parts,
    residual,
    stress,
    tune,
    why,
)
from wsched import Schedule

ROUNDED = 4e-3
"""Relative error of a bf16 result."""


def test_each_of_them_is_run_here() -> None:
    names = {f.stem for f in Path(linear.__file__).parent.glob("*.py")}
    assert names and {f"test_{name}" for name in names} <= set(globals())


def test_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert "idle SMs, " in why.main()
    assert "us of 42.1 are lost to power" in capsys.readouterr().out


def test_linear(capsys: pytest.CaptureFixture[str]) -> None:
    assert linear.main() < ROUNDED
    printed = capsys.readouterr().out
    assert "tile" in printed and "cta_tile" in printed and "0 + 0 bytes spilled" in printed


def test_eight_bits(capsys: pytest.CaptureFixture[str]) -> None:
    errors = eight_bits.main()
    assert errors["torch.float8_e4m3fn"] < 5e-2 and errors["torch.int8"] < 2e-2
    assert "int_mm: torch.int32 [200, 144]" in capsys.readouterr().out


def test_epilogue(capsys: pytest.CaptureFixture[str]) -> None:
    assert max(epilogue.main()) < ROUNDED
    assert "136x192x128 on 132 multiprocessors" in capsys.readouterr().out


def test_residual(capsys: pytest.CaptureFixture[str]) -> None:
    assert residual.main() < ROUNDED
    assert "out[0] shares memory with input 0" in capsys.readouterr().out


def test_gated_mlp(capsys: pytest.CaptureFixture[str]) -> None:
    assert gated_mlp.main() < ROUNDED
    printed = capsys.readouterr().out
    assert printed.count("= mma(") == 2 and printed.count("= CpAsyncBulkTensorTile(") == 4


def test_batched() -> None:
    assert max(batched.main()) < ROUNDED


def test_drop_in() -> None:
    pytest.importorskip("nvfuser_direct")
    assert drop_in.main().startswith("2048x4096x4096 on 132 multiprocessors: matmul_")


@pytest.mark.slow
def test_tune() -> None:
    assert [name.split("_")[3] for name in tune.main()] == ["128x64x64", "128x128x64", "128x256x64"]


@pytest.mark.slow
def test_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    words = [sys.executable, "-m", "examples.trace", str(path)]  # as a user runs it
    hidden = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(words, env=hidden, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "main_loop" in done.stdout, done.stderr
    assert json.loads(path.read_text())["traceEvents"]


def test_stress() -> None:
    assert stress.main("3") == 3


def test_own_schedule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "own.sched"
    assert own_schedule.main(str(path)) < ROUNDED
    printed = capsys.readouterr().out
    assert "ScheduleError[load-order]" in printed and "legal here: merge the load loops" in printed
    assert f"{Schedule.load(path).check()}" in printed


def test_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert parts.main() < ROUNDED
    printed = capsys.readouterr().out
    assert "transform T3 (ring1, 3 stages)" in printed
    assert "ring1, from transform T3 to compute T6:" in printed
    assert "CTAs of 512 threads" in printed
