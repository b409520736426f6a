"""Definitions with operands of 8 bits from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from wsched.cli.app import app

pytest.importorskip("torch", reason="torch is not installed")

X = "fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.{}{})"
SCALED = f"""\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = {X.format("Float8_e4m3fn", "")}
    w = {X.format("Float8_e5m2", ", stride_order=[0, 1]")}
    p = fd.define_tensor(shape=[-1, 1], contiguity=[True, None], dtype=DataType.Float)
    q = fd.define_tensor(shape=[1, -1], contiguity=[None, True], dtype=DataType.Float)
    d, _, _ = fd.ops.scaled_mm(x, w, p, q, dtype=DataType.Half)
    fd.add_output(d)
"""
INTEGERS = f"""\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = {X.format("Int8", "")}
    w = {X.format("UInt8", "")}
    fd.add_output(fd.ops.linear(x, w))
"""


def output(text: str, folder: Path, *arguments: str) -> str:
    file = folder / "definition.py"
    file.write_text(text)
    command, *rest = arguments
    found = CliRunner().invoke(app, [command, str(file), *rest], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


@pytest.mark.parametrize(("text", "result"), [(SCALED, "Half"), (INTEGERS, "Int32")])
def test_run(text: str, result: str, tmp_path: Path) -> None:
    found = output(text, tmp_path, "run", "--shape", "130x72x272")
    assert found.startswith(f"RIGHT: 130 x 72 {result} result against torch in fp32")


@pytest.mark.parametrize(("more", "limit"), [("", "3e-04"), (", use_fast_accum=True", "8e-03")])
def test_sums_of_few_bits_have_a_limit_of_their_own(more: str, limit: str, tmp_path: Path) -> None:
    """The machine sums in fp32, a GPU does not."""
    text = SCALED.replace("dtype=DataType.Half)", f"dtype=DataType.Float{more})")
    found = output(text, tmp_path, "run", "--shape", "130x72x272")
    assert f"limit {limit}" in found and found.startswith("RIGHT")


@pytest.mark.parametrize(
    ("text", "line"),
    [(SCALED, "mma(T12, T13, promotion = 128)"), (INTEGERS, "_l_int = mma(T5, T6)  64 x")],
)
def test_dump(text: str, line: str, tmp_path: Path) -> None:
    assert line in output(text, tmp_path, "dump", "--stage", "loops")


@pytest.mark.slow
def test_tiles(tmp_path: Path) -> None:
    """A step has as many bytes as of 16 bits; a second accumulator leaves fewer columns."""
    head, first, *_ = output(SCALED, tmp_path, "tiles").splitlines()
    assert [word for word in head.split() if word.startswith("K=")] == ["K=64", "K=128", "K=256"]
    assert "8-216" in first
    of_integers = output(INTEGERS, tmp_path, "tiles").splitlines()
    end = next(
        n for n, line in enumerate(of_integers) if line.startswith("cooperative  1       128")
    )
    assert "8-32 48 64 80" in of_integers[1] and of_integers[end - 1].split()[-2:] == ["240", "256"]


def test_explain(tmp_path: Path) -> None:
    found = output(SCALED, tmp_path, "explain", "--shape", "4096x4096x4096", "--sms", "132")
    assert "132 multiprocessors: wsched's kernel" in " ".join(found.split())
