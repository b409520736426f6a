"""What a machine has too little of is said in a line, with exit status 2."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from wsched.choose.tuned.lookup import forget
from wsched.cli import app as module
from wsched.cli.app import app
from wsched.cli.entry import main


class OutOfMemoryError(RuntimeError):
    """As torch's is called."""


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (MemoryError(), "out of memory: MemoryError"),
        (MemoryError("35 PiB"), "out of memory: 35 PiB"),
        (OutOfMemoryError("CUDA out of memory.\nmore"), "out of memory: CUDA out of memory."),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: 8 bytes"),
            "out of memory: DefaultCPUAllocator: can't allocate memory: 8 bytes",
        ),
        (RecursionError("maximum depth"), "nested deeper than Python's stack"),
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
        (ImportError("libx.so: failed to map"), "libx.so: failed to map"),
        (
            ModuleNotFoundError("No module named 'torch.cuda'", name="torch.cuda"),
            "this needs torch, which is not installed here: pip install torch",
        ),
    ],
)
def test_errors_of_the_machine(
    error: Exception, text: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> None:
        raise error

    monkeypatch.setattr(module, "explain_definition", failing)
    result = CliRunner().invoke(app, ["explain", str(file)])
    assert (result.exit_code, result.stderr) == (2, f"{text}\n")


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("a defect"),
        KeyError("x"),
        AssertionError(),
        ModuleNotFoundError("No module named 'passes.no'", name="passes.no"),
    ],
)
def test_defects_keep_their_traceback(
    error: Exception, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> None:
        raise error

    monkeypatch.setattr(module, "explain_definition", failing)
    assert CliRunner().invoke(app, ["explain", str(file)]).exception is error


@pytest.mark.sampled(1)
@pytest.mark.parametrize("command", ["run", "trace"])
@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ("1000000x1000000x8", " on the machine that takes "),
        ("100000000x100000000x100000000", " 100000000 x 100000000 x 100000000"),
    ],
)
def test_inputs_take_no_memory_before_sizes_are_checked(
    command: str, shape: str, text: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("wsched.cli.app.device", lambda _: "cpu")
    monkeypatch.setattr("wsched.cli.check.random_inputs", None)
    result = CliRunner().invoke(app, [command, str(file), "--shape", shape])
    assert result.exit_code == 2
    assert text.strip() in result.stderr and "not supported" in result.stderr


def test_an_empty_problem_runs(file: Path) -> None:
    result = CliRunner().invoke(app, ["run", str(file), "--shape", "0x64x64"])
    assert result.exit_code == 0 and result.stdout.startswith("RIGHT: 0 x 64 ")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk(file: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "wsched", "explain", str(file)],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.strip() == "[Errno 28] No space left on device"


def test_a_full_disk_for_what_no_command_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Help and the version are written before there is a command."""

    def full(**_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "app", full)
    with pytest.raises(SystemExit) as end:
        main()
    told = "[Errno 28] No space left on device\n"
    assert (end.value.code, capsys.readouterr().err) == (2, told)


def test_warnings_are_a_line(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ours, that is; others are as Python has them."""
    missing = tmp_path / "typo.json"
    monkeypatch.setenv("WSCHED_TUNED", str(missing))
    forget()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        result = CliRunner().invoke(app, ["explain", str(file), "--shape", "512x512x512"])
    forget()
    assert result.exit_code == 0
    assert result.stderr == (
        f"wsched: {missing}: WSCHED_TUNED names it, and there is no such file; it counts as empty. "
        "WSCHED_TUNED=0 ignores all tables.\n"
    )

    def others(*_: Any) -> None:
        warnings.warn("mind the gap", RuntimeWarning, stacklevel=1)
        raise MemoryError

    seen: list[str] = []
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_: seen.append(str(message)))
    monkeypatch.setattr(module, "explain_definition", others)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        CliRunner().invoke(app, ["explain", str(file)])
    assert seen == ["mind the gap"]
