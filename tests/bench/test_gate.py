"""``wsched bench gate``: its statistics on numbers, its files, and whole runs without a GPU."""

from __future__ import annotations

import json
import random
import sys
from math import log, sqrt
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lowering.ground.errors import UnsupportedError
from tests.bench.compiling import Kernels, without_compiling
from tests.bench.fake_drawn import DEVICE
from wsched.bench.cli import app
from wsched.bench.drawn.problems import Drawn
from wsched.bench.gate import command
from wsched.bench.gate.problems import PROBLEMS
from wsched.bench.gate.results import BASELINES, baseline_of, read
from wsched.bench.gate.verdict import Change, Limits, Verdict, judged
from wsched.choose.gpus import GPUS, Gpu
from wsched.schedule.matmul.params import MatmulParams

FEW = (Drawn(512, 512, 512), Drawn(1000, 1000, 1000, "nt"))
NAMES = [str(p) for p in FEW]


# --- the verdict ----------------------------------------------------------------------------------


def processes(
    draw: random.Random, count: int, changes: list[float], noise: float, shared: float = 0.0
) -> dict[str, list[float]]:
    """Ratios: of each process a luck of its own, and noise of each problem in it."""
    lucks = [draw.gauss(0, shared) for _ in range(count)]
    return {
        f"p{i}": [c * (1 + luck + draw.gauss(0, noise)) for luck in lucks]
        for i, c in enumerate(changes)
    }


def outcomes(loss: float, noise: float, count: int, *, one: bool = False) -> dict[str, int]:
    """What becomes of 12 comparisons of 16 problems, all of which lose, or one."""
    found: dict[str, int] = {}
    draw = random.Random(7)
    for _ in range(12):
        before = processes(draw, count, [1.0] * 16, noise)
        after = [1 - loss if not one or i == 3 else 1.0 for i in range(16)]
        verdict = judged(before, processes(draw, count, after, noise), Limits())
        found[verdict.outcome] = found.get(verdict.outcome, 0) + 1
    return found


@pytest.mark.slow
def test_what_did_not_change_is_as_fast() -> None:
    assert outcomes(0.0, 0.004, 6).get("as fast", 0) >= 11


@pytest.mark.slow
def test_noise_is_no_loss() -> None:
    """Where noise hides a loss, nothing is claimed either way."""
    found = outcomes(0.0, 0.05, 3)
    assert found.get("slower", 0) == 0 and found.get("unsure", 0) >= 11


@pytest.mark.slow
def test_a_loss_of_all_is_found() -> None:
    assert outcomes(0.03, 0.004, 6)["slower"] >= 11


@pytest.mark.slow
def test_a_loss_of_one_is_found_and_named() -> None:
    assert outcomes(0.10, 0.006, 6, one=True)["slower"] >= 11
    draw = random.Random(1)
    verdict = judged(
        processes(draw, 6, [1.0] * 8, 0.004),
        processes(draw, 6, [1.0] * 7 + [0.9], 0.004),
        Limits(mean=0.05),
    )
    assert verdict.slower == ("p7",)


def test_processes_are_drawn_whole() -> None:
    """What all problems of a process have in common does not average out over problems."""
    draw = random.Random(2)
    apart = judged(*(processes(draw, 4, [1.0] * 20, 0.01) for _ in "ab"), Limits())
    together = judged(*(processes(draw, 4, [1.0] * 20, 0.0, 0.01) for _ in "ab"), Limits())
    widths = [v.mean.high / v.mean.low - 1 for v in (apart, together)]
    assert widths[1] > 2 * widths[0]


def test_agreement_by_chance_is_not_believed() -> None:
    draw = random.Random(3)
    before, now = (processes(draw, 3, [1.0] * 9, 0.02) for _ in "ab")
    before["p0"], now["p0"] = [1.0] * 3, [0.98] * 3
    verdict = judged(before, now, Limits())
    assert verdict.each["p0"].high > 1


def test_how_many_more_processes() -> None:
    limits = Limits(mean=0.01, each=0.04)
    sure, unsure = Change(1.0, 0.998, 1.002), Change(1.0, 0.98, 1 / 0.98)
    assert Verdict(sure, {}, limits, 4).more == 0
    verdict = Verdict(unsure, {"p": sure}, limits, 4)
    assert (verdict.outcome, verdict.more) == ("unsure", 13)


