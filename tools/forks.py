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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from mutations import Mutation

__all__ = ["Forks", "Verdict"]

PACKAGES = ("wsched", "lowering", "passes")

PATIENCE = 300.0
"""Seconds by the clock in which nothing is heard of a child, beside those it may take."""


ALONE = 120.0
"""Seconds that a test may take that is tried without a change."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a fork says of a mutant.

    Args:
        by: the first test that failed, None if none did.
        tests: how many were tried.
        of: how many there were.
        sure: False if it lives but may not elsewhere: its line ran before the fork, or a test
            that should see it did not, as one that is skipped or leaves it to processes.
    """

    by: str | None
    tests: int
    of: int
    sure: bool = True


class Forks:
    """A process that collects the tests of a tree, and forks for each mutant.

    Args:
        folder: the tree.
        tests: files of tests, all if there are none.
        packages: of the tree, that are imported before.
        room: seconds of processor time that a test may take beside three times what it took.
    """

    def __init__(
        self,
        folder: Path,
        tests: Sequence[str] = (),
        packages: Sequence[str] = PACKAGES,
        room: float = 20.0,
    ) -> None:
        self._room = room
        self._scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
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
                f"--forked={listener.fileno()}",
                *(f"--forked-import={package}" for package in packages),
                "-m", "not gpu", *tests,
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
        self,
        file: str,
        mutation: Mutation,
        tests: Mapping[str, float],
        files: Sequence[str],
        seconds: float,
    ) -> Verdict | str:
        """Run tests of a mutant until one fails that does not fail without it.

        Args:
            file: that is changed.
            mutation: how.
            tests: node ids in their order, each with the seconds that it took.
            files: of tests, of which all the others are run behind these, slow ones last.
            seconds: of processor time; when they are over no further test is begun.

        Returns:
            The verdict, or the reason why there is none.
        """
        told = {
            "file": file, "begin": mutation.begin, "end": mutation.end, "new": mutation.new,
            "tests": list(tests.items()), "files": list(files), "seconds": seconds,
        }  # fmt: skip
        without = list[str]()
        while True:
            verdict, failing = self._ask({**told, "without": without})
            if failing is None or isinstance(verdict, str) or self._passes(failing):
                return verdict
            without.append(failing)

    def _passes(self, test: str) -> bool:
        """Whether a test passes alone in a fork without a change."""
        with self._lock:
            known = self._sound.get(test)
        if known is None:
            verdict, _ = self._ask({"tests": [(test, ALONE)], "seconds": ALONE})
            known = isinstance(verdict, Verdict) and verdict.by is None
            with self._lock:
                self._sound[test] = known
        return known

    def _ask(self, told: dict[str, Any]) -> tuple[Verdict | str, str | None]:
        """Have a child run tests; also the node id of the one that failed."""
        said, running, count = dict[str, Any](), None, 0
        with (
            tempfile.TemporaryDirectory(
                dir=self._scratch.name, ignore_cleanup_errors=True
            ) as scratch,
            socket.socket(socket.AF_UNIX) as connection,
            connection.makefile("rw", encoding="utf-8") as stream,
        ):
            try:
                connection.connect(self._socket)
                stream.write(json.dumps({**told, "scratch": scratch, "room": self._room}) + "\n")
                stream.flush()
                for text in stream:
                    said |= json.loads(text)
                    connection.settimeout(PATIENCE + 10 * told["seconds"])
                    if running != said.get("test"):
                        running, count = said["test"], count + 1
            except TimeoutError:
                said["failed"] = f"no end in {running}"
            except OSError:  # the process has ended
                pass
            finally:
                if "pid" in said:
                    _end(said["pid"])
        if "pid" not in said:
            log = self._log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"no test can be run\n{log}")
        if "passed" in said:
            return Verdict(None, said["passed"], said["of"], said["sure"]), None
        if "unable" in said or running is None:
            return said.get("unable", "the fork died"), None
        by = said.get("failed", f"no end of {running}, or the process died")
        return Verdict(by, count, said["of"]), running


def _end(child: int) -> None:
    """Kill what a child left behind, with itself."""
    for _ in range(2):
        try:
            os.killpg(child, signal.SIGKILL)
        except ProcessLookupError:
            return
        time.sleep(0.01)
