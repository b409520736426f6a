"""Golden files, the ``gpu`` marker and a cache of cubins, for every test of this tree.

Kernels are compiled once in a run, by this NVRTC: all tests and workers share a cache that is empty
at the start, or the one that ``WSCHED_CACHE_DIR`` names.

A test that takes the fixture ``golden`` compares a text with a file of its own. In
``tests/passes/test_order.py`` this one has ``tests/golden/passes/test_order/test_k_loop.txt``::

    def test_k_loop(golden):
        assert str(lower(...)) == golden

``pytest --update-golden`` writes the files; a missing one fails, and so does one without a test.
"""

from __future__ import annotations

import difflib
import gc
import hashlib
import importlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ["tests.absent", "tests.raises", "tests.reaches", "tests.tiers"]

TESTS = Path(__file__).resolve().parent
GOLDEN = TESTS / "golden"
# Module of the tests -> golden stems of its tests, collected before any deselection.
COLLECTED = pytest.StashKey[dict[str, set[str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files instead of comparing"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--update-golden") and os.environ.get("CI", "") not in ("", "0", "false"):
        raise pytest.UsageError("--update-golden is refused where CI is set")
    os.environ["WSCHED_TUNED"] = "0"  # tests of the heuristic are about the cost model
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # of workers, which have a core each
        os.environ.setdefault(name, "1")
    if "WSCHED_CACHE_DIR" not in os.environ:  # pytest-xdist's workers have that of their parent
        folder = tempfile.mkdtemp(prefix="wsched-tests-")
        os.environ["WSCHED_CACHE_DIR"] = folder
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        config.add_cleanup(lambda: os.environ.pop("WSCHED_CACHE_DIR", None))


def pytest_collection_finish() -> None:
    """Let the collector pass over modules and ten thousand tests, which stay until the end.

    It also passes less often: kernels are trees of small objects that die by themselves, and the
    thresholds that Python begins with look through them a hundred times a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def commands_made_once() -> Iterator[None]:
    """The words of the command line, which Typer makes from the functions at each invocation.

    That takes 0.1 s, which is more than most commands do in a test.
    """
    import typer.testing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", cache(typer.testing._get_command))
        yield


# ------------------------------------------------------------------------------------ golden files


@cache
def module_at(path: Path) -> str | None:
    """Return a test module's path below tests/, without its suffix: ``passes/test_pingpong``.

    None if it lies elsewhere.
    """
    if not path.is_relative_to(TESTS):
        return None
    return path.relative_to(TESTS).with_suffix("").as_posix()


def stem_of(item: pytest.Item) -> str:
    """Return the file name of a test: its class and name, with its parameters after ``--``.

    Characters that do not belong in a file name become ``_``; a hash keeps such names apart.
    """
    assert item.parent is not None
    prefix = f"{item.parent.name}." if isinstance(item.parent, pytest.Class) else ""
    name, bracket, parameters = (prefix + item.name).partition("[")
    name = name.replace(".", "-")
    if not bracket:
        return name
    clean = re.sub(r"[^A-Za-z0-9_-]+", "_", parameters[:-1])[:80]
    if clean != parameters[:-1]:
        clean += "-" + hashlib.sha256(parameters.encode()).hexdigest()[:6]
    return f"{name}--{clean}"


class Golden:
    """The expected text of one test, kept in a file; compared with ``==``.

    ``golden.named("cuda")`` is a second file of the same test, ``<test>.cuda.txt``.
    """

    def __init__(self, path: Path, update: bool) -> None:
        self.path, self.update = path, update

    __hash__ = None  # type: ignore[assignment]

    def named(self, name: str) -> Golden:
        return Golden(self.path.with_suffix(f".{name}.txt"), self.update)

    def text(self) -> str:
        """Return the file's text; a missing file fails the test with the command to run."""
        if not self.path.exists():
            pytest.fail(
                f"{shown(self.path)} does not exist; look at the text and write it with\n"
                f"    {update_command()}",
                pytrace=False,
            )
        return self.path.read_text()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str):
            return NotImplemented
        text = lines_of(other)
        if self.update:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(text)
            return True
        return text == self.text()


def lines_of(text: str) -> str:
    """Return the text as it stands in a file: with exactly one line end at its end."""
    return text.rstrip("\n") + "\n"


def shown(path: Path) -> str:
    return path.relative_to(TESTS.parent).as_posix()


def update_command() -> str:
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    return f"pytest --update-golden '{test}'"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """The golden file of this test, ``tests/golden/<module>/<test>.txt``."""
    path = GOLDEN / f"{module_at(request.node.path)}" / f"{stem_of(request.node)}.txt"
    return Golden(path, request.config.getoption("--update-golden"))


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    expected, got = (left, right) if isinstance(left, Golden) else (right, left)
    if not isinstance(expected, Golden) or op != "==":
        return None
    if not isinstance(got, str):
        return [f"a golden file holds text, not {type(got).__name__}; compare str(...)"]
    diff = difflib.unified_diff(
        expected.text().splitlines(),
        got.rstrip("\n").splitlines(),
        shown(expected.path),
        "got",
        lineterm="",
    )
    return [f"differs from {shown(expected.path)}", *diff, f"if it is right: {update_command()}"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    collected: dict[str, set[str]] = {}
    for item in items:
        if (module := module_at(item.path)) is None:
            continue
        stems = collected.setdefault(module, set())
        if "golden" in getattr(item, "fixturenames", ()):
            stems.add(stem_of(item))
    config.stash[COLLECTED] = collected
    skip_without_gpu(items)


def whole_modules(config: pytest.Config) -> Iterator[tuple[str, set[str]]]:
    """Yield the modules of which this run collected every test, with their golden stems."""
    if config.getoption("lf", False):
        return
    partial = {Path(a.partition("::")[0]).name for a in config.args if "::" in a}
    for module, stems in config.stash[COLLECTED].items():
        if Path(module).with_suffix(".py").name not in partial:
            yield module, stems


@pytest.fixture
def golden_orphans(request: pytest.FixtureRequest) -> list[str]:
    """The golden files that no test compares with, as far as the collected modules can tell."""
    known = dict(whole_modules(request.config))
    orphans = []
    for path in sorted(p for p in GOLDEN.rglob("*") if p.is_file()):
        module = path.parent.relative_to(GOLDEN).as_posix()
        stem = path.name.partition(".")[0]
        gone = not (TESTS / f"{module}.py").exists() or path.suffix != ".txt"
        if gone or (module in known and stem not in known[module]):
            orphans.append(shown(path))
    return orphans


# --------------------------------------------------------------------------------------------- GPU


@cache
def no_gpu_reason() -> str:
    """Return why ``gpu`` tests cannot run here, empty if they can."""
    from lowering.cuda.driver import has_driver

    # Before torch, whose import takes seconds: without a driver it has nothing to say.
    if not has_driver():
        return "needs a GPU: there is no CUDA driver (libcuda.so.1)"
    try:
        import torch
    except ImportError:
        return "needs a GPU: torch is not installed"
    return "" if torch.cuda.is_available() else "needs a GPU: torch.cuda finds none"


@pytest.fixture(autouse=True)
def unmarked_tests_see_no_gpu(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not marked ``gpu`` says the same on every machine, also on one with a GPU."""
    if request.node.get_closest_marker("gpu") is None and not no_gpu_reason():
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)


def skip_without_gpu(items: list[pytest.Item]) -> None:
    """Skip the ``gpu`` tests, with the reason, where there is no GPU."""
    gpu = [item for item in items if item.get_closest_marker("gpu")]
    reason = no_gpu_reason() if gpu else ""
    for item in gpu:
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if matplotlib were not installed."""
    real = importlib.import_module

    def missing(name: str, package: str | None = None) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", missing)
