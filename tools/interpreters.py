"""Finding a Python for the environment, and checking one that the user chose.

Part of the set-up: Python >= 3.8, standard library alone. A candidate counts only if it starts:
pyenv's shims are on PATH for versions that are not installed or not selected, and exit 127.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

NVFUSER_PYTHONS = ("3.12", "3.10")  # the versions for which nvFuser has wheels, best first
CORE_PYTHONS = (*NVFUSER_PYTHONS, "3.11", "3.13")
PYTHON_INSTALL_SECONDS = 300

# Import name and distribution of what each use needs; a test compares them with pyproject.toml.
RUNTIME = {
    "cuda.bindings": "cuda-bindings",
    "cuda.core": "cuda-core",
    "filelock": "filelock",
    "ml_dtypes": "ml_dtypes",
    "networkx": "networkx",
    "numpy": "numpy",
    "platformdirs": "platformdirs",
    "rich": "rich",
    "typer": "typer",
}
PYTEST = {
    "hypothesis": "hypothesis",
    "lightgbm": "lightgbm",
    "matplotlib": "matplotlib",
    "pdoc": "pdoc",
    "playwright": "playwright",
    "pytest": "pytest",
    "pytest_timeout": "pytest-timeout",
    "xdist": "pytest-xdist",
}
LINT = {"mypy": "mypy", "ruff": "ruff"}
OPTIONAL = {"torch": "torch", "nvfuser_direct": "nvfuser-cu128-torch210"}
NEEDS = {
    "demo": RUNTIME,
    "gpu-test": {**RUNTIME, **PYTEST},
    "lint": LINT,
    "test": {**RUNTIME, **PYTEST, **LINT},
}

PROBE = """
import json, sys
from importlib.util import find_spec
print(json.dumps({
    "version": ".".join(map(str, sys.version_info[:3])),
    "exe": getattr(sys, "_base_executable", None) or sys.executable,
    "ensurepip": find_spec("ensurepip") is not None,
}))
"""
MISSING = """
import json, sys
from importlib.util import find_spec
def absent(name):
    try:
        return find_spec(name) is None
    except ImportError:
        return True
