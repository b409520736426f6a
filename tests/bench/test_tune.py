"""``wsched tune`` from its words to its table, on a device without a GPU."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.bench.compiling import Kernels, without_compiling
from tests.bench.fake_schedules import SMS, ranked_here
from tests.bench.fakes import FakeGpu
from tests.epilogues import TWO_OUTPUTS, WHERE
from tests.schedules import definition
from wsched.bench.fused.epilogue import EPILOGUES
from wsched.bench.problem import Problem, Shape, definition_text
from wsched.bench.schedules.ranking import Ranked, problem_for, shortlist
from wsched.bench.tune import command as command
from wsched.bench.tune.results import Outcome
from wsched.choose.heuristics import choose_params, modelled
from wsched.choose.problem import Problem as Planned
from wsched.choose.tuned.entry import Entry, problem_to_dict
from wsched.choose.tuned.lookup import VARIABLE, forget
from wsched.choose.tuned.table import add_entries, read_table
from wsched.cli.app import app

SMALL, LARGE = "16x512x512", "512x4096x1024"
GPU = {"name": "fake", "sms": SMS, "l2_bytes": FakeGpu.l2_bytes}


@pytest.fixture(autouse=True)
def built(monkeypatch: pytest.MonkeyPatch) -> Kernels:
    """What would be compiled before the GPU measures."""
    return without_compiling(monkeypatch)


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's table of this test."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "own" / "tuned.json"))
    monkeypatch.setattr(command, "device", lambda: GPU)
    forget()
    yield tmp_path / "own" / "tuned.json"
    forget()


def fake(monkeypatch: pytest.MonkeyPatch, **spec: Any) -> None:
    words = (sys.executable, "-m", "tests.bench.fake_schedules", json.dumps(spec))
    monkeypatch.setattr(command, "COMMAND", words)


def invoke(*words: str) -> tuple[int, str, str]:
    arguments = ["tune", "--rounds", "2", *words]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "250", "TERM": "dumb"})
    return result.exit_code, result.stdout, result.stderr


def ranked_at(shape: str) -> list[Ranked]:
    return ranked_here(Problem(Shape(*map(int, shape.split("x")))))


def planned(shape: str, layout: str = "tn") -> Planned:
    problem = Problem(Shape(*map(int, shape.split("x"))), "bf16", layout)
    return problem_for(definition_text(problem), problem.shape, SMS, FakeGpu.l2_bytes, "fake")


def entries(path: Path) -> dict[Planned, Entry]:
    return {p: Entry.of(p, data) for p, data in read_table(path).entries.items()}


def known(shape: str = SMALL) -> Entry:
    """An entry of an earlier run."""
    params = ranked_at(shape)[1].params
    return Entry(planned(shape), params, 3.0, 4.0, "0.1.0", "2026-11-01T09:00:00+00:00")


def result(choice: list[float], other: list[float]) -> dict[str, Any]:
    def record(rank: int, times: list[float]) -> dict[str, Any]:
        return {"rank": rank, "status": "ok", "reason": "", "times_us": times}

    params = {name: r.params.to_dict() for name, r in zip("ab", ranked_at(SMALL), strict=False)}
    return {
        "choice": "a", "systems": {"a": record(1, choice), "b": record(2, other)},
        "finalists": params, "problem": problem_to_dict(planned(SMALL)),
    }  # fmt: skip


@pytest.mark.slow
def test_the_fastest_is_kept_and_chosen(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    found = ranked_at(LARGE)
    fake(monkeypatch, factors=[2.0, 1.5, 1.0, 0.5])
    code, text, errors = invoke("512", "4096", "1024", "--top", "5")
    assert code == 0, errors
    (made,) = entries(path).values()
    assert (made.problem, made.params) == (planned(LARGE), found[3].params)
    assert made.us == pytest.approx(found[3].us * 0.5, abs=1e-3)
    assert made.choice_us == pytest.approx(found[0].us * 2.0, abs=1e-3)
    assert choose_params(planned(LARGE)) == found[3].params != modelled(planned(LARGE))
    assert f"fake, bf16, TN, bare: kept in {path}" in text and found[3].name in text


@pytest.mark.slow
def test_what_is_measured_is_compiled_before(
    monkeypatch: pytest.MonkeyPatch, path: Path, built: Kernels
) -> None:
    """The shortlists of what is left."""
    fake(monkeypatch)
    add_entries(path, [known()])
    text = EPILOGUES["bare"].definition("bf16", "tn")
    small, large = (
        [(text, r.params) for r in shortlist(text, planned(shape), 3)] for shape in (SMALL, LARGE)
    )
    assert invoke("--shapes", f"{SMALL},{LARGE}", "--top", "3")[0] == 0
    assert built == large
    built.clear()
    assert invoke("--shapes", f"{SMALL},{LARGE}", "--top", "3", "--again")[0] == 0
    assert built == [*small, *large]


@pytest.mark.slow
def test_the_models_choice_stays_within_the_noise(
    monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    fake(monkeypatch, factors=[1.0, *[2.0] * 99])
    code, text, errors = invoke("--shapes", SMALL, "--top", "3")
    assert code == 0, errors
    (made,) = entries(path).values()
    assert made.params == ranked_at(SMALL)[0].params and made.us == made.choice_us
    assert "the model's choice" in text


@pytest.mark.slow
def test_json(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    fake(monkeypatch, factors=[2.0, 0.5])
    code, text, errors = invoke("--shapes", SMALL, "--top", "3", "--layout", "NT", "--json")
    assert code == 0, errors
    data = json.loads(text)
    assert (data["schema"], data["table"], data["stopped"]) == ("wsched.tune/1", str(path), "")
    assert data["command"]["layout"] == "nt" and "then the fastest 4" in data["method"]
    (row,) = data["shapes"]
    (made,) = entries(path).values()
    assert row["entry"] == made.to_dict() and made.problem == planned(SMALL, "nt")
    assert (row["shape"], row["known"], row["rank"]) == (SMALL, False, 2)
    assert row["ratio"]["median"] > 1 and row["left_out"] == {}


@pytest.mark.slow
def test_what_is_wrong_or_does_not_compile_is_never_kept(
    monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    found = ranked_at(SMALL)
    bad = {"0": "wrong", "1": "schedule", "2": "late", "3": "internal"}
    fake(monkeypatch, factors=[0.1] * 4, bad_places=bad)
    code, text, _ = invoke("--shapes", SMALL, "--top", "6")
    assert code == 1
    (made,) = entries(path).values()
    assert made.params in [r.params for r in found[4:6]] and made.choice_us is None
    assert f"{found[0].name} wrong at {SMALL}: wrong result: relative error nan" in text
    assert f"{found[2].name} wrong at {SMALL}: after timing" in text
    assert f"{found[3].name} failed at {SMALL}: compile: InternalError: verify" in text


@pytest.mark.slow
def test_nothing_that_is_right(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    fake(monkeypatch, bad_places={"0": "wrong", "1": "wrong"})
    code, text, _ = invoke("--shapes", SMALL, "--top", "2", "--json")
    assert (code, entries(path)) == (1, {})
    (row,) = json.loads(text)["shapes"]
    assert row["entry"] is None and len(row["left_out"]) == 2


def test_what_hung_is_told_again(path: Path) -> None:
    """A result comes when it is measured, and once more in the end, then with what hung."""
    outcomes: dict[str, Outcome] = {}
    keep = command._keep(path, outcomes)
    told = result([10.0] * 4, [9.0] * 4)
    del told["systems"]["a"]
    keep({}, {SMALL: told})
    (before,) = entries(path).values()
    assert (before.us, before.choice_us) == (9.0, None) and not outcomes[SMALL].broken
    add_entries(path, [replace(before, us=5.0)])
    told["systems"]["a"] = {"status": "failed", "reason": "hung"}
    told["systems"]["b"]["times_us"] = [7.0] * 4
    keep({}, {SMALL: told})
    assert outcomes[SMALL].broken and outcomes[SMALL].entry == before
    assert entries(path)[planned(SMALL)].us == 5.0  # it is not written twice


@pytest.mark.slow
def test_a_later_run_goes_on(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    add_entries(path, [known()])
    monkeypatch.setattr(command, "COMMAND", ("false",))
    code, text, errors = invoke("--shapes", SMALL, "--top", "2")
    assert code == 0 and "known" in text, errors
    fake(monkeypatch, factors=[0.5])
    code, text, errors = invoke("--shapes", f"{SMALL},{LARGE}", "--top", "2")
    assert code == 0 and "known" in text, errors
    assert list(entries(path)) == [planned(SMALL), planned(LARGE)]
    assert entries(path)[planned(SMALL)] == known()
    assert invoke("--shapes", SMALL, "--top", "2", "--again")[0] == 0
    assert entries(path)[planned(SMALL)].params == ranked_at(SMALL)[0].params


@pytest.mark.slow
@pytest.mark.parametrize("stale", [{"wsched": "0.0.9"}, {"params": {"x": 1}}], ids=str)
def test_what_is_stale_is_measured_again(
    stale: dict[str, Any], monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    """Measured by another version, or with a schedule that this one does not have."""
    add_entries(path, [known()])
    data = json.loads(path.read_text())
    data["entries"][0] |= stale
    path.write_text(json.dumps(data))
    fake(monkeypatch)
    assert invoke("--shapes", SMALL, "--top", "2")[0] == 0
    assert entries(path)[planned(SMALL)].date > known().date


@pytest.mark.slow
def test_a_budget(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    fake(monkeypatch)
    clock = iter([0.0, 5.0, 11.0])
    monkeypatch.setattr("wsched.bench.method.shapes_run.time.monotonic", lambda: next(clock))
    words = ("--shapes", f"{SMALL},{LARGE},8x512x512", "--top", "2", "--budget", "10")
    code, _, errors = invoke(*words)
    assert code == 0
    assert errors.splitlines()[-1] == "--budget is spent: 2 of 3 shapes are measured"
    assert set(entries(path)) == {planned(SMALL), planned(LARGE)}


@pytest.mark.slow
def test_an_interrupt_keeps_what_was_measured(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """The first shape is allocated twice; it is interrupted there, before it is kept."""
    fake(monkeypatch, bad={"": "interrupt"})
    code, _, errors = invoke("--shapes", SMALL, "--top", "2")
    assert (code, entries(path)) == (130, {})
    assert errors.splitlines()[-1] == "interrupted: 0 of 1 shapes are measured"


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Of the shape that was measured; what an earlier run kept stays."""
    fake(monkeypatch)
    add_entries(path, [known()])
    before = path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        code, _, errors = invoke("--shapes", LARGE, "--top", "2")
    assert (code, path.read_bytes()) == (2, before)
    assert errors == f"{path} cannot be written (No space left on device); it is as it was\n"


