"""What commands and modules of the benchmark are asked, and the progress that they show."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.bench import norms
from wsched.bench.cli import _Shown
from wsched.bench.method.statistic import input_sets
from wsched.bench.method.tokens import tokens_of


def test_progress_is_counted_over_processes() -> None:
    told: list[tuple[int, str]] = []
    shown = _Shown(lambda done, text: told.append((done, text)), ["a", "b", "c"], 2)
    for _ in range(2):
        shown.next_process()
        for shape in "abc":
            shown(shape, "cublas", "compile")
    assert [done for done, _ in told] == [0, 1, 2, 3, 4, 5]
    assert told[4][1] == "process 2/2, b: cublas compile"


def test_tokens() -> None:
    assert tokens_of(" 512,1024, ") == [512, 1024]
    for text in ("", "0", "-1", "x", "1,0", "\u0661"):
        with pytest.raises(UnsupportedError, match="--tokens"):
            tokens_of(text)


def test_the_help_says_how_shapes_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        norms.main(["--help"])
    assert "MxNxK,..." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("problem", "cache", "sets"), [(1, 10, 21), (10, 10, 3), (100, 10, 2), (0, 10, 21)]
)
def test_sets_of_inputs(problem: int, cache: int, sets: int) -> None:
    """The others are twice the cache."""
    assert input_sets(problem, cache) == sets