@pytest.mark.parametrize("now", [0.93, 0.965, 0.985, 1.02])
@pytest.mark.parametrize("lost", [0.01, 0.04, 0.06])
def test_so_many_processes_settle_it(now: float, lost: float) -> None:
    """With half widths that fall with the root of their number; one fewer would not."""
    half, limits = 0.2, Limits(mean=lost, each=lost)
    more = Verdict(Change.of(log(now), half), {}, limits, 4).more

    def outcome(processes: int) -> str:
        return Change.of(log(now), half * sqrt(4 / processes)).outcome(lost)

    assert more > 0
    assert [outcome(4 + n) == "unsure" for n in (more, more - 1)] == [False, True]


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        ({"a": [1.0, 1.0]}, {"b": [1.0, 1.0]}, "a baseline without a problem of this run"),
        ({"a": [1.0, 1.0]}, {"a": [1.0]}, "1 processes beside 2 of the baseline"),
    ],
)
def test_what_cannot_be_compared(before: Any, now: Any, told: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        judged(before, now, Limits())
    assert caught.value.what == told


# --- runs -----------------------------------------------------------------------------------------


def pretend(patch: pytest.MonkeyPatch) -> Kernels:
    """What is compiled; the GPU is a fake one, and asked for only behind that."""
    wanted = without_compiling(patch)

    def device() -> dict[str, Any]:
        assert len(wanted) >= len(FEW)
        return dict(DEVICE)

    patch.setattr(command, "PROBLEMS", FEW)
    patch.setattr(command, "device", device)
    patch.setitem(GPUS, "fake", Gpu("fake", DEVICE["sms"], DEVICE["l2_bytes"]))
    return wanted


def invoke(patch: pytest.MonkeyPatch, *words: Any, **spec: Any) -> tuple[int, str]:
    worker = (sys.executable, "-m", "tests.bench.fake_drawn", json.dumps(spec), "0")
    patch.setattr(command, "COMMAND", worker)
    arguments = ["gate", "--gpu", "fake", "--processes", "2", "--rounds", "2", *map(str, words)]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a run without a baseline writes."""
    path = tmp_path_factory.mktemp("recorded") / "before.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        pretend(patch)
        code, text = invoke(patch, "--json", path, "--record")
    assert (code, text.splitlines()[-1]) == (0, "recorded: 2 processes of 2 problems")
    return path.read_text()


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, MatmulParams]]:
    return pretend(monkeypatch)


@pytest.fixture
def baseline(tmp_path: Path, recorded: str, built: Any) -> Path:
    """A file of each test's own."""
    path = tmp_path / "before.jsonl"
    path.write_text(recorded)
    return path


@pytest.mark.slow
def test_as_fast_and_slower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, baseline: Path
) -> None:
    same, worse = tmp_path / "same.jsonl", tmp_path / "worse.jsonl"
    code, text = invoke(monkeypatch, "--json", same, "--baseline", baseline)
    assert code == 0, text
    assert text.splitlines()[-1] == "as fast: 1.000 (1.000 to 1.000) in geometric mean"
    code, text = invoke(monkeypatch, "--json", worse, "--baseline", baseline, factors=[1.25])
    assert code == command.SLOWER
    told = "slower: 0.800 (0.800 to 0.800) in geometric mean; " + ", ".join(NAMES)
    assert text.splitlines()[-1] == told
    assert sum("slower" in line and "0.800" in line for line in text.splitlines()) == 3


@pytest.mark.slow
def test_a_run_goes_on_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, baseline: Path, built: Any
) -> None:
    path = tmp_path / "cut.jsonl"
    code, text = invoke(monkeypatch, "--json", path, "--baseline", baseline, "--seconds", "1e-9")
    assert (code, text.splitlines()[-1]) == (
        command.UNSURE,
        "unsure: 0 processes are complete, 2 are needed",
    )
    assert {n: list(p) for n, p in read(path).processes.items()} == {0: NAMES[:1]}
    with path.open("a") as file:
        file.write('{"process": 0, "pro')
    code, text = invoke(monkeypatch, "--json", path, "--baseline", baseline)
    assert code == 0, text
    assert sorted(read(path).complete(tuple(NAMES))) == [0, 1]
    built.clear()
    monkeypatch.setattr(command, "device", lambda: pytest.fail("the GPU is asked for"))
    assert invoke(monkeypatch, "--json", path, "--baseline", baseline)[0] == 0


