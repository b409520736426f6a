"""Trees fitted to measurements: what they learn, and what they lose where they know nothing."""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass, replace
from pathlib import Path

import lightgbm
import numpy as np
import pytest
import typer
from numpy.typing import NDArray
from typer.testing import CliRunner

from wsched.bench.drawn import fit
from wsched.bench.drawn.fit import Boosting, Measured, fitted, left, measured, trees_of
from wsched.bench.drawn.joined import joined
from wsched.bench.drawn.problems import Drawn
from wsched.bench.drawn.schedules import schedules_for
from wsched.bench.problem import definition_text
from wsched.bench.schedules.ranking import problem_for
from wsched.choose.cost_model import cost
from wsched.choose.learned.features import FEATURES
from wsched.choose.learned.trees import Trees
from wsched.choose.tuned.entry import problem_to_dict

LEAVES = {"min_data_in_leaf": 5}
EXCHANGED = FEATURES.index("exchanged")


def made(problems: int = 40, schedules: int = 12) -> Measured:
    """Times that the laws predict, but that exchanged tiles take a tenth longer."""
    rng = np.random.default_rng(3)
    count = problems * schedules
    rows = rng.random((count, len(FEATURES))).astype(np.float32)
    rows[:, EXCHANGED] = rng.integers(0, 2, count)
    laws = rng.normal(3, 0.03, count)
    problem = np.repeat(np.arange(problems), schedules)
    took = laws + 0.1 * rows[:, EXCHANGED] + 0.2 * rng.random(problems)[problem]
    names = np.arange(problems).astype(str)
    return Measured(rows, laws, took, np.arange(0, count, schedules), problem, names)


def test_what_is_not_in_the_laws_is_learned() -> None:
    m = made(problems=10)
    told = fitted(m, **LEAVES).of(m.rows)
    apart = told[m.rows[:, EXCHANGED] == 1].mean() - told[m.rows[:, EXCHANGED] == 0].mean()
    assert apart == pytest.approx(0.1, abs=0.02)
    assert told[m.near].mean() == pytest.approx(0, abs=1e-4)


def test_rows_go_where_they_went_when_trees_were_fitted() -> None:
    """Those a unit in the last place apart, too: thresholds are halfway, in fp64."""
    rng = np.random.default_rng(5)
    rows = rng.random((120, len(FEATURES))).astype(np.float32)
    ulps = rng.integers(0, 8, len(rows))
    rows[:, EXCHANGED] = 1 + ulps * np.finfo(np.float32).eps
    settings = {"min_data_in_leaf": 2, "min_data_in_bin": 1, "verbose": -1}
    model = lightgbm.train(settings, lightgbm.Dataset(rows, ulps), 4)
    assert trees_of(model).of(rows) == pytest.approx(model.predict(rows), abs=1e-5)


def test_the_order_of_the_fastest_counts_more_than_times_of_the_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One split cannot say both: which of two is the first, and how long the others take."""
    count = 200
    rows = np.zeros((4 * count, len(FEATURES)), np.float32)
    rows[:, EXCHANGED] = np.tile([1, 2, 3, 4], count)
    took = np.log(np.tile([1.0, 1.03, 1.1, 1.3], count))
    m = Measured(
        rows, np.zeros(4 * count), took, np.arange(0, 4 * count, 4),
        np.repeat(np.arange(count), 4), np.arange(count).astype(str),
    )  # fmt: skip
    settings = {**LEAVES, "num_leaves": 2}
    monkeypatch.setattr(fit, "TO_TIMES", Boosting(1, 1.0))
    monkeypatch.setattr(fit, "TO_ORDER", Boosting(1, 1e-9))
    first, second, third, last = fitted(m, **settings).of(rows[:4])
    assert first == pytest.approx(second, abs=1e-6) and third < last
    monkeypatch.setattr(fit, "TO_ORDER", Boosting(20, 0.5))
    first, second, third, last = fitted(m, **settings).of(rows[:4])
    assert first < second < third < last


@pytest.mark.slow
def test_what_is_lost_at_problems_that_trees_do_not_know() -> None:
    laws, trees = left(made(), **LEAVES)
    assert laws.shape == trees.shape == (40,)
    assert laws.mean() > 0.02 and trees.mean() < 0.005


def test_trees_do_not_know_a_problem_by_another_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was measured on two is in a single fold."""
    m, fitted_to = made(problems=20), list[set[str]]()
    m = replace(m, names=np.tile(m.names[:10], 2))

    def known(of: Measured, some: NDArray[np.bool_]) -> Trees:
        inside, outside = ({*of.names[of.problem[x]]} for x in (some, ~some))
        assert not inside & outside and len(inside | outside) == 10
        fitted_to.append(inside)
        return fitted(of, some, max_depth=1)

    monkeypatch.setattr(fit, "fitted", known)
    left(m)
    assert sorted(map(len, fitted_to)) == [8] * 5


