"""The wheel: built by the project, installed into a folder of its own, and used from there."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import build_wheel
import pytest

from tests.schedules import definition
from wsched.version import __version__

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("from lowering.ground.errors import X", "from wsched._lowering.ground.errors import X"),
        ("if x:\n    from passes import d", "if x:\n    from wsched._passes import d"),
        ("from passes.dump import (\n    a,\n)", "from wsched._passes.dump import (\n    a,\n)"),
        ('HOME = {"X": "lowering.ground.expr"}', 'HOME = {"X": "wsched._lowering.ground.expr"}'),
        ("files('lowering.cuda')", "files('wsched._lowering.cuda')"),
        ("from lowerings.ground import x", "from lowerings.ground import x"),
        ("text = 'the passes. They'", "text = 'the passes. They'"),
        ("from . import passes", "from . import passes"),
        ("passes = 1", "passes = 1"),
    ],
)
def test_what_is_written_anew(line: str, made: str) -> None:
    assert build_wheel.rewritten(line) == made


@pytest.mark.parametrize("line", ["import lowering.ground.errors", "import os, passes as p"])
def test_imports_that_are_not_known(line: str) -> None:
    with pytest.raises(ValueError, match=r"line 1: the import of (lowering|passes)"):
        build_wheel.rewritten(line)


PROGRAM = """
import sys
sys.path[:] = [p for p in sys.path if p != ""]
import wsched, torch
x = [torch.ones(32, 64, dtype=torch.bfloat16)] * 2
(out,) = wsched.execute(sys.argv[1], x)
assert bool((out == 64).all())
kernel = wsched.compile(sys.argv[1], x)
assert "wgmma" in kernel.dump("cuda")
assert wsched.ScheduleError.__module__ == "wsched._lowering.ground.errors"
from wsched.explore.page import page_html, _asset
assert all(map(_asset, ("page.html", "page.css", "page.js")))
import passes
assert passes.MINE
assert not {"lowering", "passes.pipeline"} & set(sys.modules)
print(wsched.__file__)
"""


PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made once."""
    pytest.importorskip("torch")
    pytest.importorskip("pip")
    folder = tmp_path_factory.mktemp("wheel")
    tree = folder / "tree"
    tree.mkdir()
    for name in ("lowering", "passes", "wsched", "tools", "pyproject.toml", "README.md", "LICENSE"):
        (tree / name).symlink_to(ROOT / name)
    wheels = [*PIP, "wheel", "--no-build-isolation", "--no-deps", "-w", str(folder)]
    subprocess.run([*wheels, str(tree)], check=True, timeout=200)
    (found,) = folder.glob("*.whl")
    return found


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_wheel_in_a_fresh_place(wheel: Path, tmp_path: Path) -> None:
    """With a folder ``passes`` of the user's own beside the program."""
    target, work = (tmp_path / n for n in ("target", "work"))
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
        assert {t.partition("-")[0] for t in tops} == {"wsched"}
        assert "wsched/py.typed" in archive.namelist()
        archive.extractall(target)
    (work / "passes").mkdir(parents=True)
    (work / "passes" / "__init__.py").write_text("MINE = True\n")
    # -S: no .pth files, which would find the tree.
    paths = [str(target), sysconfig.get_path("purelib"), str(work)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM, definition()],
        cwd=work, env=environment, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == str(target / "wsched" / "__init__.py")
    told = subprocess.run(
        [sys.executable, "-S", "-m", "wsched", "explain", "-"], input=definition(),
        cwd=work, env=environment, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert told.returncode == 0 and "legal, because" in told.stdout, told.stderr


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_wheel_that_pip_installs(wheel: Path, tmp_path: Path) -> None:
    """Into an environment of its own, without a network: the command is there, and is the wheel's.

    What it needs is found where this test's Python has it.
    """
    home, work = tmp_path / "environment", tmp_path / "work"
    make = ["venv", "--system-site-packages", "--without-pip", str(home)]
    subprocess.run([sys.executable, "-m", *make], check=True, timeout=100)
    pip = [*PIP, "--python", str(home / "bin" / "python"), "install", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(wheel)], check=True, timeout=100)
    work.mkdir()
    file = work / "linear.py"
    file.write_text(definition())
    # A folder of PYTHONPATH is none whose .pth files count, which would find the tree.
    environment = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}

    def command(*words: str) -> str:
        done = subprocess.run(
            [str(home / "bin" / "wsched"), *words],
            cwd=work, env=environment, capture_output=True, text=True, timeout=200,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        return done.stdout

    assert command("--version") == f"{__version__}\n"
    assert command("run", str(file), "--shape", "64x64x64").startswith("RIGHT: 64 x 64 BFloat16")
    where = "import wsched; print(wsched.__file__)"
    found = subprocess.run(
        [str(home / "bin" / "python"), "-c", where],
        cwd=work, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert Path(found.stdout.strip()).is_relative_to(home)
