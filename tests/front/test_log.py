"""``WSCHED_LOG`` and ``WSCHED_NVTX``: what a program tells about its decisions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import wsched
from lowering.ground import log as log_module
from tests.front.cut.features import FEATURES, inputs_of
from tests.schedules import definition
from wsched.choose import heuristics
from wsched.choose.problem import Problem
from wsched.cli.app import app
from wsched.doors.dropin.ledger import Tally
from wsched.front import kernels, known, own
from wsched.fusion import DataType
from wsched.run.kept import Kept
from wsched.run.ranges import ranged

torch: Any = pytest.importorskip("torch")

RELU = definition().replace("add_output(d)", "add_output(fd.ops.relu(d))")
NAME = r"matmul_bfloat16_bfloat16_\w+"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_kernels", Kept())
    monkeypatch.setattr(known, "_texts", {})
    monkeypatch.setattr(log_module, "_counts", Counter())
    monkeypatch.setattr(log_module.atexit, "register", lambda _: None)


def inputs(m: int = 24) -> list[Any]:
    return [torch.zeros(rows, 64, dtype=torch.bfloat16) for rows in (m, 32)]


def lines(text: str) -> list[str]:
    """Without the times."""
    found = [re.fullmatch(r"wsched +\d+\.\d{3} s  (.*)", line) for line in text.splitlines()]
    assert all(found), text
    return [m[1] for m in found if m]


def test_a_line_for_each_decision(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WSCHED_LOG", "1")
    for _ in range(3):
        wsched.execute(RELU, inputs())
    schedule, kernel, route = lines(capsys.readouterr().err)
    assert schedule == "schedule: 24x32x64 on NVIDIA H200, 4 multiprocessors: by the cost model"
    assert re.fullmatch(rf"kernel: {NAME} made in \d\S* s", kernel)
    assert re.fullmatch(rf"route: linear \+ 1 more of 24x64, 32x64: wsched \({NAME}\)", route)
    wsched.execute(RELU, inputs(40))
    assert "of 40x64, 32x64: wsched" in lines(capsys.readouterr().err)[-1]
    log_module._at_exit()
    assert re.fullmatch(r"end: \d kernel, 2 route, 2 schedule", lines(capsys.readouterr().err)[0])


@pytest.mark.sampled
@pytest.mark.parametrize(
    "words",
    [["run"], ["explain"], ["dump", "--stage", "cuda"], ["trace"], ["check", "--proof"]],
    ids=lambda words: words[0],
)
def test_commands_tell_the_same(
    words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WSCHED_LOG", str(tmp_path / "log"))
    (tmp_path / "relu.py").write_text(RELU)
    command = [words[0], str(tmp_path / "relu.py"), "--shape", "24x32x64", *words[1:]]
    assert CliRunner().invoke(app, command).exit_code == 0
    schedule, kernel, *more = lines((tmp_path / "log").read_text())
    assert re.fullmatch(
        r"schedule: 24x32x64 on \D+H200, \d+ multiproc\w+: by the cost mod\w+", schedule
    )
    assert re.fullmatch(rf"kernel: {NAME} made in \d\S* s", kernel)
    assert all(
        line.startswith(("schedule: 24x32x64", f"kernel: {kernel.split()[1]}")) for line in more
    )


def test_a_schedule_of_ones_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(own, "_kernels", Kept())
    monkeypatch.setenv("WSCHED_LOG", "1")
    schedule = wsched.Schedule.of(RELU, wsched.MatmulParams())
    for _ in range(2):
        wsched.compile(schedule, inputs())
    (kernel,) = lines(capsys.readouterr().err)
    assert re.fullmatch(rf"kernel: {NAME} made in \d\S* s", kernel)


def test_where_a_schedule_is_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("WSCHED_LOG", "1")
    problem = Problem(4096, 3584, 512, DataType.BFloat16, (DataType.BFloat16,), 132)
    entry = SimpleNamespace(params=wsched.MatmulParams())
    hit = SimpleNamespace(entry=entry, file=tmp_path, gpu="NVIDIA H100")
    monkeypatch.setattr(heuristics, "lookup", lambda problem: hit)
    assert heuristics.choose_params(problem) == wsched.MatmulParams()
    (schedule,) = lines(capsys.readouterr().err)
    assert schedule.endswith(f": the fastest measured on NVIDIA H100, {tmp_path}")


def test_the_kernels_of_a_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that wsched makes are named, each once it has been said that it is made."""
    feature = FEATURES["gated"]
    monkeypatch.setenv("WSCHED_LOG", "1")
    wsched.execute(feature.text, inputs_of(feature))
    found = lines(capsys.readouterr().err)
    made = [line.split()[1] for line in found if line.startswith("kernel: ")]
    (route,) = (line for line in found if line.startswith("route: "))
    named = re.search(r": cut \((.*?)\)", route)
    assert named and named[1].split(", ") == made and made
    assert all(re.fullmatch(NAME, name) for name in made)


