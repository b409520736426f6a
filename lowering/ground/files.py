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
    """Write a result as :func:`replace_file` does; a link to it stays one, and who can read it is
    as it was, or as the process has it of new files.

    Raises:
        OSError: it cannot be written.
    """
    at = path if _is_special(path) else Path(os.path.realpath(path))
    try:
        mode = stat.S_IMODE(at.stat().st_mode)
    except FileNotFoundError:
        os.umask(mask := os.umask(0o077))  # it can only be read by being set
        mode = 0o666 & ~mask
    replace_file(at, data, mode)


def _is_special(path: Path) -> bool:
    """Whether something has the name that cannot be replaced by a file: a device, a pipe, or a
    link such as ``/dev/stdout``, whatever it leads to.
    """
    try:
        kind = path.stat().st_mode
    except OSError:
        return False
    folder = Path(os.path.realpath(path.parent)).parts[1:]
    if path.is_symlink() and (folder == ("dev",) or folder[:1] == ("proc",)):
        return True
    return not (stat.S_ISREG(kind) or stat.S_ISDIR(kind))
