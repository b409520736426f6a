"""Files that several processes share: replaced as a whole, and not taken from strangers."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

__all__ = ["TEMPORARY", "distrust", "replace_file", "save_file"]

TEMPORARY = ".tmp"
"""Ending of what :func:`replace_file` writes beside the file."""


def distrust(status: os.stat_result) -> str:
    """Why a file or folder may be someone else's work, from its status; empty if it is ours alone.

    The text is the end of a sentence that begins with its name.
    """
    if status.st_uid != os.getuid():
        return "belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "can be written by others"
    return ""


def replace_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file so that it has its former contents or these, whenever the process ends.

    The data are on the disk before they take the name. A failure, Ctrl-C among them, leaves nothing
    behind. A device or a pipe is written to as it is: to take its name would remove it.

    Args:
        path: in a folder that exists.
        data: the contents.
        mode: permissions.

    Raises:
        OSError: it cannot be written.
    """
    if _is_special(path):
        path.write_bytes(data)
        return
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=TEMPORARY, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def save_file(path: Path, data: bytes) -> None:
    """Write a result as :func:`replace_file` does: all can read it, and a link to it stays one.

    Raises:
        OSError: it cannot be written.
    """
    at = path if _is_special(path) else Path(os.path.realpath(path))
    replace_file(at, data, mode=0o644)


def _is_special(path: Path) -> bool:
    """Whether something has the name that cannot be replaced by a file: a device, a pipe, or a
    link such as ``/dev/stdout``, whatever it leads to.
    """
    try:
        kind = path.stat().st_mode
    except OSError:
        return False
    if path.is_symlink() and Path(os.path.realpath(path.parent)).parts[1:2] in (
        ("dev",),
        ("proc",),
    ):
        return True
    return not (stat.S_ISREG(kind) or stat.S_ISDIR(kind))
