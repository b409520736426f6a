"""The commands dump, run, explain and version: what they print and how they fail."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lowering.kernel.text import parse_kernel
from passes.pipeline import PASSES
from tests.schedules import definition
from wsched import MatmulParams, __version__
from wsched.choose.presets import PRESETS
from wsched.cli.app import app
from wsched.cli.check import multiprocessors
from wsched.cli.entry import main
from wsched.schedule.matmul.params import TileRasterizationOrder

pytestmark = pytest.mark.usefixtures("plain")

SMALL = ["--shape", "64x128x64"]
COLUMNS = TileRasterizationOrder.ColumnMajor


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(a) for a in arguments])


PLANNED = re.compile(r"^  planned for \d+ multiprocessors\n")


def printed(*arguments: object) -> str:
    """Standard output of a command that succeeds."""
    result = invoke(*arguments)
    assert result.exit_code == 0, result.stderr
    assert PLANNED.sub("", result.stderr) == ""
    return str(result.stdout)


def refusal(arguments: Sequence[object]) -> str:
    """Standard error of a command that refuses: exit status 2, no traceback, nothing printed."""
    result = invoke(*arguments)
    assert result.exit_code == 2, result.exception
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return str(result.stderr)


def usage_error(arguments: Sequence[object]) -> str:
    """The message in the box of a usage error, on one line."""
    text = re.sub(r"[│╭╮╰╯─|+]", " ", refusal(arguments))
    return " ".join(text.partition("Error")[2].split())


def test_version() -> None:
    assert printed("version") == printed("--version") == f"{__version__}\n"


# --- dump ---------------------------------------------------------------------------------------


def test_dump_prints_the_loops_unless_told(file: Path) -> None:
    text = printed("dump", file)
    assert text == printed("dump", file, "--stage", "loops")
    assert text.index("load T6, T7 (ring,") < text.index("\ncompute\n")
    assert text.endswith("\n")


@pytest.mark.parametrize(
    ("stage", "begin"),
    [
        ("fusion", ""),
        ("subdags", ""),
        ("dot", "digraph"),
        ("lower", "kernel matmul_"),
        ("circular_buffer", "kernel matmul_"),
        ("kernel", "kernel matmul_"),
        ("cuda", ""),
        ("ptx", "//"),
        ("sass", ""),
        ("mlir", "!"),
    ],
)
def test_dump_of_a_stage(file: Path, stage: str, begin: str) -> None:
    text = printed("dump", file, "--stage", stage, *SMALL)
    assert len(text.splitlines()) > 3
    assert text.startswith(begin)


def test_the_kernel_can_be_read_back(file: Path) -> None:
    text = printed("dump", file, "--stage", "kernel", *SMALL)
    assert parse_kernel(text).name.startswith("matmul_bfloat16_bfloat16_")


@pytest.mark.parametrize("shape", ["64x64x64", "4096x4096x64", "8192x8192x8192"])
def test_the_kernel_is_the_one_that_is_explained(file: Path, shape: str) -> None:
    options = [file, "--shape", shape, "--sms", 132]
    kernel = parse_kernel(printed("dump", *options, "--stage", "kernel"))
    assert kernel.name == json.loads(printed("explain", *options, "--json"))["kernel"]


@pytest.mark.slow
def test_dump_of_everything(file: Path, tmp_path: Path) -> None:
    written = printed("dump", file, "--stage", "all", "--dir", tmp_path / "dumps", *SMALL)
    paths = [Path(line) for line in written.splitlines()]
    names = [path.name.partition(".")[0].partition("_")[2] for path in paths]
    assert names[:5] == ["fusion", "subdags", "dot", "loops", "lower"]
    assert names[-5:] == ["simplify", "cuda", "ptx", "sass", "mlir"]
    assert all(path.is_relative_to(tmp_path / "dumps") and path.stat().st_size for path in paths)
    assert paths == sorted(p for p in (tmp_path / "dumps").rglob("*") if p.is_file())


def test_an_unknown_stage(file: Path) -> None:
    text = refusal(["dump", file, "--stage", "llvm"])
    passes = ", ".join(p.__name__ for p in PASSES)
    assert text == (
        f"no stage 'llvm'; there are: fusion, subdags, dot, loops, lower, {passes}, kernel, cuda, "
        "ptx, sass, mlir, mlir-nvgpu\n"
    )


def test_a_folder_that_cannot_be_made(file: Path) -> None:
    message = usage_error(["dump", file, "--stage", "all", "--dir", file, *SMALL])
    assert message == f"Invalid value for --dir: {file}: Not a directory"


def test_all_commands_plan_for_the_same_device(file: Path) -> None:
    """One default, an H200's where there is no GPU, and one option, said by each of them."""
    here = multiprocessors()
    commands = {"dump": ["--stage", "kernel"], "run": [], "explain": [], "check": ["--proof"]}
    told = {name: invoke(name, file, *SMALL, *more) for name, more in commands.items()}
    name = parse_kernel(told["dump"].stdout).name
    assert all(name in result.stdout for result in told.values())
    assert told["dump"].stderr == f"  planned for {here} multiprocessors\n"
    for command in ("run", "check"):
        assert told[command].stdout.endswith(f"  planned for {here} multiprocessors\n")
    assert f" on {here} multiprocessors: {name}" in told["explain"].stdout
    assert " for 7 multiprocessors" in invoke("dump", file, *SMALL, "--sms", 7).stderr


