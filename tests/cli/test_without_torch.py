"""``wsched explain`` without torch and nvFuser explains the same as with them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from wsched.cli.app import app

HEAD = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[64, 64], contiguity=[True, True], dtype=DataType.{kind})
    w = fd.define_tensor(shape=[64, 64], contiguity=[True, True], dtype=DataType.{kind})
    y = fd.ops.linear(x, w)
"""
DOUBLES = HEAD.format(kind="Double") + "    fd.add_output(y)\n"
A_PART = (
    HEAD.format(kind="BFloat16")
    + "    d = fd.ops.cast(fd.ops.cumsum(y, 1), dtype=DataType.Double)\n"
    + "    fd.add_output(fd.ops.linear(d, d))\n"
)
NO_MATMUL = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[64, 64], contiguity=[True, True], dtype=DataType.Float)
    fd.add_output(fd.ops.cumsum(x, 0))
"""
ALONE = (
    "import sys; sys.modules.update(dict.fromkeys(['torch', 'nvfuser_direct'])); "
    "from wsched.cli.entry import main; main()"
)


def alone(*words: object) -> subprocess.CompletedProcess[str]:
    """A command in a process without the two."""
    command = [sys.executable, "-c", ALONE, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("text", [DOUBLES, A_PART, NO_MATMUL], ids=["all", "a part", "no matmul"])
def test_explained_alike(text: str, tmp_path: Path) -> None:
    pytest.importorskip("nvfuser_direct", reason="nvFuser is not installed")
    path = tmp_path / "given.py"
    path.write_text(text)
    found = alone("explain", path, "--json")
    assert (found.returncode, found.stderr) == (0, "")
    told: dict[str, Any] = json.loads(found.stdout)
    here = json.loads(CliRunner().invoke(app, ["explain", str(path), "--json"]).stdout)
    ways = here.pop("route"), told.pop("route")
    more = [(r["what"], r["reason"]) for r in told["refusals"][len(here["refusals"]) :]]
    if here["parts"]:
        assert (ways, more) == (("cut", "cut"), [])
    else:
        assert ways == ("nvfuser", "nobody")
        assert more == [
            ("nvfuser", "nvFuser is not installed"),
            ("torch", "torch is not installed"),
        ]
    told["refusals"] = told["refusals"][: len(here["refusals"])]
    for part in (*here["parts"], *told["parts"]):  # without nvFuser the rest would be torch's
        part["runs"] = part["runs"].replace("nvfuser", "torch")
    assert told == here


@pytest.mark.slow
def test_who_runs_it_is_told(tmp_path: Path) -> None:
    path = tmp_path / "given.py"
    path.write_text(DOUBLES)
    found = alone("explain", path)
    assert found.returncode == 0
    text = " ".join(found.stdout.split())
    assert "multiprocessors: nobody here, wsched has no kernel for it matmuls: line 5: y = " in text
    assert "nvfuser: nvFuser is not installed torch: torch is not installed" in text


@pytest.mark.slow
def test_several_parts_are_run_with_torch(tmp_path: Path) -> None:
    path = tmp_path / "given.py"
    path.write_text(A_PART)
    found = alone("run", path)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == (
        f"{path}: running a definition of several parts without torch is not supported; supported: "
        "definitions of one kernel. Install torch; `wsched explain` says what the parts are\n"
    )