def test_processes_are_measured_while_time_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first whatever it takes, and none behind the end of the time."""
    rooms: list[float] = []

    def run_shapes(job: Any, words: Any, shapes: int, limits: Any, keep: Any) -> str:
        rooms.append(limits[0])
        monkeypatch.setattr(command.time, "monotonic", lambda: 1000.0 + 60.0 * len(rooms))
        return ""

    monkeypatch.setattr(command, "run_shapes", run_shapes)
    for seconds, found in ((0.0, [0.0] * 4), (150.0, [150.0, 90.0, 30.0]), (1e-9, [1e-3])):
        rooms.clear()
        monkeypatch.setattr(command.time, "monotonic", lambda: 1000.0)
        path = tmp_path / "of.jsonl"
        command._measure(path, read(path), {}, command.Plan(2, 1.0), 4, (seconds, 60.0))
        assert rooms == found


@pytest.mark.slow
def test_what_is_wrong_is_no_matter_of_speed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, baseline: Path
) -> None:
    words = ("--json", tmp_path / "wrong.jsonl", "--baseline", baseline)
    code, text = invoke(monkeypatch, *words, bad_places={"0": "wrong"})
    assert code == command.SLOWER
    assert text.splitlines()[-1] == "slower: something failed, is wrong, or is refused now"
    assert f" at {NAMES[0]}: wrong result: relative error nan (limit 4e-03)" in text


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--gpu", "A100"],
         "--gpu A100 is not supported; supported: H200, H200 NVL, H100, H100 PCIe, B200, fake"),
        ([], f"no baseline {baseline_of('fake')} is not supported; supported: --baseline FILE, or "
             "--record to measure without one"),
        (["--gpu", "H100", "--baseline", "{baseline}"],
         "a baseline of fake is not supported; supported: one of NVIDIA H100 80GB HBM3"),
        (["--gpu", "H100", "--record"],
         "--gpu H100 where there is fake is not supported; supported: a NVIDIA H100 80GB HBM3"),
    ],
)  # fmt: skip
def test_what_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, baseline: Path, words: list[str], told: str
) -> None:
    given = [w.format(baseline=baseline) for w in words]
    code, text = invoke(monkeypatch, "--json", tmp_path / "f.jsonl", *given)
    assert (code, text.splitlines()[-1]) == (2, told)


def test_other_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, baseline: Path) -> None:
    words = ("--json", baseline, "--baseline", baseline, "--rounds", "3")
    code, text = invoke(monkeypatch, *words)
    assert code == 2 and "of a run with other options" in text


def test_the_list_is_of_all_kinds() -> None:
    assert len(set(PROBLEMS)) == len(PROBLEMS)
    assert {p.layout for p in PROBLEMS} == {"tn", "nt", "nn", "tt"}
    assert any(p.m <= 16 for p in PROBLEMS) and any(p.k % 8 for p in PROBLEMS)
    assert any(p.n % 8 for p in PROBLEMS) and any(p.rows[0] == 16 for p in PROBLEMS)


@pytest.mark.parametrize("path", sorted(BASELINES.iterdir()), ids=lambda p: p.stem)
def test_a_shipped_baseline_has_the_whole_list(path: Path) -> None:
    """Of the GPU that its name says, and nothing failed."""
    found = read(path)
    names = tuple(map(str, PROBLEMS))
    assert baseline_of(found.gpu["name"]) == path and found.command["problems"] == list(names)
    assert not found.broken() and not found.refused()
    ratios = found.ratios(names)
    assert set(ratios) == set(names) and min(map(len, ratios.values())) >= 4


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.9, 0.97, "slower"), (0.9, 1 - 0.02, "unsure"), (1 - 0.02, 1.1, "as fast"),
        (0.979, 1.1, "unsure"), (1.0, 1.0, "as fast"),
    ],
)  # fmt: skip
def test_what_is_surely_lost(low: float, high: float, said: str) -> None:
    assert Change((low + high) / 2, low, high).outcome(0.02) == said
