"""The list of ``raise`` lines that no test has reached."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest

from tests.raises import PROFILER, Reached, raise_lines

MODULE = """\
def first(x):
    if x == 1:
        raise ValueError("one")
    if x == 2:
        raise ValueError(
            "two"
        )
    try:
        return 1 // x
    except ZeroDivisionError as e:
        raise ValueError("none") from e


def second(x):
    try:
        first(x)
    except ValueError:
        raise
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "wsched" / "bench").mkdir(parents=True)
    for name in ("module", "bench/other"):
        (tmp_path / "wsched" / f"{name}.py").write_text(MODULE)
    return tmp_path


def test_the_lines_that_make_errors(tree: Path) -> None:
    assert raise_lines(tree, ["wsched"]) == {
        ("wsched/module.py", 3): 'raise ValueError("one")',
        ("wsched/module.py", 5): "raise ValueError(",
        ("wsched/module.py", 11): 'raise ValueError("none") from e',
    }


def test_this_tree_has_some() -> None:
    assert len(raise_lines(packages=["passes"])) > 40


@pytest.mark.skipif(sys.version_info < (3, 12), reason="needs PEP 669")
def test_what_was_reached(tree: Path) -> None:
    """Also in a run with ``--raises``, which listens as another tool."""
    scope: dict[str, object] = {}
    path = tree / "wsched" / "module.py"
    exec(compile(MODULE, str(path), "exec"), scope)
    reached = Reached(tree, tool=PROFILER + 1)
    reached.start()
    try:
        for x in (2, 0, 3):
            with contextlib.suppress(ValueError):
                scope["second"](x)  # type: ignore[operator]
    finally:
        reached.stop()
    left = set(raise_lines(tree, ["wsched"])) - set(reached.lines())
    assert left == {("wsched/module.py", 3)}
