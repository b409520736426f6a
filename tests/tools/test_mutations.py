"""What may be changed in a text, and which tests a mutant is tried with."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import mutate
import pytest
import reached
from mutations import mutations

TEXT = '''\
"""A module."""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os


def limit(a: int, b: int = 4, *, more: bool = False) -> int:
    """Largest of both: 7."""
    if a < b and not more:
        raise ValueError(f"{a} + 1")
    told(a, key=b)
    a += 1
    return max(a - 3, b, key=abs)
'''


def test_what_is_changed() -> None:
    assert [(m.line, m.shown(TEXT)) for m in mutations(TEXT)] == [
        (8, "number: 4 -> (4 + 1)"),
        (8, "flag: False -> True"),
        (10, "condition: a < b and not more -> (not (a < b and not more))"),
        (10, "compare: < -> <="),
        (10, "boolean: and -> or"),
        (10, "not: not more -> bool(more)"),
        (11, 'statement: raise ValueError(f"{a} + 1") -> pass'),
        (12, "statement: told(a, key=b) -> pass"),
        (12, "keyword: key=b -> "),
        (13, "statement: a += 1 -> pass"),
        (13, "number: 1 -> (1 + 1)"),
        (14, "return: max(a - 3, b, key=abs) -> None"),
        (14, "binary: - -> +"),
        (14, "number: 3 -> (3 + 1)"),
        (14, "keyword: key=abs -> "),
    ]


def test_a_change_is_made_where_it_is_said() -> None:
    (minus,) = (m for m in mutations(TEXT) if m.kind == "binary")
    assert minus.apply(TEXT) == TEXT.replace("a - 3", "a + 3")


def test_what_no_test_can_see_is_left_alone() -> None:
    assert mutations("for a, b in zip(x, y, strict=True): pass\n") == []
    assert mutations("@dataclass(frozen=True)\nclass A:\n    x: int\n") == []
    assert mutations("assert isinstance(a, int) and isinstance(b, str)\n") == []
    assert [m.kind for m in mutations("assert isinstance(a, int) and b\n")] == ["boolean"]
    assert [m.kind for m in mutations("def f(): return False\n")] == ["flag"]
    assert [m.kind for m in mutations("def f(): return 0\n")] == ["number", "return"]


def test_characters_of_several_bytes_move_nothing() -> None:
    text = 'x = f("×", 1 < 2)\n'
    (found,) = (m for m in mutations(text) if m.kind == "compare")
    assert found.apply(text) == 'x = f("×", 1 <= 2)\n'


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """What ``--reaches`` wrote: three tests of a file, one of another."""
    rows = [("a", 0.1, 0b1110), ("b", 0.1, 0b0110), ("c", 0.001, 0b11110)]
    lines = [
        json.dumps({"test": t, "seconds": s, "lines": {"wsched/version.py": f"{bits:x}"}})
        for t, s, bits in rows
    ]
    (tmp_path / "1.jsonl").write_text("\n".join(lines) + "\n")
    other = {
        "test": "d",
        "seconds": 1,
        "lines": {"wsched/choose/tiles.py": "ffffffffffffffffffffffff"},
    }
    (tmp_path / "2.jsonl").write_text(json.dumps(other) + "\n")
    return tmp_path


def test_a_map_is_made_once_of_a_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Again of other code or tests, and where tests failed; what somebody else wrote stays."""
    ran: list[list[str]] = []
    fate = SimpleNamespace(returncode=0)

    def run(command: list[str], **_: object) -> SimpleNamespace:
        ran.append(command)
        (tmp_path / f"{len(ran)}.jsonl").write_text("")
        return fate

    monkeypatch.setattr(mutate.subprocess, "run", run)
    for code, tests, count in [("a", ["x"], 1), ("a", ["x"], 1), ("b", ["x"], 2), ("b", [], 3)]:
        monkeypatch.setattr(reached, "_code", lambda code=code: code)
        assert mutate.make_map(tmp_path, tests, 14)
        assert len(ran) == count
        assert [p.name for p in tmp_path.glob("*.jsonl")] == [f"{count}.jsonl"]
    assert ran[0][-1] == "x" and ran[0][ran[0].index("-n") + 1] == "14"
    fate.returncode = 1
    for count in (4, 5):
        assert not mutate.make_map(tmp_path, ["y"], 14)
        assert len(ran) == count and not list(tmp_path.iterdir())
    (tmp_path / "1.jsonl").write_text("")
    assert mutate.make_map(tmp_path, ["y"], 14) and len(ran) == 5


def test_a_map_that_was_interrupted_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], **_: object) -> SimpleNamespace:
        (tmp_path / "1.jsonl").write_text("")
        raise KeyboardInterrupt

    monkeypatch.setattr(mutate.subprocess, "run", run)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            mutate.make_map(tmp_path, [], 2)


def test_mutants_of_some_files(told: Path) -> None:
    coverage = mutate.Coverage(told)
    assert mutate.draw(coverage, 1, 3, ["no", "wsched/c*"]) == mutate.draw(coverage, 1, 3)
    assert mutate.draw(coverage, 1, 3, ["wsched/ver*"]) == []  # whose lines have no mutation


