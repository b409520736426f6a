"""``--shape``: sizes that no kernel takes say so, and empty ones are explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.schedules import definition
from wsched.cli.app import app

pytestmark = pytest.mark.usefixtures("plain")


def explained(file: Path, shape: str) -> Any:
    return CliRunner().invoke(app, ["explain", str(file), "--shape", shape])


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        (
            "4294967296x64x64",
            "M = 4294967296 is not supported; supported: sizes of at most 2130706431",
        ),
        ("2130706431x64x64", "2130706431 x 64 x 64 on 132 CTAs, where ceildiv(M, "),
    ],
)
def test_sizes_that_no_kernel_takes(file: Path, shape: str, reason: str) -> None:
    result = explained(file, shape)
    assert result.exit_code == 2
    assert f"Invalid value for --shape: {reason}" in result.stderr


def test_a_definition_of_several_parts_has_its_sizes(file: Path) -> None:
    head, _, tail = definition().partition("    d = ")
    file.write_text(
        f"{head}    s = fd.ops.sqrt(x)\n    y = fd.ops.cast(s, dtype=DataType.BFloat16)\n"
        f"    d = {tail.replace('(x,', '(y,')}"
    )
    result = explained(file, "64x64x64")
    assert result.exit_code == 2
    assert "--shape: a definition of several parts has the sizes that it says" in result.stderr


def test_other_routes_have_any(file: Path) -> None:
    pytest.importorskip("torch")  # else nobody takes it
    file.write_text(definition().replace("BFloat16", "Float"))
    result = explained(file, "64x64x64")
    assert result.exit_code == 0 and result.stdout.startswith("route on a GPU ")


def test_rows_that_are_copied(file: Path) -> None:
    """TMA reads none of 120 bytes."""
    pytest.importorskip("torch")  # which copies them
    result = CliRunner().invoke(app, ["run", str(file), "--shape", "64x64x60"])
    assert result.exit_code == 0 and result.stdout.startswith("RIGHT: 64 x 64 ")


@pytest.mark.parametrize("shape", ["0x128x64", "128x0x64", "128x128x0"])
def test_empty_problems(file: Path, shape: str) -> None:
    result = explained(file, shape)
    assert result.exit_code == 0, result.exception
    ctas = result.stdout.splitlines()[1].split()[0]
    assert (ctas == "0") == (not shape.endswith("x0"))


@pytest.mark.parametrize("command", ["dump", "run", "trace", "why"])
def test_whoever_refuses_names_the_file(file: Path, command: str) -> None:
    """Of sizes that the definition says."""
    if command == "trace":
        pytest.importorskip("torch")
    size = 2**52
    file.write_text(definition().replace("shape=[-1, -1]", f"shape=[{size}, 64]", 1))
    result = CliRunner().invoke(app, [command, str(file)])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"{file}: M = {size} is not supported; supported: sizes of at")


@pytest.mark.parametrize("command", ["dump", "run", "explain"])
def test_more_multiprocessors_than_there_are(file: Path, command: str) -> None:
    result = CliRunner().invoke(app, [command, str(file), "--sms", str(10**20)])
    assert result.exit_code == 2
    assert "'--sms': Input should be less than or equal to 4096" in result.stderr
