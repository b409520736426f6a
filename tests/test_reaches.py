"""Which test runs which line, as ``--reaches`` writes it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.reaches import COVERAGE, Reaches

MODULE = """\
def first(x):
    if x:
        return 1
    return 2


def second():
    return first(0)
"""

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="needs PEP 669")


def lines(bits: str) -> list[int]:
    return [n for n in range(100) if int(bits, 16) >> n & 1]


def test_each_line_is_told_anew(tmp_path: Path) -> None:
    """Also in a run with ``--reaches``, which listens as another tool."""
    (tmp_path / "wsched").mkdir()
    path = tmp_path / "wsched" / "module.py"
    scope: dict[str, object] = {}
    exec(compile(MODULE, str(path), "exec"), scope)
    exec(compile("def other(): return 1", str(tmp_path / "other.py"), "exec"), scope)
    reaches = Reaches(tmp_path, tool=COVERAGE + 2)
    reaches.start()
    try:
        found = []
        for name, args in (("first", (1,)), ("second", ()), ("first", (1,)), ("other", ())):
            scope[name](*args)  # type: ignore[operator]
            found.append(reaches.take())
    finally:
        reaches.stop()
    assert [[(f, lines(b)) for f, b in taken.items()] for taken in found] == [
        [("wsched/module.py", [2, 3])],
        [("wsched/module.py", [2, 4, 8])],
        [("wsched/module.py", [2, 3])],
        [],
    ]


@pytest.mark.slow
def test_a_run_writes_a_line_for_each_test(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    pytester.makepyfile("import pytest\n@pytest.mark.parametrize('n', [1, 2])\ndef test(n): pass")
    done = pytester.runpytest_subprocess("-p", "tests.reaches", "--reaches=told")
    done.assert_outcomes(passed=2)
    (file,) = Path(pytester.path / "told").glob("*.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [r["test"].rpartition("::")[2] for r in rows] == ["test[1]", "test[2]"]
    assert all(r["seconds"] >= 0 and r["lines"] == {} for r in rows)
