"""Ends the process when a kernel hangs: neither Python nor the driver can stop it."""

from __future__ import annotations

import faulthandler
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["STATUS", "watchdog"]

STATUS = 3
"""Exit status of a process that the watchdog ended."""


@contextmanager
def watchdog(seconds: float, what: str, file: int = 2) -> Iterator[None]:
    """Exit with a line about ``what`` to ``file`` if the block takes longer than ``seconds``.

    A thread says it while the main thread waits for the GPU, which leaves Python's lock free; if it
    does not, a timer that needs no lock ends the process two seconds later, with a stack trace.
    """

    def end() -> None:
        os.write(file, f"\nwatchdog: {what} took longer than {seconds:g} s\n".encode())
        os._exit(STATUS)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    faulthandler.dump_traceback_later(seconds + 2, exit=True, file=file)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        timer.cancel()