def test_ways_that_were_not_taken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WSCHED_LOG", "1")
    wsched.execute(definition().replace("BFloat16", "Float"), [t.float() for t in inputs()])
    (route,) = lines(capsys.readouterr().err)
    assert route.startswith("route: linear of 24x64, 32x64: torch; not wsched: fd.ops.linear of ")
    assert "; not cut: " in route and "; not nvfuser: nvFuser on CPU tensors" in route


@pytest.mark.parametrize("setting", ["", "0", None])
def test_nothing_unless_asked(
    setting: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("WSCHED_LOG", raising=False)
    if setting is not None:
        monkeypatch.setenv("WSCHED_LOG", setting)
    log_module.log("route", lambda: pytest.fail("nobody wants it"))
    assert capsys.readouterr().err == "" and not log_module._counts


def test_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("WSCHED_LOG", str(tmp_path / "log"))
    log_module.log("one", lambda: "first")
    log_module.log("two", lambda: "second")
    log_module.log("one", lambda: "third")
    log_module._at_exit()
    assert lines((tmp_path / "log").read_text()) == [
        "one: first", "two: second", "one: third", "end: 2 one, 1 two",
    ]  # fmt: skip
    assert capsys.readouterr().err == ""


def test_a_file_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("WSCHED_LOG", str(tmp_path / "none" / "log"))
    log_module.log("one", lambda: "first")
    told, line = capsys.readouterr().err.splitlines()
    assert told == f"wsched: WSCHED_LOG={tmp_path}/none/log: No such file or directory"
    assert lines(line) == ["one: first"]


@pytest.mark.slow
def test_the_counters_come_at_the_end_of_a_process() -> None:
    code = (
        "import sys, torch, wsched; "
        "wsched.execute(sys.argv[1], [torch.zeros(8, 64, dtype=torch.bfloat16)] * 2)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, RELU],
        env={**os.environ, "WSCHED_LOG": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert lines(done.stderr)[-1] == "end: 1 kernel, 1 route, 1 schedule"


def test_compilations(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from lowering.cuda.cache import CubinCache
    from lowering.cuda.nvrtc import Compiled

    monkeypatch.setenv("WSCHED_LOG", "1")

    def compiler(*_: Any) -> Compiled:
        return Compiled(b"cubin", "", (12, 8), 1.25)

    for _ in range(2):
        cache = CubinCache(tmp_path / "cubins", "1", compiler=compiler)
        for _ in range(2):
            cache.compile("text", "k.cu")
    assert lines(capsys.readouterr().err) == [
        "compilation: k.cu took 1.2 s", "cubin from disk: k.cu",
    ]  # fmt: skip


def test_what_install_decides() -> None:
    cost, nvfuser = SimpleNamespace(us=10.04), SimpleNamespace(us=12.0)
    parts: Any = (SimpleNamespace(matmul=True), SimpleNamespace(matmul=False))
    told: Any = {"cost": cost, "nvfuser": nvfuser, "segments": parts}
    taken = Tally("linear", "", **told)
    assert taken.told() == (
        "linear: 1 kernels of wsched's in 2 parts, predicted 10.0 us, nvFuser 12.0 us"
    )
    assert Tally("matmul", "too small").told() == "matmul: nvFuser runs it: too small"


# --- ranges --------------------------------------------------------------------------------------


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    fake = SimpleNamespace(range_push=found.append, range_pop=lambda: found.append("end"))
    monkeypatch.setattr(torch.cuda, "nvtx", fake)
    return found


def test_calls_are_ranges(told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WSCHED_NVTX", "1")
    for _ in range(3):
        wsched.execute(RELU, inputs())
    assert told == ["wsched: linear + 1 more", "end"] * 2  # the first call decides


def test_a_range_ends_with_an_error(told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WSCHED_NVTX", "1")
    with pytest.raises(ZeroDivisionError):
        ranged(lambda x: 1 // x, lambda: "call")(0)
    assert told == ["call", "end"]


def test_no_ranges_unless_asked(told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WSCHED_NVTX", raising=False)
    assert ranged(len, lambda: "call") is len
    assert told == []
