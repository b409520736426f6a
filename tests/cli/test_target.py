"""``wsched dump --target``: kernels for another GPU than the one that is here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lowering.kernel.text import parse_kernel
from wsched.cli.app import app

pytestmark = pytest.mark.usefixtures("plain")


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
