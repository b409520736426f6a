from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lowering.ground.errors import UnsupportedError
from tests.front.own import cooperative
from tests.schedules import definition
from wsched.cli import app as cli
from wsched.explore.model import Asked
from wsched.explore.page import unpacked
from wsched.front.schedule import Schedule


def explore(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, ["explore", *map(str, arguments)])


@pytest.mark.slow
@pytest.mark.usefixtures("plain")
def test_a_page(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    result = explore(file, "--shape", "128x128x64", "--sms", 16, "-o", path)
    assert result.exit_code == 0, result.output
    told = r"/.*/out\.html: 0\.\d\d MB, opens in a browser without a network\n"
    assert re.fullmatch(told, result.stdout)
    data = re.search(r'id="data">(.*?)<', path.read_text())
    assert data is not None
    shown = unpacked(data[1])
    assert isinstance(shown, dict)
    assert shown["title"].startswith("128x128x64 on ")
    assert "with 16 multiprocessors" in shown["title"]


@pytest.mark.parametrize("own", [False, True], ids=["definition", "schedule"])
def test_a_page_is_asked_for_with_the_text_of_its_file(
    own: bool, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[Asked]()

    def book_of(what: Asked, trace: object) -> object:
        asked.append(what)
        raise UnsupportedError("a page of this", "others")

    monkeypatch.setattr("wsched.cli.explore.book_of", book_of)
    text = file.read_text()
    if own:
        text, file = str(cooperative(definition())), tmp_path / "own.sched"
        file.write_text(text)
    assert explore(file).exit_code == 2
    ((given, said),) = ((x.definition, x.text) for x in asked)
    assert isinstance(given, Schedule) is own and str(given) == said == text


def test_where_nothing_can_be_written(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said before anything is made."""
    monkeypatch.setattr("wsched.cli.explore.book_of", pytest.fail)
    for path, why in (
        (tmp_path / "nowhere" / "p.html", "no such folder"),
        (tmp_path, "a folder, where a file is to be"),
        (Path("/proc/p.html"), "in a folder that cannot be written"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(os, "access", lambda path, mode: path != "/proc")
            result = explore(file, "-o", path)
        assert result.exit_code == 2
        said = " ".join(re.sub(r"[│╭╮╰╯─|]", " ", result.stderr).split())
        assert "--output" in said and why in said


def test_a_page_that_cannot_be_written(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The former one is as it was."""
    path = tmp_path / "page.html"
    path.write_text("before")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("wsched.cli.explore.book_of", lambda asked, line: None)
    monkeypatch.setattr("wsched.cli.explore.page_html", lambda book: "after")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        result = explore(file, "-o", path)
    said = " ".join(re.sub(r"[│╭╮╰╯─|]", " ", result.stderr).split())
    assert result.exit_code == 2 and "No space left on device" in said
    assert path.read_text() == "before"
    assert explore(file, "-o", path).exit_code == 0 and path.read_text() == "after"


def test_a_trace_that_is_none(file: Path, tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    missing = explore(file, "--trace", trace)
    assert missing.exit_code == 2 and "--trace" in missing.stderr
    trace.write_text("[]")
    other = explore(file, "--trace", trace)
    assert other.exit_code == 2
    assert other.stderr.startswith(f"{trace} is no time line as wsched trace --json writes it")


def test_a_definition_without_a_kernel(tmp_path: Path) -> None:
    path = tmp_path / "sum.py"
    path.write_text(
        "def nvfuser_fusion(fd : FusionDefinition) -> None :\n"
        "    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)\n"
        "    fd.add_output(fd.ops.relu(x))\n"
    )
    result = explore(path)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"{path}: ") and "is not supported" in result.stderr
