"""What is skipped where torch is not installed, and what fails all the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import absent

ROOT = Path(__file__).resolve().parent.parent

FILES = {
    "tests/test_file.py": "import torch\nPI = 3\ndef test_a(): pass\n",
    "tests/test_reads.py": "from tests.test_file import PI\ndef test_b(): pass\n",
    "tests/test_inside.py": "def test_c():\n    import torch\n",
    "tests/test_part.py": "import part\ndef test_d(): part.ask()\ndef test_e(): pass\n",
    "part.py": "def ask():\n    import torch\n",
}


def test_tests_that_need_torch(tmp_path: Path) -> None:
    """A file, one that imports it and a test are skipped; a part that is not to need it fails."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    text = Path(absent.__file__).read_text().replace('"torch", "nvfuser_direct"', '"no_torch"')
    (tmp_path / "tests/absent.py").write_text(text)
    (tmp_path / "tests/conftest.py").write_text('pytest_plugins = ["tests.absent"]\n')
    for path in tmp_path.rglob("*.py"):
        path.write_text(path.read_text().replace("import torch", "import no_torch"))
    words = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-o", "pythonpath=."]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "tests"], cwd=tmp_path,
        capture_output=True, text=True, check=False, env={"PATH": "", "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout.splitlines()[-1].startswith("1 failed, 1 passed, 3 skipped"), done.stdout
    assert "FAILED tests/test_part.py::test_d" in done.stdout


@pytest.mark.parametrize(
    "error", [ImportError("torch"), ModuleNotFoundError(name="passes.no"), None]
)
def test_other_errors_are_failures(error: Exception | None) -> None:
    assert absent.absent(error) == ""