@pytest.mark.slow
def test_a_table_of_ones_own(monkeypatch: pytest.MonkeyPatch, path: Path, tmp_path: Path) -> None:
    fake(monkeypatch)
    output, file = tmp_path / "mine.json", tmp_path / "shapes.txt"
    file.write_text(f"# layers of a model\n{SMALL}  # decoding\n\n{LARGE}, 8x512x512\n")
    assert invoke("--shapes", str(file), "--top", "1", "--output", str(output))[0] == 0
    assert len(entries(output)) == 3 and not path.exists()


@pytest.mark.slow
def test_a_definition(monkeypatch: pytest.MonkeyPatch, path: Path, tmp_path: Path) -> None:
    file, text = tmp_path / "linear.py", definition(layout="nt")
    file.write_text(text)
    fake(monkeypatch)
    code, out, errors = invoke("16", "512", "512", "--definition", str(file), "--top", "2")
    assert code == 0 and f"fake, bf16, NT, {file}: kept in {path}\n" in out, out + errors
    (made,) = entries(path)
    assert made == problem_for(text, Shape(16, 512, 512), SMS, FakeGpu.l2_bytes, "fake")
    assert made.m_major and made.n_major


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        (definition(), ("--epilogue", "gelu"), "says type, layout and epilogue itself"),
        (definition().replace("[-1, -1]", "[-1, 64]", 1), (), "K is 8 in 8x8x8, the definition"),
        ("x = 3", (), "d.py: text with 0 fusion definitions is not supported"),
        (TWO_OUTPUTS, (), "measuring 2 results is not supported; supported: one result"),
    ],
)
def test_a_definition_that_is_refused(
    text: str, words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    (tmp_path / "d.py").write_text(text)
    code, _, errors = invoke("8", "8", "8", "--definition", str(tmp_path / "d.py"), *words)
    assert code == 2 and said in errors


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "write either M N K or --shapes"),
        (("8", "8"), "write either M N K or --shapes"),
        (("8", "8", "8", "--shapes", "8x8x8"), "write either M N K or --shapes"),
        (("--shapes", "none.txt"), "the shape 'none.txt' is not supported; supported: MxNxK, for"),
        (("8", "8", "8", "--dtype", "fp8"), "--dtype fp8 is not supported; supported: bf16, fp16"),
        (("8", "8", "8", "--layout", "xx"), "--layout xx is not supported; supported: tn, nt"),
        (("8", "8", "8", "--epilogue", "relu"), "--epilogue relu is not supported; supported: b"),
    ],
)
def test_words_that_are_refused(words: tuple[str, ...], said: str, path: Path) -> None:
    code, _, errors = invoke(*words)
    assert code == 2 and said in errors and not path.exists()


