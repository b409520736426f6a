"""nvFuser's own Python tests with wsched installed and without: the same outcomes?

They are not part of this tree. With a checkout of NVIDIA/Fuser of the version that is installed::

    python -m tests.gpu.nvfuser_matmul_tests --path Fuser/tests \\
        Fuser/tests/python/direct/test_matmul.py -k "linear or matmul"

``--path`` is what their imports need (``from python.direct_utils import …``). What is not known
here goes to pytest. The exit status is 1 if an outcome differs, 2 if no test ran.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]


def outcomes(report: str) -> dict[str, str]:
    """Outcome of each test in the text of a JUnit file: passed, failure, error or skipped."""
    found = {}
    for case in ET.fromstring(report).iter("testcase"):
        kinds = [e.tag for e in case if e.tag in ("failure", "error", "skipped")]
        found[f"{case.get('classname')}::{case.get('name')}"] = kinds[0] if kinds else "passed"
    return found


def differences(without: Mapping[str, str], with_wsched: Mapping[str, str]) -> list[str]:
    """A line for each test whose outcome differs."""
    return [
        f"{name}: {without.get(name, 'not run')} without wsched, "
        f"{with_wsched.get(name, 'not run')} with it"
        for name in sorted({*without, *with_wsched})
        if without.get(name) != with_wsched.get(name)
    ]


def run(
    arguments: Sequence[str],
    path: Path | None,
    plugins: Sequence[str],
    seconds: float | None = None,
) -> dict[str, str]:
    """Outcomes of a run of pytest in a process of its own; what it prints is passed on.

    Raises:
        subprocess.TimeoutExpired: it took longer than ``seconds``.
    """
    places = [str(ROOT), *([str(path.resolve())] if path else []), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = ["-q", "-c", os.devnull, "-p", "no:cacheprovider", f"--junitxml={report}"]
        for plugin in plugins:
            options += ["-p", plugin]
        command = [sys.executable, "-m", "pytest", *options, *arguments]
        subprocess.run(command, env=environment, check=False, timeout=seconds)
        return outcomes(report.read_text()) if report.exists() else {}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests twice and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--path", type=Path, help="a folder to import from")
    options, rest = parser.parse_known_args(arguments)
    without = run(rest, options.path, ())
    with_wsched = run(rest, options.path, ("tests.gpu.with_wsched",))
    different = differences(without, with_wsched)
    for line in different:
        print(line)
    passed = sum(outcome == "passed" for outcome in without.values())
    print(f"{len(without)} tests, {passed} passed without wsched; {len(different)} differ with it")
    return 2 if not without else int(bool(different))


if __name__ == "__main__":
    raise SystemExit(main())
