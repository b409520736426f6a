"""Where the command line begins: Ctrl-C ends it in a line from the first moment on.

The commands' modules take a second to import, and more on a busy machine. Click and Typer see to an
interrupt only when they are there.
"""

from __future__ import annotations

import sys

from wsched.cli.output import lenient

__all__ = ["main"]

INTERRUPTED = 130
"""Exit status of a command that SIGINT ended, as shells have it."""

REFUSED = 2
"""Exit status of a command that says why it did not do what it should."""

NAME = "wsched"
"""Of the command, however it was started: completion is for what is typed, which is no ``python -m
wsched``."""


def main() -> None:
    """Run the command line."""
    lenient()
    try:
        from wsched.cli.app import app
    except KeyboardInterrupt:
        print("Aborted.", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    try:
        app(prog_name=NAME)
    except OSError as e:  # of what no command has written: help, the version
        print(e, file=sys.stderr)
        raise SystemExit(REFUSED) from None
