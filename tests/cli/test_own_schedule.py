"""The commands on a schedule of one's own."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.front.own import cooperative
from tests.schedules import definition
from wsched import Schedule
from wsched.choose.presets import PRESETS
from wsched.cli.app import app
from wsched.run.compiled import CompiledFusion

pytestmark = pytest.mark.usefixtures("plain")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "own.sched"
    cooperative(definition()).save(path)
    return path


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_check_prints_loops_and_verdict(file: Path) -> None:
    result = invoke("check", file)
    s = Schedule.load(file)
    assert (result.exit_code, result.stdout) == (0, f"{s.show()}\n{s.check()}")


def test_check_as_json(file: Path) -> None:
    result = invoke("check", file, "--json")
    s = Schedule.load(file)
    assert json.loads(result.stdout) == json.loads(
        json.dumps(s.check().to_dict() | {"loops": s.show()})
    )


def test_check_of_an_illegal_schedule(file: Path) -> None:
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(x for x in lines if "circular_buffer" not in x))
    result = invoke("check", file)
    assert result.exit_code == 1 and result.stderr == ""
    assert "ScheduleError[ring]: loads T6, T7: every " in result.stdout
    found = json.loads(invoke("check", file, "--json").stdout)
    assert not found["legal"] and found["error"]["rule"] == "ring"


@pytest.mark.parametrize("option", [["--shape", "7x7x7"], ["--sms", "7"], ["--params", "ping-pong"],
                                    ["--target", "sm_100a"]])  # fmt: skip
def test_check_takes_nothing_beside_a_schedule(file: Path, option: list[str]) -> None:
    """Options of ``--proof`` are not ignored without it."""
    result = invoke("check", file, *option)
    assert result.exit_code == 2 and result.stdout == ""
    assert f"Invalid value for {option[0]}: is for --proof" in result.stderr


@pytest.mark.slow
def test_check_with_a_proof(file: Path) -> None:
    result = invoke("check", file, "--proof")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0 and len(lines) > 10
    assert all(line.startswith("proved ") for line in lines[1:])
    found = json.loads(invoke("check", file, "--proof", "--json").stdout)
    assert found["proved"] and len(found["obligations"]) == len(lines) - 1


@pytest.mark.parametrize("proved", [True, False])
def test_check_ends_as_the_proof_does(
    file: Path, proved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = SimpleNamespace(proved=proved)
    monkeypatch.setattr(CompiledFusion, "proof", lambda kernel: found)
    result = invoke("check", file, "--proof")
    assert result.exit_code == (0 if proved else 1)
    assert result.stdout.startswith(f"{found}\n") and "for cta" not in result.stdout


def test_check_of_what_is_no_schedule(tmp_path: Path) -> None:
    path = tmp_path / "linear.py"
    path.write_text(definition())
    result = invoke("check", path)
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith(f"{path}: ScheduleError[text]: line 1: def nvfuser_fusion")


def test_run(file: Path) -> None:
    result = invoke("run", file, "--shape", "130x136x72")
    assert result.exit_code == 0 and result.stdout.startswith("RIGHT: 130 x 136")
    assert "_schedule_" in result.stdout


def test_dump(file: Path) -> None:
    kernel = Schedule.load(file).check().kernel
    assert kernel in invoke("dump", file, "--stage", "cuda").stdout
    assert invoke("dump", file, "--stage", "schedule").stdout == file.read_text()


def test_dump_of_the_built_in_schedule(tmp_path: Path) -> None:
    path = tmp_path / "linear.py"
    path.write_text(definition())
    result = invoke("dump", path, "--stage", "schedule", "--params", "ping-pong")
    assert result.stdout == str(Schedule.of(definition(), PRESETS["ping-pong"]))
    path.write_text(result.stdout)
    assert invoke("check", path).exit_code == 0


def test_explain(file: Path) -> None:
    result = invoke("explain", file, "--shape", "256x256x512")
    assert result.exit_code == 0
    assert "schedule, call by call:\n  cache_after('T2'" in result.stdout
    found = json.loads(invoke("explain", file, "--json").stdout)
    assert found["schedule"] == list(map(str, Schedule.load(file).history))
    assert found["params"] == {}


def test_parameters_beside_a_schedule(file: Path) -> None:
    for command in ("run", "dump", "explain"):
        result = invoke(command, file, "--params", "ping-pong")
        assert (result.exit_code, result.stdout) == (2, "")
        wrong = "--params beside a schedule, which has made every choice itself"
        assert result.stderr.removeprefix(f"{file}: ") == f"{wrong}\n"
        result = invoke(command, file, "--target", "sm_100a")
        assert result.exit_code == 2 and "beside a schedule" in result.stderr


def test_a_wrong_line(file: Path) -> None:
    file.write_text(file.read_text() + "    s.nothing()\n")
    number = len(file.read_text().splitlines())
    for command in ("check", "run", "dump", "explain"):
        result = invoke(command, file)
        assert result.exit_code == 2 and result.stdout == ""
        assert result.stderr.startswith(
            f"{file}: ScheduleError[text]: line {number}: s.nothing(): this is no call"
        )
