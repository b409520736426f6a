"""The watchdog itself; needs no GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def ended(code: str) -> subprocess.CompletedProcess[str]:
    lines = f"from tests.gpu.watchdog import watchdog\n{code}"
    return subprocess.run(
        [sys.executable, "-c", lines], cwd=ROOT, capture_output=True, text=True, timeout=30
    )


def test_a_wait_without_end_is_ended() -> None:
    done = ended("import time\nwith watchdog(0.2, 'kernel 7'):\n    time.sleep(20)")
    assert (done.returncode, done.stderr) == (3, "\nwatchdog: kernel 7 took longer than 0.2 s\n")


def test_a_call_that_keeps_the_lock_is_ended() -> None:
    done = ended("import ctypes\nwith watchdog(0.2, 'kernel 7'):\n    ctypes.PyDLL(None).sleep(20)")
    assert done.returncode == 1
    assert done.stderr.startswith("Timeout (0:00:02.2")


def test_what_ends_in_time_goes_on() -> None:
    done = ended("with watchdog(5, 'kernel 7'):\n    pass\nprint('done')")
    assert (done.returncode, done.stdout) == (0, "done\n")