print(json.dumps([n for n in json.loads(sys.argv[1]) if absent(n)]))
"""


class SetupError(Exception):
    """The set-up cannot go on; the text says what to do."""


def say(text: str) -> None:
    """Print one line of progress."""
    print(f"[setup] {text}", flush=True)


def run(cmd: Sequence[str], seconds: int) -> bool:
    """Run a command with its output shown; return whether it succeeded in time."""
    say("$ " + " ".join(cmd))
    env = dict(os.environ, PIP_NO_INPUT="1", PIP_DISABLE_PIP_VERSION_CHECK="1")
    try:
        # close_fds=False: the children inherit the set-up's lock, and hold it if they outlive it.
        done = subprocess.run(
            cmd, stdin=subprocess.DEVNULL, env=env, timeout=seconds, close_fds=False
        )
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        say(f"stopped after {seconds} s")
    except OSError as error:
        say(str(error))
    return False


def output(cmd: Sequence[str]) -> str | None:
    """Return what a short command prints, or None if it does not start, fails or hangs."""
    quiet = subprocess.DEVNULL
    try:
        done = subprocess.run(
            cmd, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode().strip()


def ask(python: str, script: str, *args: str) -> Any:
    """Run ``script`` under ``python`` and return the JSON that it prints, or None if it fails."""
    text = output([python, "-c", script, *args])
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None


def find_uv() -> str | None:
    """Return a uv that really starts, or None."""
    home = Path.home()
    for uv in (shutil.which("uv"), str(home / ".local/bin/uv"), str(home / ".cargo/bin/uv")):
        if uv and output([uv, "--version"]):
            return uv
    return None


def uv_python(uv: str, version: str) -> str | None:
    """Return the Python of this version that uv knows, without downloading one."""
    return output([uv, "python", "find", "--no-python-downloads", "--no-project", version])


def places(version: str, venv: Path) -> Iterator[str]:
    """Yield paths where a Python of ``version`` may be, the likeliest first."""
    path = [Path(d) for d in os.environ.get("PATH", "").split(os.pathsep) if d]
    path = [d for d in path if d.parent.resolve() != venv]  # this environment may be activated
    for name in (f"python{version}", "python3", "python"):
        for folder in path:
            yield str(folder / name)
    yield sys.executable
    for root in (os.environ.get("PYENV_ROOT"), str(Path.home() / ".pyenv")):
        if root:
            found = Path(root).glob(f"versions/{version}.*/bin/python")
            yield from sorted(map(str, found), key=lambda p: (len(p), p), reverse=True)
    managed = Path.home() / ".local/share/uv/python"
    yield from map(str, managed.glob(f"cpython-{version}*/bin/python{version}"))


def find_python(versions: Sequence[str], venv: Path, uv: str | None) -> dict[str, Any]:
    """Return the probe of the best interpreter: ``version``, ``exe``, ``ensurepip``.

    Raises:
        SetupError: there is none, and uv could not install one; lists what was seen.
    """
    seen: dict[str, Any] = {}

    def look(python: str | None, version: str) -> dict[str, Any] | None:
        if not python or not os.access(python, os.X_OK):
            return None
        # Links to one binary are one candidate, but all of pyenv's shims are one script.
        key = python if "shims" in python else os.path.realpath(python)
        if key not in seen:
            seen[key] = ask(python, PROBE)
        probe: dict[str, Any] | None = seen[key]
        if probe is None or not probe["version"].startswith(f"{version}."):
            return None
        return probe if probe["ensurepip"] or uv else None

    for version in versions:
        for place in places(version, venv):
            if probe := look(place, version):
                return probe
        if uv and (probe := look(uv_python(uv, version), version)):
            return probe
    if uv:
        say(f"no Python {' or '.join(versions[:2])} here; uv downloads one")
        if run([uv, "python", "install", versions[0]], PYTHON_INSTALL_SECONDS) and (
            probe := look(uv_python(uv, versions[0]), versions[0])
        ):
            return probe
    raise SetupError(no_python([p for p in seen.values() if p], tuple(versions), uv))


def no_python(probes: Sequence[dict[str, Any]], versions: tuple[str, ...], uv: str | None) -> str:
    """Return the text for a machine without a fitting Python."""
    others = sorted({f"{p['version']} at {p['exe']}" for p in probes})
    lines = [
        f"no Python {' or '.join(versions)} was found on PATH, under pyenv or through uv.",
        f"found: {'; '.join(others) or 'none'}",
        "Do one of:",
    ]
    for version in sorted({p["version"][:4] for p in probes} & set(versions)):
        lines.append(f"    apt-get install python{version}-venv   (that Python has no ensurepip)")
    lines += [
        "    pyenv install 3.12",
        "    uv python install 3.12" + ("" if uv else "   (python3 -m pip install --user uv)"),
        "    apt-get install python3.12 python3.12-venv   (Ubuntu 24.04; Debian 12 has 3.11)",
        "    make test PYTHON=/path/to/python   (one that has the packages already)",
    ]
    if any(p["version"].startswith(CORE_PYTHONS) for p in probes):
        lines.append("    WSCHED_NO_NVFUSER=1 make test   (3.11 and 3.13 do, without nvFuser)")
    lines.append("and run the same command again.")
    return "\n".join(lines)


def check_interpreter(python: str, need: str) -> None:
    """Check an interpreter that the user chose: its version, and what it lacks for ``need``.

    Raises:
        SetupError: it does not start, is older than 3.10, or lacks a package that ``need`` uses.
    """
    probe = ask(python, PROBE)
    if probe is None:
        raise SetupError(f"WSCHED_PYTHON={python} does not start")
    if tuple(map(int, probe["version"].split(".")[:2])) < (3, 10):
        raise SetupError(f"{python} is Python {probe['version']}; wsched needs 3.10 or later")
    missing = ask(python, MISSING, json.dumps([*NEEDS[need], *OPTIONAL]))
    say(f"using {python} (Python {probe['version']}) as it is; nothing is installed")
    without = [OPTIONAL[name] for name in missing if name in OPTIONAL]
    if without:
        say(f"going on without {', '.join(without)}")
    lacks = [NEEDS[need][name] for name in missing if name not in OPTIONAL]
    if lacks:
        raise SetupError(f"{python} lacks what `make {need}` needs: {', '.join(lacks)}")
