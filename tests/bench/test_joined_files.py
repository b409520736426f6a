"""Files of measured problems, with schedules made by hand: what is read, and what is printed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Golden
from tests.schedules import cooperative, split_k
from wsched.bench.drawn.joined import ClassLine, Joined, classes, joined, main
from wsched.bench.drawn.judge import judge, planned
from wsched.bench.drawn.judge import main as judged
from wsched.bench.drawn.problems import Drawn
from wsched.bench.problem import definition_text
from wsched.bench.schedules.ranking import problem_for
from wsched.choose.problem import Problem
from wsched.choose.tuned.entry import problem_to_dict
from wsched.fusion import DataType

SCHEDULES = {
    "wide": cooperative(128, 256), "square": cooperative(128, 128),
    "pairs": cooperative(128, 256, cluster=(2, 1)), "parts": split_k(cooperative(128, 128), 2),
}  # fmt: skip


def line(drawn: Drawn, **scores: Any) -> dict[str, Any]:
    """A line of the file; a number is a time of the first stage."""
    systems: dict[str, Any] = {}
    for name, score in scores.items():
        found = {"status": "ok", "first_us": score} if isinstance(score, float) else score
        params = {"params": SCHEDULES[name].to_dict()} if name in SCHEDULES else {}
        systems[name] = found | params
    text = definition_text(drawn.problem)
    problem = problem_for(text, drawn.problem.shape, 132)
    return {
        "problem": str(drawn),
        "result": {"systems": systems, "problem": problem_to_dict(problem)},
    }


LINES = (
    {"schema": "wsched.bench.random/1"},
    line(Drawn(4096, 4096, 4096), cublas=210.0, wide=200.0, square=240.0, pairs=195.0),
    line(
        Drawn(512, 408, 8760),
        wide={"status": "ok", "first_us": 30.0, "times_us": [31.0, 33.0]},
        square=40.0,
        pairs={"status": "ok", "times_us": []},
        parts={"status": "wrong", "reason": "off", "first_us": 9.0},
        cublas={"status": "failed", "reason": "no"},
    ),
    line(Drawn(64, 4096, 4096, "nt"), cublas=12.0, wide=20.0, parts=10.0),
    line(
        Drawn(64, 4096, 4104, "nt"),
        cublas=12.0,
        wide=20.0,
        square={"status": "ok", "times_us": [21.0, 24.0, 20.0]},
    ),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "drawn.jsonl"
    made.write_text("".join(f"{json.dumps(ln)}\n" for ln in LINES), encoding="utf-8")
    return made


def test_what_ran_and_was_right_is_read(path: Path) -> None:
    """By its time in the stage that all were in; cuBLAS beside each of a problem's."""
    found = list(joined(path))
    assert [(j.name, j.schedule, j.us, j.cublas_us) for j in found] == [
        ("4096x4096x4096 tn", "wide", 200.0, 210.0),
        ("4096x4096x4096 tn", "square", 240.0, 210.0),
        ("4096x4096x4096 tn", "pairs", 195.0, 210.0),
        ("512x408x8760 tn", "wide", 30.0, None),
        ("512x408x8760 tn", "square", 40.0, None),
        ("64x4096x4096 nt", "wide", 20.0, 12.0),
        ("64x4096x4096 nt", "parts", 10.0, 12.0),
        ("64x4096x4104 nt", "wide", 20.0, 12.0),
        ("64x4096x4104 nt", "square", 21.0, 12.0),
    ]
    assert all(j.params == SCHEDULES[j.schedule] for j in found)
    assert [(j.problem.m, j.problem.n, j.problem.k) for j in found[:8:4]] == [
        (4096, 4096, 4096), (512, 408, 8760),
    ]  # fmt: skip
    assert {(j.problem.align_a, j.problem.align_b) for j in found[3:5]} == {(16, 16)}


@pytest.mark.parametrize("words", [(), ("--csv",)], ids=["classes", "lines"])
def test_what_is_printed(
    words: tuple[str, ...], path: Path, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the same file twice, which is two runs."""
    main([str(path), *words, str(path)])
    assert capsys.readouterr().out.replace("\r\n", "\n") == golden


BASE = Problem(4096, 4096, 4096, DataType.BFloat16, (DataType.BFloat16,), 132)


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("few rows or columns", {"m": 128}, {"m": 129}),
        ("few rows or columns", {"n": 128}, {"n": 136}),
        ("few steps", {"k": 512}, {"k": 513}),
        ("many steps", {"k": 64 * 256 + 1}, {"k": 64 * 256}),
    ],
)
def test_the_ends_of_classes(name: str, inside: dict[str, int], outside: dict[str, int]) -> None:
    found = [
        classes(Joined("", replace(BASE, **sizes), "", SCHEDULES["square"], 1.0, None))
        for sizes in (inside, outside)
    ]
    assert [name in of for of in found] == [True, False]


def test_what_reaches_cublas_just() -> None:
    found = ClassLine("all", (0.94, 0.95, 0.94), (0.95, 0.95, 0.949))
    assert (found.ranked_behind, found.out_of_reach) == (1, 1)


def test_files_from_before_alignment_was_planned_for() -> None:
    """Say nothing of it, or something else: rows are aligned as the sizes are."""
    for drawn, aligned in (
        (Drawn(512, 408, 8760), (16, 16)),
        (Drawn(520, 512, 512, "nt"), (16, 128)),
    ):
        told = line(drawn)["result"]
        told["problem"] |= {"align_a": 64, "align_b": 64}
        found = planned(str(drawn), told)
        assert (found.align_a, found.align_b) == aligned


def test_the_verdicts(path: Path, golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    """Of problems at which two schedules were measured or more, with cuBLAS or without."""
    assert [v.over_cublas for v in judge(path)].count(None) == 1
    judged([str(path)])
    assert capsys.readouterr().out == golden
    path.write_text("")
    judged([str(path)])
    assert capsys.readouterr().out == ""