# --- run ----------------------------------------------------------------------------------------


def test_run(file: Path) -> None:
    text = printed("run", file, *SMALL)
    assert text.startswith("RIGHT: 64 x 128 BFloat16 result against ")
    assert "limit 4e-03" in text


def test_run_has_the_seed_in_hand(file: Path) -> None:
    first, again, other = (printed("run", file, *SMALL, "--seed", seed) for seed in (3, 3, 4))
    error = re.compile(r"\(Frobenius norm\) (\S+),")
    found = [error.search(text) for text in (first, again, other)]
    assert found[0] and found[1] and found[2]
    assert found[0][1] == found[1][1]


def test_run_allows_for_every_rounding(tmp_path: Path) -> None:
    """A linear of bf16 rounds to bf16 before the cast to fp16."""
    path = tmp_path / "cast.py"
    path.write_text(definition("bf16", "f16"))
    assert "limit 4e-03" in printed("run", path, *SMALL)


def test_a_wrong_result_has_exit_status_1(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wsched.cli.check.TOLERANCE", dict.fromkeys(_tolerances(), 1e-9))
    result = invoke("run", file, *SMALL)
    assert result.exit_code == 1
    assert result.stdout.startswith("WRONG: 64 x 128 BFloat16 result")


def test_a_run_for_programs(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = json.loads(printed("run", file, *SMALL, "--json", "--sms", 7))
    assert found["passed"] is True and 0 < found["error"] < found["limit"] == 4e-3
    assert found["sms"] == 7 and found["kernel"] in found["text"] and found["device"] == "cpu"
    monkeypatch.setattr("wsched.cli.check._error", lambda *_: math.inf)
    result = invoke("run", file, *SMALL, "--json")
    found = json.loads(result.stdout, parse_constant=pytest.fail)
    assert (result.exit_code, found["passed"], found["error"]) == (1, False, None)


def _tolerances() -> Any:
    from wsched.cli.check import TOLERANCE

    return TOLERANCE


def test_run_is_too_large_for_the_machine(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WSCHED_MACHINE_SECONDS", "0.001")
    monkeypatch.setattr("wsched.cli.app.device", lambda _: "cpu")
    text = refusal(["run", file, "--shape", "2048x2048x512"])
    assert re.fullmatch(
        rf"{re.escape(str(file))}: a run of matmul_\S+ on the machine that takes "
        r"(about|more than) [\d.]+ s is not supported; supported: runs of up to 0\.001 s\. Take "
        r"a smaller problem, or raise the limit: limit_seconds or WSCHED_MACHINE_SECONDS\n",
        text,
    )


# --- explain ------------------------------------------------------------------------------------


def test_explain(file: Path) -> None:
    text = printed("explain", file, "--shape", "4096x4096x4096")
    assert text.startswith("4096x4096x4096 on 132 multiprocessors: matmul_bfloat16_bfloat16_")
    assert "legal" in text
    assert "load T6, T7 (ring," in text


def test_explain_as_json(file: Path) -> None:
    found = json.loads(printed("explain", file, "--shape", "4096x4096x4096", "--json"))
    params = MatmulParams.from_dict(found["params"])
    assert params.to_dict() == found["params"]
    assert str(params.output_tile) in found["kernel"]
    assert found["threads"] == 128 * (params.warpgroups + 1)
    assert 0 < found["shared_bytes"] <= 227 * 1024
    assert found["relation"]
    assert found["predicted_us"] > 4096**3 * 2 / 1e9  # no H200 does 1000 TFLOP/s
    first = list(found["others"].values())[:20]
    assert first == sorted(first) and found["predicted_us"] <= first[0]


def test_a_device_with_fewer_multiprocessors_takes_longer(file: Path) -> None:
    times = [
        json.loads(printed("explain", file, "--shape", "4096x4096x64", "--sms", n, "--json"))[
            "predicted_us"
        ]
        for n in (132, 66)
    ]
    assert times[0] < times[1]


# --- schedules of one's own -----------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("name", PRESETS)
def test_a_schedule_by_name(file: Path, name: str) -> None:
    kernel = parse_kernel(printed("dump", file, "--stage", "kernel", "--params", name))
    found = json.loads(printed("explain", file, "--params", name, "--json"))
    assert found["kernel"] == kernel.name
    assert PRESETS[name].matches(MatmulParams.from_dict(found["params"]))
    assert [c["value"] for c in found["choices"]] and not found["refusals"]
    text = printed("explain", file, "--params", name)
    assert text.startswith(f"256x256x512 on 132 multiprocessors: {kernel.name}\n")
    assert "given, not chosen by the heuristic" in text


def test_what_is_predicted_of_a_schedule(file: Path) -> None:
    """Any kernel of the kind that the cost model describes; of others it says nothing."""
    own = json.loads(printed("explain", file, "--params", "cooperative", "--json"))
    other = json.loads(printed("explain", file, "--params", "pipelined", "--json"))
    assert own["predicted_us"] > 0
    assert other["predicted_us"] is None and len(other["others"]) > len(own["others"])
    assert own["cost"]["main_us"] > 0 and other["cost"] is None
    assert "  predicted: nothing, the cost model describes" in printed(
        "explain", file, "--params", "pipelined"
    )


def test_a_schedule_from_a_file(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"cta_order": "ColumnMajor"}))
    found = json.loads(printed("explain", file, "--params", path, "--json"))
    assert MatmulParams(cta_order=COLUMNS).matches(MatmulParams.from_dict(found["params"]))
    path.write_text(json.dumps(found["params"]))
    assert json.loads(printed("explain", file, "--params", path, "--json")) == found


def test_run_with_a_schedule(file: Path) -> None:
    assert printed("run", file, *SMALL, "--params", "pipelined").startswith("RIGHT: 64 x 128 ")


@pytest.mark.parametrize("command", ["dump", "run", "explain"])
def test_a_schedule_that_is_none(file: Path, command: str) -> None:
    assert usage_error([command, file, "--params", "fast"]) == (
        "Invalid value for --params: 'fast' is no preset (cooperative, ping-pong, pipelined, "
        "tile-per-cta, dynamic), and as a file: No such file or directory"
    )


def test_a_schedule_file_that_cannot_be_read(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text("{")
    assert usage_error(["dump", file, "--params", path]).startswith(
        f"Invalid value for --params: {path} is no JSON: Expecting property name enclosed in "
    )
    path.write_text('{"splitk": 2}')
    assert refusal(["dump", file, "--params", path]).startswith(
        "ScheduleError[params]: MatmulParams.splitk: there is no field splitk\n  legal here: "
    )
    path.write_text('{"wgmma_in_flight": 3}')
    assert refusal(["explain", file, "--params", path]).startswith(
        "ScheduleError[params]: MatmulParams("
    )


# --- what all of them refuse ----------------------------------------------------------------------

COMMANDS = ["dump", "run", "explain"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("shape", ["64x64", "64x64x-8", "axbxc", ""])
def test_a_shape_that_is_none(file: Path, command: str, shape: str) -> None:
    assert usage_error([command, file, "--shape", shape]) == (
        f"Invalid value for --shape: {shape!r} is no problem size; write MxNxK, for example "
        "256x512x64, BxMxNxK or BxHxMxNxK"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_not_there(command: str, tmp_path: Path) -> None:
    path = tmp_path / "none.py"
    text = usage_error([command, path])
    assert text.casefold() == f"Invalid value for 'file': file '{path}' does not exist.".casefold()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = (", "line 1: `x = (` is not supported; supported: Python"),
        (
            "x = 3\n",
            "text with 0 fusion definitions is not supported; supported: text with one, a function "
            "with an argument `fd: FusionDefinition`, the body of `with FusionDefinition() as fd:` "
            "or `definition(self)` of a class of them",
        ),
    ],
)
def test_a_text_without_a_definition(file: Path, command: str, text: str, message: str) -> None:
    file.write_text(text)
    assert refusal([command, file]) == f"{file}: {message}\n"


@pytest.mark.parametrize("command", [["dump"], ["run", "--sms", "4"]], ids=" ".join)
def test_a_definition_without_a_matmul(file: Path, command: list[str]) -> None:
    file.write_text(definition().replace("fd.ops.linear(x, w)", "fd.ops.relu(x)"))
    assert refusal([*command, file]) == (
        f"{file}: a fusion with no fd.ops.linear or fd.ops.matmul is not supported; supported: "
        "one of them. This is about one kernel. `wsched explain` says which way it goes otherwise\n"
    )


def test_explain_goes_on_without_a_kernel(file: Path) -> None:
    pytest.importorskip("torch")  # else nobody takes it
    file.write_text(definition().replace("fd.ops.linear(x, w)", "fd.ops.relu(x)"))
    found = json.loads(printed("explain", file, "--json"))
    assert found["route"] in ("nvfuser", "torch") and found["kernel"] is None
    assert found["refusals"][0]["what"] == "wsched"
    assert "not taken:" in printed("explain", file)


def test_main_is_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["wsched", "version"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{__version__}\n"


def test_main_refuses_with_status_2(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["wsched", "dump", str(file), "--stage", "llvm"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("no stage 'llvm'; there are: fusion,")


# --- files ---------------------------------------------------------------------------------------


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "linear.py"
    path.write_bytes(b"def f(fd):\n    x = 3 # \xff\n")
    assert usage_error(["explain", path]).endswith(
        "linear.py: line 2: the byte 0xff, which is not UTF-8"
    )


def test_marks_that_editors_leave(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    assert "wsched's kernel" in printed("explain", file, *SMALL)
    file.write_bytes(file.read_bytes().replace(b"fd.add_output", b"fd.add\0output"))
    assert ": the character NUL in `fd.add\\0output(" in refusal(["explain", file])
