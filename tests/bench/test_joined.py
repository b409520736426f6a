"""Joined measurements: schedules beside their predictions, and where a choice is off."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.schedules import SCHEDULES, cooperative
from wsched.bench.drawn.joined import (
    ClassLine,
    Joined,
    by_class,
    classes,
    joined,
    main,
    write_csv,
)
from wsched.bench.drawn.problems import Drawn
from wsched.bench.drawn.schedules import schedules_for
from wsched.bench.problem import definition_text
from wsched.bench.schedules.ranking import problem_for
from wsched.choose.problem import Problem
from wsched.choose.tuned.entry import problem_to_dict
from wsched.fusion import DataType
from wsched.schedule.matmul.params import MatmulParams

PROBLEMS = (Drawn(512, 408, 8760, "tn"), Drawn(64, 4096, 4096, "tn"))


def line(drawn: Drawn, factors: list[float], cublas: float) -> str:
    """A schedule takes so many times what the model's first is predicted to take."""
    text = definition_text(drawn.problem)
    problem = problem_for(text, drawn.problem.shape, 132)
    found = schedules_for(text, problem, 4)[: len(factors)]
    best = min(r.us for r in found)
    systems = {
        r.name: {"status": "ok", "first_us": best * f, "params": r.params.to_dict()}
        for r, f in zip(found, factors, strict=True)
    }
    systems["cublas"] = {"status": "ok", "times_us": [best * cublas]}
    systems["wrong"] = {"status": "wrong", "reason": "off", "params": {}}
    result = {"systems": systems, "choice": found[0].name, "problem": problem_to_dict(problem)}
    return json.dumps({"problem": str(drawn), "result": result})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """At the first problem the second schedule reaches cuBLAS, at the other one none does."""
    made = tmp_path / "drawn.jsonl"
    lines = [line(PROBLEMS[0], [1.2, 1.0], 1.0), line(PROBLEMS[1], [1.2, 1.3], 1.0)]
    made.write_text("\n".join(['{"schema": "wsched.bench.random/1"}', *lines]), encoding="utf-8")
    return made


@pytest.mark.slow
def test_what_ran_is_joined_with_what_is_predicted(path: Path) -> None:
    found = list(joined(path))
    assert [j.name for j in found] == [str(p) for p in PROBLEMS for _ in range(2)]
    assert found[0].predicted_us * 1.2 == pytest.approx(found[0].us)
    assert found[0].cublas_us == pytest.approx(found[1].us, rel=0.001)
    assert found[0].problem.align_a == 16 and found[2].problem.align_a == 128


BASE = Problem(4096, 4096, 4096, DataType.BFloat16, (DataType.BFloat16,), 132)

CLASSES: dict[str, tuple[Problem, MatmulParams]] = {
    "plain": (BASE, cooperative(128, 256)),
    "pairs": (BASE, cooperative(128, 256, cluster=(2, 1))),
    "pairs of columns": (BASE, cooperative(128, 256, cluster=(1, 2))),
    "exchanged": (BASE, SCHEDULES["exchanged"]),
    "K in parts": (BASE, SCHEDULES["split_2"]),
    "a round that is full": (replace(BASE, m=128 * 12, n=256 * 11), cooperative(128, 256)),
    "a round that is nearly full": (
        replace(BASE, m=128 * 13, n=256 * 9), cooperative(128, 256),
    ),
    "few rows": (replace(BASE, m=64), cooperative(64, 64, groups=1)),
    "few steps": (replace(BASE, k=256), cooperative(128, 128)),
    "many steps": (replace(BASE, k=64 * 1024), cooperative(128, 128)),
    "unaligned": (replace(BASE, align_a=16), cooperative(128, 48)),
    "narrow": (BASE, cooperative(128, 24, 32)),
}  # fmt: skip


def test_classes(golden: Golden) -> None:
    """Of which classes schedules at problems are: a table."""
    lines = (
        f"{name}: {', '.join(classes(Joined(name, problem, name, params, 1.0, None)))}"
        for name, (problem, params) in CLASSES.items()
    )
    assert "\n".join(lines) == golden


def test_ranking_and_reach_are_told_apart(path: Path) -> None:
    lines = {ln.name: ln for ln in by_class(joined(path))}
    everything = lines["all"]
    assert (everything.ranked_behind, everything.out_of_reach) == (1, 1)
    assert (lines["rows of 16 bytes"].ranked_behind, lines["rows of 16 bytes"].out_of_reach) == (
        1,
        0,
    )
    assert lines["few rows or columns"].out_of_reach == 1
    assert str(ClassLine("few steps", (0.9, 1.0), (0.96, 1.0))) == (
        "few steps                   2 choice 0.949 of cuBLAS, best 0.980, below 0.95:   1 by rank,"
        "   0 out of reach"
    )


def test_a_problem_belongs_to_classes_by_its_choice(path: Path) -> None:
    first, *_, last = joined(path)
    assert {"all", "rows of 16 bytes", "K in parts", "clusters"} <= set(classes(first))
    assert "few rows or columns" in classes(last) and "clusters" not in classes(last)
    rounds = ("one round, full", "one round, not full", "several rounds")
    assert [[r for r in rounds if r in classes(j)] for j in (first, last)] == [
        ["one round, full"], ["one round, not full"],
    ]  # fmt: skip


def test_a_problem_with_one_schedule_or_without_cublas_is_no_comparison(tmp_path: Path) -> None:
    alone = json.loads(line(PROBLEMS[0], [1.0, 1.1], 1.0))
    del alone["result"]["systems"]["cublas"]
    made = tmp_path / "alone.jsonl"
    made.write_text(json.dumps(alone) + "\n" + line(PROBLEMS[1], [1.0], 1.0), encoding="utf-8")
    assert by_class(joined(made)) == []


def test_the_table_and_the_lines(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(path)])
    assert capsys.readouterr().out.startswith("all                         2 choice ")
    file = io.StringIO()
    write_csv(joined(path), file)
    rows = list(csv.DictReader(io.StringIO(file.getvalue())))
    assert len(rows) == 4 and rows[0]["problem"] == str(PROBLEMS[0])
    main(["--csv", str(path)])
    assert capsys.readouterr().out == file.getvalue()
