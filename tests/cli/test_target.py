"""``wsched dump --target``: kernels for another GPU than the one that is here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lowering.kernel.text import parse_kernel
from wsched.cli.app import app
from wsched.explore.data import Book
from wsched.importer.input_error import InputError

pytestmark = pytest.mark.usefixtures("plain")
PROOF = ["check", "--proof"]


def dump(file: Path, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["dump", str(file), "--shape", "64x128x64", *arguments])


@pytest.mark.parametrize(
    ("stage", "told"),
    [
        ("loops", "LdTMem(T4)"),
        ("synchronize_tcgen05", "tcgen05.mma"),
        ("ptx", ".target sm_100a"),
        ("mlir", "nvvm.tcgen05.alloc"),
        ("schedule", "# wsched schedule 1 for sm_100a\n"),
    ],
)
def test_a_stage(file: Path, stage: str, told: str) -> None:
    result = dump(file, "--stage", stage, "--target", "sm_100a")
    assert result.exit_code == 0, result.stderr
    assert told in result.stdout


def test_the_kernel_says_its_target(file: Path) -> None:
    for arch in ("sm_90a", "sm_100a"):
        text = dump(file, "--stage", "kernel", "--target", arch).stdout
        assert parse_kernel(text).target.arch == arch


def test_a_target_that_is_none(file: Path) -> None:
    result = dump(file, "--target", "sm_80")
    assert result.exit_code == 2
    assert "the target sm_80 is not supported" in " ".join(result.output.split())


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["explain"], "predicted: by data sheets, nothing was measured, "),
        (["explain"], "columns of tensor memory\n"),
        (["explain"], "under wsched.install(): nvFuser runs it all: no call is taken unasked"),
        (PROOF, "proved     tensor memory (matmul_"),
        (["run"], "ran on the machine model (CPU, byte for byte)"),
        (["trace"], ": 4 CTAs, "),
    ],
)
def test_other_commands(command: list[str], told: str, file: Path) -> None:
    """Each plans for the first GPU of the target, which is not here."""
    if command == ["trace"]:
        pytest.importorskip("torch")
    shape = ["--shape", "64x128x64" if command != PROOF else "4096x4096x64"]
    result = CliRunner().invoke(app, [*command, str(file), *shape, "--target", "sm_100a"])
    assert result.exit_code == 0, result.output
    assert told in result.stdout and "sm100a" in result.stdout
    if command != PROOF:
        assert "148 multiprocessors" in result.stdout


@pytest.mark.slow
def test_tiles(file: Path) -> None:
    for arguments in ([], [str(file)]):
        result = CliRunner().invoke(app, ["tiles", *arguments, "--target", "sm_100a", "--legal"])
        assert result.exit_code == 0, result.stderr
        rows = [line.split()[:4] for line in result.stdout.splitlines()]
        assert ["cooperative", "1", "128", "16-256"] in rows
        assert {row[2] for row in rows[1:]} == {"128", "256"}


@pytest.mark.slow
def test_a_page(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Book] = []
    monkeypatch.setattr("wsched.cli.explore.page_html", lambda book: made.append(book) or "")
    asked = ["--shape", "64x128x64", "--target", "sm_100a", "-o", str(tmp_path / "page.html")]
    result = CliRunner().invoke(app, ["explore", str(file), *asked])
    assert result.exit_code == 0, result.output
    (page,) = made[0].kernels
    assert "148 multiprocessors" in page.title or "sm100a" in page.title


@pytest.mark.parametrize("command", [["run"], ["explain"], PROOF, ["trace"]])
def test_a_target_beside_parameters_for_another(command: list[str], file: Path) -> None:
    if command == ["trace"]:
        pytest.importorskip("torch")
    asked = [*command, str(file), "--params", "cooperative", "--target", "sm_100a"]
    result = CliRunner().invoke(app, asked)
    assert isinstance(result.exception, InputError) or result.exit_code == 2
    assert "Hopper_64_256_16, of sm_90a" in f"{result.exception}{result.output}"