def test_the_first_in_order_is_what_counts() -> None:
    m = Measured(
        np.zeros((4, len(FEATURES)), np.float32), np.zeros(4),
        np.log([2.0, 1.0, 3.0, 4.5]), np.array([0, 2]), np.array([0, 0, 1, 1]),
        np.array(["one", "other"]),
    )  # fmt: skip
    assert m.behind.tolist() == pytest.approx(np.log([2, 1, 1, 1.5]).tolist())
    assert m.lost(np.array([0.0, 1.0, 1.0, 0.0])).tolist() == pytest.approx(
        np.log([2, 1.5]).tolist()
    )
    assert m.target.tolist() == pytest.approx(
        np.log([2**0.5, 2**-0.5, 1.5**-0.5, 1.5**0.5]).tolist()
    )


@dataclass(frozen=True)
class File:
    path: Path
    problems: tuple[Drawn, ...]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> File:
    """A file of ``wsched bench random``, packed, with a problem of one schedule behind others."""
    problems = tuple(Drawn(n, 1024, 512, "tn") for n in (512, 1024, 2048, 4096, 640, 8192))
    path = tmp_path_factory.mktemp("fit") / "drawn.jsonl.xz"
    with lzma.open(path, "wt") as file:
        for p in problems:
            text = definition_text(p.problem)
            planned = problem_for(text, p.problem.shape, 132)
            found = schedules_for(text, planned, 4)[: 1 if p.m == 8192 else None]
            systems = {
                r.name: {
                    "status": "ok", "first_us": cost(planned, r.params).us * 1.01**i,
                    "params": r.params.to_dict(),
                }
                for i, r in enumerate(found)
            }  # fmt: skip
            result = {"systems": systems, "problem": problem_to_dict(planned)}
            file.write(json.dumps({"problem": str(p), "result": result}) + "\n")
    return File(path, problems)


@pytest.mark.slow
def test_problems_with_one_schedule_say_nothing(packed: File) -> None:
    found = measured(joined(packed.path))
    assert len(found.starts) == len(packed.problems) - 1
    assert found.rows.shape == (len(found.took), len(FEATURES))
    assert found.laws[:2] == pytest.approx(found.took[:2], abs=0.02)
    assert found.names.tolist() == [str(p) for p in packed.problems[:-1]]


@pytest.mark.slow
def test_the_command_writes_what_is_read(
    packed: File, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(fit, "SETTINGS", fit.SETTINGS | {"min_data_in_leaf": 3})
    monkeypatch.setattr(fit, "TO_TIMES", Boosting(2, 0.1))
    monkeypatch.setattr(fit, "TO_ORDER", Boosting(1, 0.1))
    out = tmp_path / "trees.npz"
    fit.main([packed.path], out)
    assert len(Trees.read(out, FEATURES).roots) == 3
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("laws: 5 problems, ") and told[1].startswith("laws and trees: 5 ")
    assert told[2].startswith(f"wrote {out}, ")


def test_the_command_says_where_it_writes(tmp_path: Path) -> None:
    """It does not write the file of the package unless that is named."""
    app = typer.Typer()
    app.command()(fit.main)
    done = CliRunner().invoke(app, [str(tmp_path / "drawn.jsonl")])
    assert done.exit_code == 2 and "--out" in done.output
