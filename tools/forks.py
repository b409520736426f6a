"""Mutants judged in forks of a process that has collected all tests: the side of ``mutate.py``."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from mutations import Mutation

__all__ = ["Forks", "Verdict"]

PACKAGES = ("wsched", "lowering", "passes")

PATIENCE = 300.0
"""Seconds by the clock in which nothing is heard of a child, beside those it may take."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a fork says of a mutant.

    Args:
        by: the first test that failed, None if none did.
        tests: how many were tried.
        early: whether the line ran before the fork, so that more than these tests may see it.
    """

    by: str | None
    tests: int
    early: bool = False


class Forks:
    """A process that collects the quick tests of a tree, and forks for each mutant.

    Args:
        folder: the tree.
        tests: files of tests, all if there are none.
        packages: of the tree, that are imported before.
    """

    def __init__(
        self, folder: Path, tests: Sequence[str] = (), packages: Sequence[str] = PACKAGES
    ) -> None:
        self._scratch = tempfile.TemporaryDirectory()
        self._socket = f"{self._scratch.name}/socket"
        self._sound, self._lock = dict[str, bool](), Lock()
        self._log = Path(self._scratch.name) / "log"
        tools = Path(__file__).resolve().parent
        own = {
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPATH": f"{folder.resolve()}:{tools}",
            "CUDA_VISIBLE_DEVICES": "",  # which no fork could use
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        with socket.socket(socket.AF_UNIX) as listener, self._log.open("w") as log:
            listener.bind(self._socket)
            listener.listen(4096)
            command = [
                sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "forked",
                f"--forked={listener.fileno()}", f"--basetemp={self._scratch.name}/pytest",
                *(f"--forked-import={package}" for package in packages),
                "-m", "not slow and not gpu", *tests,
            ]  # fmt: skip
            self._process = subprocess.Popen(
                command, cwd=folder, env=os.environ | own, pass_fds=[listener.fileno()],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._scratch.cleanup()

    def judge(
        self, file: str, mutation: Mutation, tests: Sequence[tuple[str, float]], seconds: float
    ) -> Verdict | str:
        """Run tests of a mutant until one fails that does not fail without it.

        Args:
            file: that is changed.
            mutation: how.
            tests: node ids in their order, each with the seconds that it took.
            seconds: of processor time, in which no further test is begun.

        Returns:
            The verdict, or the reason why there is none.
        """
        change = {
            "file": file, "begin": mutation.begin, "end": mutation.end, "new": mutation.new
        }  # fmt: skip
        left = list(tests)
        while True:
            verdict, failing = self._ask(change, left, seconds)
            if failing is None or isinstance(verdict, str) or self._passes(failing):
                return verdict
            left = [t for t in left if t[0] != failing]

    def _passes(self, test: str) -> bool:
        """Whether a test passes alone in a fork without a change."""
        with self._lock:
            known = self._sound.get(test)
        if known is None:
            verdict, _ = self._ask({}, [(test, 60.0)], 1e6)
            known = isinstance(verdict, Verdict) and verdict.by is None
            with self._lock:
                self._sound[test] = known
        return known

    def _ask(
        self, change: dict[str, Any], tests: Sequence[tuple[str, float]], seconds: float
    ) -> tuple[Verdict | str, str | None]:
        """Have a child run tests; also the node id of the one that failed."""
        child, running, count, last = None, None, 0, dict[str, Any]()
        with (
            tempfile.TemporaryDirectory(dir=self._scratch.name) as scratch,
            socket.socket(socket.AF_UNIX) as connection,
        ):
            try:
                connection.connect(self._socket)
                told = {**change, "tests": list(tests), "seconds": seconds, "scratch": scratch}
                stream = connection.makefile("rw", encoding="utf-8")
                stream.write(json.dumps(told) + "\n")
                stream.flush()
                connection.settimeout(None)
                for text in stream:
                    last = json.loads(text)
                    if "pid" in last:
                        child = last["pid"]
                        connection.settimeout(PATIENCE + 10 * seconds)
                    elif "test" in last:
                        running, count = last["test"], count + 1
            except TimeoutError:
                last = {"failed": f"no end in {running}"}
            except OSError:
                pass
            finally:
                if child is not None:
                    _end(child)
        if child is None:
            log = self._log.read_text(errors="replace")[-2000:] if self._log.exists() else ""
            raise RuntimeError(f"no test can be run\n{log}")
        if "unable" in last:
            return last["unable"], None
        if "passed" in last:
            return Verdict(None, last["passed"], last["early"]), None
        by = last.get("failed", f"no end, or the process died, in {running}")
        return Verdict(by, count), running


def _end(child: int) -> None:
    """Kill what a child left behind, with itself."""
    for _ in range(2):
        try:
            os.killpg(child, signal.SIGKILL)
        except ProcessLookupError:
            return
        time.sleep(0.01)
