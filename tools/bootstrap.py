"""Set-up of a checkout: find a Python, make the environment, install the pinned requirements.

Runs under any Python >= 3.8 with the standard library alone (``tools/setup.sh`` finds one), so it
keeps to that version's syntax. ``make demo`` and ``make test`` call it first; when the environment
is up to date it only reads one small file. Environment variables:

* ``WSCHED_PYTHON``: use this interpreter as it is, install nothing, list what it lacks;
* ``WSCHED_NO_NVFUSER=1``: leave nvFuser and torch out (7 GB);
* ``WSCHED_VENV``: the environment's folder, ``.venv`` unless told.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from browser import ensure_chromium
from interpreters import (
    CORE_PYTHONS,
    NEEDS,
    NVFUSER_PYTHONS,
    PROBE,
    SetupError,
    ask,
    check_interpreter,
    find_python,
    find_uv,
    output,
    run,
    say,
)

ROOT = Path(__file__).resolve().parent.parent
INPUTS = ("pyproject.toml", "constraints.txt", "tools/bootstrap.py")  # decide what is installed
NVFUSER_GIB = 12  # free disk: 7.2 installed, the rest the downloads that pip keeps until it is done
INSTALL_SECONDS = 1800


class Environment:
    """The project's virtual environment and the stamp that says what is in it.

    The stamp is removed before the first change and written, whole, after the last, so that an
    interrupted set-up starts again. It names its folder: a copied environment is not valid.
    """

    def __init__(self, venv: Path, nvfuser: bool) -> None:
        self.venv, self.nvfuser = venv, nvfuser
        self.python = str(venv / "bin" / "python")
        self.stamp = venv / "wsched-setup.json"

    def has(self, name: str) -> bool:
        """Tell whether site-packages holds something of this name (a glob pattern)."""
        return any(self.venv.glob(f"lib/python3*/site-packages/{name}"))

    def fingerprint(self) -> str:
        """Return the hash of everything that decides what is installed."""
        digest = hashlib.sha256(str(self.venv).encode())
        for name in INPUTS:
            digest.update((ROOT / name).read_bytes())
        return digest.hexdigest()

    def current(self) -> dict[str, Any] | None:
        """Return the stamp if the environment is complete and up to date, else None."""
        try:
            stamp: dict[str, Any] = json.loads(self.stamp.read_text())
        except (OSError, ValueError):
            return None
        fits = stamp.get("key") == self.fingerprint() and Path(self.python).exists()
        return stamp if fits and (stamp.get("wanted") or not self.nvfuser) else None

    def write_stamp(self, note: str) -> dict[str, Any]:
        """Write the stamp; ``note`` says why nvFuser is not there, empty if it is."""
        stamp = {"key": self.fingerprint(), "wanted": self.nvfuser or not note, "note": note}
        part = self.stamp.with_suffix(".part")
        part.write_text(json.dumps(stamp))
        part.replace(self.stamp)
        return stamp

    def create(self, uv: str | None, again: bool) -> None:
        """Make the environment unless one with a fitting Python and pip is there."""
        versions = NVFUSER_PYTHONS if self.nvfuser else CORE_PYTHONS
        there = None if again else ask(self.python, PROBE)
        if there:
            if not there["version"].startswith(versions):
                raise SetupError(
                    f"{self.venv} holds Python {there['version']}, needed: {' or '.join(versions)};"
                    " remove it, or name another folder in WSCHED_VENV"
                )
            if output([self.python, "-m", "pip", "--version"]) or run(
                [self.python, "-m", "ensurepip"], INSTALL_SECONDS
            ):
                say(f"bringing {self.venv} up to date")
                self.forget_halves()
                return
        base = find_python(versions, self.venv, uv)
        say(f"Python {base['version']} at {base['exe']}")
        venv = [base["exe"], "-m", "venv", "--clear", str(self.venv)]
        if base["ensurepip"] and run(venv, INSTALL_SECONDS):
            return
        if uv:
            venv = [uv, "venv", "--clear", "--seed", "--python", base["exe"], str(self.venv)]
            if run(venv, INSTALL_SECONDS):
                return
        raise SetupError(f"no environment could be made in {self.venv}; see above")

    def forget_halves(self) -> None:
        """Make the installers take a package that was interrupted half-way as not installed."""
        for info in self.venv.glob("lib/python3*/site-packages/*.dist-info"):
            if not (info / "INSTALLER").exists():  # pip and uv write it last
                shutil.rmtree(info)

    def install(self, uv: str | None, *what: str) -> bool:
        """Install requirements under the constraints: with uv where there is one, else pip."""
        args = ["--no-build-isolation", "-c", str(ROOT / "constraints.txt"), *what]
        if uv:
            if run([uv, "pip", "install", "--python", self.python, *args], INSTALL_SECONDS):
                return True
            say("uv did not succeed (it does not read pip's configuration); trying pip")
        return run([self.python, "-m", "pip", "install", *args], INSTALL_SECONDS)

    def install_nvfuser(self, uv: str | None, there: bool) -> str:
        """Install the packages with nvFuser; return why it is not there, empty if it is.

        Raises:
            SetupError: nvFuser is there already (``there``) and cannot be brought up to date.
        """
        free = shutil.disk_usage(self.venv).free >> 30
        if not there and free < NVFUSER_GIB:
            return f"{free} GiB free on disk, {NVFUSER_GIB} needed"
        say("installing the packages, torch and nvFuser: 7 GB, two to five minutes")
        if self.has("nvidia_cuda_nvrtc-1*"):
            # Left by a set-up without nvFuser; torch's cuda-bindings 12.9 go with NVRTC 12.8.
            pip = [self.python, "-m", "pip", "uninstall", "-y", "nvidia-cuda-nvrtc"]
            run(pip, INSTALL_SECONDS)
        if self.install(uv, "-e", f"{ROOT}[nvfuser,test,mlir]"):
            return ""
        if there:
            raise SetupError(f"{self.venv} could not be brought up to date; see above")
        self.create(uv, again=True)  # half of torch may be there, and the disk full
        self.install(uv, "setuptools")
        return "it could not be installed; `tools/setup.sh --again` tries again"

    def fill(self, uv: str | None) -> str:
        """Install everything and return the note for the stamp.

        Raises:
            SetupError: the packages other than nvFuser cannot be installed.
        """
        there = self.has("nvfuser_direct")
        if not self.install(uv, "setuptools"):
            raise SetupError(
                "nothing can be installed; the messages above say why. If the network is not the"
                f" reason, `tools/setup.sh --again` makes {self.venv} anew"
            )
        note = "WSCHED_NO_NVFUSER is set"
        if self.nvfuser or there:
            note = self.install_nvfuser(uv, there)
            if not note:
                return ""
        say(f"installing the packages without nvFuser: {note}")
        if not self.install(uv, "-e", f"{ROOT}[cuda13,test]"):
            raise SetupError("the packages cannot be installed; the messages above say why")
        return note


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file ``path``; the kernel lets go of it when the last holder ends."""
    with path.open("w") as file:
        os.set_inheritable(file.fileno(), True)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("another set-up is at work on this environment; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build(environment: Environment, again: bool) -> dict[str, Any]:
    """Make or update the environment and return its new stamp."""
    start = time.monotonic()
    uv = find_uv()
    if environment.stamp.exists():
        environment.stamp.unlink()
    environment.create(uv, again)
    stamp = environment.write_stamp(environment.fill(uv))
    say(f"done in {time.monotonic() - start:.0f} s")
    return stamp


def set_up(environment: Environment, again: bool) -> None:
    """Bring the environment up to date; returns at once if it is."""
    stamp = None if again else environment.current()
    if stamp is None:
        venv = environment.venv
        with locked(venv.with_name(f"{venv.name}.lock")):
            stamp = None if again else environment.current()
            stamp = stamp or build(environment, again)
    if stamp["note"]:
        say(f"going on without nvFuser: {stamp['note']}")
    elif not environment.nvfuser:
        say("WSCHED_NO_NVFUSER is set, but nvFuser is there; WSCHED_VENV makes another environment")


def wants_nvfuser(venv: Path, need: str) -> bool:
    """Tell whether nvFuser is to be installed: not if the user says so, nor for ``lint``, which
    runs no code, if the environment is complete without.
    """
    if os.environ.get("WSCHED_NO_NVFUSER", "") not in ("", "0"):
        return False
    there = Environment(venv, nvfuser=False).current() if need == "lint" else None
    return there is None or not there["note"]


def main(argv: Sequence[str] | None = None) -> int:
    """Set up for the use named by ``--need`` and return the exit status."""
    parser = argparse.ArgumentParser(description="Set up the environment of this checkout.")
    parser.add_argument("--need", choices=sorted(NEEDS), default="test")
    parser.add_argument("--again", action="store_true", help="make the environment from nothing")
    options = parser.parse_args(argv)
    chosen = os.environ.get("WSCHED_PYTHON")
    try:
        if chosen:
            check_interpreter(chosen, options.need)
        else:
            venv = (ROOT / os.environ.get("WSCHED_VENV", ".venv")).resolve()
            set_up(Environment(venv, wants_nvfuser(venv, options.need)), options.again)
            if options.need == "test" and (without := ensure_chromium()):
                say(without)
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the next run starts the set-up again", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
