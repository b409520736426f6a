"""The command, from its words to its files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lowering.ground.errors import ScheduleError, UnsupportedError
from wsched.bench.cli import app, job_of, read_params
from wsched.bench.gemm.results import save
from wsched.bench.method import watch
from wsched.bench.method.measure import Plan
from wsched.bench.method.statistic import orders
from wsched.bench.problem import Shape
from wsched.schedule.matmul.params import ClusterDims, MatmulParams


def use_worker(monkeypatch: pytest.MonkeyPatch, bad: dict[str, str]) -> None:
    """Have the fake worker measure."""
    spec = {"times": {"cublas": 10.0, "triton": 11.0, "wsched": 8.0}, "bad": bad}
    command = (sys.executable, "-m", "tests.bench.fakes", json.dumps(spec))
    monkeypatch.setattr(watch.run_process, "__defaults__", (command,))


def invoke(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})
    return result.exit_code, result.output


def test_run_and_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_worker(monkeypatch, {"triton": "skip"})
    saved, table = tmp_path / "f.json", tmp_path / "f.md"
    words = ["gemm", "--shapes", "256x256x256", "--peers", "triton", "--rounds", "2"]
    words += ["--processes", "2", "--seed", "5", "--json", str(saved), "--markdown", str(table)]
    code, text = invoke(*words)
    assert code == 0, text
    data = json.loads(saved.read_text())
    assert data["summary"]["geometric_mean"]["wsched"] == {"ratio": 1.25, "shapes": 1}
    assert data["systems"] == ["cublas", "triton", "wsched"]
    assert [(p["seed"], p["complete"]) for p in data["processes"]] == [(5, True), (6, True)]
    for process in data["processes"]:
        drawn = orders(["cublas", "wsched"], 3, f"{process['seed']} 256x256x256")
        assert process["shapes"]["256x256x256"]["orders"] == drawn
    assert data["environment"] == {"gpu": {"name": "fake"}}
    assert "2 rounds after one that is not counted, in 2 fresh processes" in data["method"]
    assert "triton skipped: not installed: there is no module x" in text
    assert "| geometric mean | 1.000 | – | 1.250 | 1.250 |" in table.read_text()
    code, again = invoke("show", str(saved))
    assert (code, again.splitlines()[0].rstrip()) == (
        0,
        "fake, bf16, TN: TFLOP/s (ratio to cuBLAS)",
    )
    assert again.splitlines()[1:] == text.splitlines()[-len(again.splitlines()) + 1 :]


def test_what_was_measured_is_kept_after_each_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_worker(monkeypatch, {})
    seen: list[int] = []

    def stop(path: Path, data: dict[str, Any]) -> None:
        save(path, data)
        seen.append(len(json.loads(path.read_text())["processes"]))
        if len(seen) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("wsched.bench.cli.save", stop)
    saved = tmp_path / "f.json"
    words = ["gemm", "--shapes", "256x256x256", "--peers", "triton", "--rounds", "2"]
    code, text = invoke(*words, "--processes", "3", "--json", str(saved))
    assert (code, seen) == (130, [1, 2])
    assert "interrupted: 2 of 3 processes were measured to the end" in text
    assert "geometric mean" in text
    data = json.loads(saved.read_text())
    assert (data["command"]["processes"], "in 2 fresh processes" in data["method"]) == (3, True)


def test_an_interrupted_process_leaves_its_shapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_worker(monkeypatch, {"": "interrupt"})
    saved = tmp_path / "f.json"
    words = ["gemm", "--shapes", "256x256x256,512x512x512", "--peers", "", "--rounds", "2"]
    code, text = invoke(*words, "--json", str(saved))
    assert code == 130
    assert "wsched missing at 512x512x512: the run ended before it" in text
    assert "interrupted: 0 of 3 processes were measured to the end" in text
    process = json.loads(saved.read_text())["processes"][0]
    assert (process["complete"], list(process["shapes"])) == (False, ["256x256x256"])
    code, again = invoke("show", str(saved))
    assert (code, "wsched missing at 512x512x512" in again) == (0, True)


@pytest.mark.parametrize(
    ("kind", "code", "told"),
    [
        ("schedule", 1, "wsched failed: compile: ScheduleError[smem]: stages=9: too much"),
        ("internal", 1, "wsched failed: compile: InternalError: verify: a barrier without a wait"),
        ("wrong", 1, "wsched wrong: wrong result: "),
        ("unsupported", 0, "wsched skipped: split-K is not supported; supported: no split"),
    ],
)
def test_exit_status(monkeypatch: pytest.MonkeyPatch, kind: str, code: int, told: str) -> None:
    use_worker(monkeypatch, {"wsched": kind})
    words = ["--shapes", "256x256x256", "--peers", "", "--rounds", "1", "--processes", "1"]
    found, text = invoke("gemm", *words)
    assert (found, told in text) == (code, True), text


@pytest.mark.parametrize(
    "words",
    ["gate", "gemm", "groups", "mlp", "models", "moe", "pingpong", "random LIST", "schedules"],
)
def test_where_nothing_can_be_written_nothing_is_measured(words: str, tmp_path: Path) -> None:
    problems, saved = tmp_path / "problems.csv", tmp_path / "none" / "f.json"
    problems.write_text("M,N,K,layout\n" + "1000,1000,1000,TN\n" * 200)
    code, text = invoke(*words.replace("LIST", str(problems)).split(), "--json", str(saved))
    told = f"--json {saved} is not supported; supported: a file in a folder that can be written"
    assert (code, text) == (2, f"{told}\n")


def test_job(tmp_path: Path) -> None:
    file = tmp_path / "wide.json"
    file.write_text(json.dumps({"cluster_dims": {"m": 2, "n": 1}}))
    job = job_of("8x8x8", "fp16", "nt", "cublas", [file], Plan(), 3)
    assert (job.shapes, job.dtype, job.layout, job.seed) == ((Shape(8, 8, 8),), "fp16", "nt", 3)
    wide = job.systems["wsched:wide"]
    assert wide is not None and list(job.systems) == ["cublas", "wsched", "wsched:wide"]
    assert MatmulParams.from_dict(wide).cluster_dims == ClusterDims(2, 1)
    assert json.loads(json.dumps(job.to_dict())) == job.to_dict() | {"systems": job.systems}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--dtype", "fp8"), "--dtype fp8 is not supported; supported: bf16, fp16"),
        (("--layout", "xx"), "--layout xx is not supported; supported: tn, nt, nn, tt"),
        (("--json", "/"), "--json / is not supported; supported: a file"),
        (
            ("--shapes", "8"),
            "the shape '8' is not supported; supported: MxNxK, for example 4096x3584x512",
        ),
    ],
)
def test_refused(words: tuple[str, ...], message: str) -> None:
    code, text = invoke("gemm", *words)
    assert (code, text) == (2, f"{message}\n")


def test_refused_params(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    with pytest.raises(UnsupportedError, match=r"^--params .*p\.json \(\[Errno 2\] .*\) is not"):
        read_params(file)
    file.write_text("[]")
    with pytest.raises(UnsupportedError) as error:
        read_params(file)
    assert str(error.value) == (
        f"--params {file} is not supported; "
        "supported: one JSON object, as MatmulParams.to_dict() makes"
    )
    file.write_text('{"stages": 4}')
    with pytest.raises(ScheduleError, match="there is no field stages"):
        read_params(file)
    file.write_text("{}")
    with pytest.raises(UnsupportedError) as error:
        job_of("8x8x8", "bf16", "tn", "", [file, file], Plan(), 0)
    assert str(error.value) == (
        "a second --params file named p is not supported; supported: different names"
    )


def test_show_of_no_file(tmp_path: Path) -> None:
    code, text = invoke("show", str(tmp_path / "no.json"))
    assert code == 2
    assert "is not supported; supported: a file of `wsched bench gemm --json`" in text