def test_a_table_that_is_none(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("[]")
    code, _, errors = invoke("8", "8", "8")
    assert code == 2 and errors.startswith(f"{path} has schema None, this version of wsched reads")
    assert path.read_text() == "[]"


def test_a_table_that_others_can_write(path: Path, tmp_path: Path) -> None:
    """It would not be read; one that is named on the command line is the user's business."""
    add_entries(path, [])
    path.chmod(0o666)
    assert invoke("8", "8", "8")[::2] == (
        2,
        f"a table of which {path} can be written by others is not supported; supported: one that "
        "is the user's alone\n",
    )


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.undo()
    monkeypatch.setenv(VARIABLE, str(path))
    monkeypatch.setattr("wsched.bench.method.gpu.no_gpu_reason", lambda: "torch.cuda finds no GPU")
    assert invoke("8", "8", "8")[::2] == (
        2,
        "wsched tune here (torch.cuda finds no GPU) is not supported; supported: a CUDA GPU with "
        "torch\n",
    )
    assert not path.exists()


@pytest.mark.gpu
@pytest.mark.parametrize("what", ["bare", "residual", "nt", "where"])
def test_on_a_gpu(what: str, monkeypatch: pytest.MonkeyPatch, path: Path, tmp_path: Path) -> None:
    """One small shape, which a call of the same sizes then finds."""
    import torch

    import wsched

    monkeypatch.undo()
    monkeypatch.setenv(VARIABLE, str(path))
    a, b = torch.randn(264, 328, device="cuda"), torch.randn(520, 328, device="cuda")
    others = [torch.randn(264, 520, device="cuda").bfloat16()] * (what in ("residual", "where"))
    words, text = ["--epilogue", what], EPILOGUES["bare"].definition("bf16")
    if what in EPILOGUES:
        text = EPILOGUES[what].definition("bf16")
    elif what == "nt":
        words, a, b = ["--layout", what], a.t().contiguous().t(), b.t().contiguous().t()
    else:
        text = WHERE
        (tmp_path / "where.py").write_text(text)
        words = ["--definition", str(tmp_path / "where.py")]
    code, out, errors = invoke("264", "520", "328", "--top", "3", "--json", *words)
    assert code == 0, out + errors
    (row,) = json.loads(out)["shapes"]
    assert row["entry"]["us"] > 0 and not row["left_out"]
    found = wsched.explain(text, [a.bfloat16(), b.bfloat16(), *others])
    assert found.kernel is not None
    assert found.kernel.tuned == row["entry"] | {"file": str(path), "gpu": "fake"}
