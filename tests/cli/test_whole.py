"""``wsched run`` of a definition that is no single kernel: it runs as ``execute`` runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from wsched.cli import whole
from wsched.cli.app import app

pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("plain")

TWO = """\
# Two layers, of which the first is read as it is stored.
# inputs: 70x40:bf16 48x40:bf16 24x48:bf16@1,24
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.BFloat16)
    v = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[-1, -1], dtype=DataType.BFloat16, stride_order=[0, 1])
    h = fd.ops.relu(fd.ops.linear(x, v))
    y = fd.ops.linear(h, w)
    fd.add_output(y)
    fd.add_output(h)
"""


def run(*words: object) -> Any:
    return CliRunner().invoke(app, ["run", *map(str, words)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "two.py"
    path.write_text(TWO)
    return path


def test_what_is_told(file: Path) -> None:
    found = run(file)
    assert found.exit_code == 0, found.stderr
    first, error, by, _ = found.stdout.splitlines()
    assert first == (
        "RIGHT: 2 linear + 1 more, 70x24, 70x48, against torch, operation by operation"
    )
    assert error.startswith("  largest relative error (Frobenius norm) ")
    assert by == "  runs by cut, 2 of 2 parts are wsched's kernels: `wsched explain` has more"


def test_from_standard_input() -> None:
    found = CliRunner().invoke(app, ["run", "-", "--json"], input=TWO)
    told = json.loads(found.stdout)
    assert (
        told["passed"] and 0 <= told["error"] < told["limit"] and told["device"] in ("cpu", "cuda")
    )
    assert "kernel" not in told


def test_a_wrong_result_is_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    execute = whole.execute
    monkeypatch.setattr(whole, "execute", lambda text, x: [1.5 * r for r in execute(text, x)])
    found = run(file)
    assert found.exit_code == 1 and found.stdout.startswith("WRONG: 2 linear + 1 more")


def test_what_no_part_of_is_a_kernel(tmp_path: Path) -> None:
    path = tmp_path / "sum.py"
    path.write_text(
        "def f(fd: FusionDefinition):\n"
        "    x = fd.define_tensor(shape=[16], dtype=DataType.Float)\n"
        "    fd.add_output(fd.ops.cumsum(x, 0))\n"
    )
    found = run(path)
    assert found.exit_code == 0, found.stderr
    assert "no matmul + 1 more, 16, against torch" in found.stdout
    assert "  runs by torch: `wsched explain` has more\n" in found.stdout


@pytest.mark.parametrize(
    "option", [("--shape", "64x64x64"), ("--sms", "4"), ("--params", "ping-pong")]
)
def test_options_speak_of_a_kernel(file: Path, option: tuple[str, str]) -> None:
    found = run(file, *option)
    assert found.exit_code == 2
    assert "This is about one kernel. `wsched explain` says which way it goes" in found.stderr


INTO = """
# inputs: 32x64:bf16 48x64:bf16 32x48:bf16
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.BFloat16)
    v = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.BFloat16)
    c = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.BFloat16)
    fd.add_output(fd.ops.linear(x, v), c)
"""


def test_what_is_written_into_an_input_is_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only one here: nothing is returned."""
    (path := tmp_path / "into.py").write_text(INTO)
    found = run(path)
    assert found.exit_code == 0, found.stderr
    assert found.stdout.startswith("RIGHT: linear, 32x48, against torch")
    monkeypatch.setattr(whole, "execute", lambda text, inputs: [])
    assert run(path).stdout.startswith("WRONG: linear, 32x48, against torch")