def test_the_tests_of_a_line(told: Path) -> None:
    coverage = mutate.Coverage(told)
    assert coverage.files() == ["wsched/choose/tiles.py", "wsched/version.py"]
    assert [t.test for t in coverage.tests("wsched/version.py", 3)] == ["c", "a"]
    assert [t.test for t in coverage.tests("wsched/version.py", 2)] == ["c", "b", "a"]
    assert coverage.lines("wsched/version.py") == 0b11110


def test_lines_that_tests_run_are_drawn_and_the_same_ones_again(told: Path) -> None:
    coverage = mutate.Coverage(told)
    first, again, other = (mutate.draw(coverage, seed, 3) for seed in (1, 1, 2))
    assert first == again != other
    assert {file for file, _ in first} == {"wsched/choose/tiles.py"}
    assert all(m.line < 96 for _, m in first)


def test_rounds_are_a_few_those_in_time_and_their_files() -> None:
    tests = [mutate.Reached(f"f{i % 2}.py::t{i}", 1.0, i) for i in range(50)]
    few, rest, files = mutate.rounds(tests, 5.5, "wsched/version.py")
    assert (few, rest[0]) == ((tests[:40], 40.0), tests[40:45])
    assert files[0] == ["f0.py", "f1.py"]


def test_files_that_lie_as_the_changed_one_come_first() -> None:
    """Of a line that a thousand tests run the mirror's are tried, whatever their names."""
    names = [f"tests/bench/test_{x}.py" for x in "abcdefgh"]
    names += ["tests/choose/tuned/test_z.py", "tests/choose/test_y.py", "tests/front/test_a.py"]
    tests = [mutate.Reached(f"{name}::t", 1.0, i) for i, name in enumerate(names * 10)]
    *_, (files, _) = mutate.rounds(tests, 1.0, "wsched/choose/tuned/table.py")
    assert files[:3] == ["tests/choose/tuned/test_z.py", "tests/choose/test_y.py", names[0]]
    *_, (files, _) = mutate.rounds(tests, 1.0, "lowering/choose/tiles.py")
    assert files[0] == names[0]


@pytest.mark.slow
def test_a_mutant_that_never_ends_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutate, "git", lambda *_: "")
    (tmp_path / "test_on.py").write_text("def test_on():\n    while True: pass\n")
    tree = mutate.Tree(tmp_path)
    assert tree.failing(["test_on.py"], 3) == "no end within 3 s of processor time"


@pytest.mark.slow
def test_a_mutant_is_tried_in_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed by a test that sees it, alive where none does."""
    root, copy = tmp_path / "root", tmp_path / "copy"
    (root / "tests").mkdir(parents=True)
    copy.mkdir()
    (root / "code.py").write_text("def f(x):\n    return x < 3\n")
    (root / "tests" / "test_f.py").write_text(
        "from code import f\ndef test_one(): assert f(1)\ndef test_three(): assert not f(3)\n"
    )
    (root / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["."]\n')
    monkeypatch.setattr(mutate, "ROOT", root)
    monkeypatch.setattr(
        mutate, "git", lambda *_: "code.py\0tests/test_f.py\0pyproject.toml\0gone.py\0"
    )
    (change,) = (m for m in mutations((root / "code.py").read_text()) if m.kind == "compare")
    tree = mutate.Tree(copy)
    blind = mutate.Reached("tests/test_f.py::test_one", 0.1, 1)
    assert tree.failing([blind], 60) is None
    killed = mutate.tried(tree, "code.py", change, [blind])
    assert (killed.killed, killed.tests, killed.what) == (True, 2, "compare: < -> <=")
    assert killed.by.startswith("FAILED tests/test_f.py::test_three")
    assert (copy / "code.py").read_text() == (root / "code.py").read_text()


def test_what_survived_for_want_of_time_or_of_a_judge_is_told() -> None:
    def result(line: int, killed: bool, tests: int, *, sure: bool = True) -> mutate.Result:
        return mutate.Result("code.py", line, f"{line}: a -> b", killed, tests, 1.0, "", 5, sure)

    found = [result(1, True, 2), result(2, False, 5), result(3, False, 4)]
    found += [result(4, False, 5, sure=False), result(5, False, 0, sure=False)]
    assert mutate.summary(found).splitlines()[-5:] == [
        "survived: code.py:2: 2: a -> b",
        "survived: code.py:3: 3: a -> b (4 of 5 tests)",
        "survived: code.py:4: 4: a -> b (not sure)",
        "survived: code.py:5: 5: a -> b (not sure, 0 of 5 tests)",
        "of 4 that survived 2 are not sure and 2 were cut off by time",
    ]


def test_kinds_are_counted() -> None:
    """Processes do not tell how many tests there were: none was cut off."""
    kinds = {"compare": [True, False], "return": [True]}
    found = [
        mutate.Result("code.py", 2, f"{kind}: a -> b", killed, 3, 1.0)
        for kind, each in kinds.items()
        for killed in each
    ]
    assert mutate.summary(found).splitlines() == [
        "2 of 3 mutants were killed",
        "  compare      1 of   2",
        "  return       1 of   1",
        "survived: code.py:2: compare: a -> b",
        "of 1 that survived 0 are not sure and 0 were cut off by time",
    ]
