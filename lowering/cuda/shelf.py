"""Sealed files in a folder of one's own, by key: what processes keep for each other.

A file is written beside its place and moved there at once, and it carries its length and hash
(:mod:`lowering.cuda.sealed`), so that neither a second process nor a crash nor a bad disk can make
a wrong one: what does not verify is not there. A folder that others may write to is not used.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

from lowering.cuda.sealed import seal, sealed_payload
from lowering.ground.files import TEMPORARY, distrust, replace_file

__all__ = ["Shelf"]

_ABANDONED_SECONDS = 3600
"""Writing takes milliseconds: a temporary file older than this has no writer any more."""

_LOOKS = 64
"""What a process may write between two looks, as a part of the limit; it is exceeded by as much."""


@dataclass
class Shelf:
    """Payloads by key.

    Args:
        directory: where the files lie; it is made, with access for its owner only, when the first
            one is written.
        magic: of the kind of file, 16 bytes.
        suffix: of the files' names.
        limit: bytes of files to keep, and a 64th of it more for each process that writes; those
            that were used longest ago go.
        lost: what comes of a folder that cannot be used, for the warning: one for each shelf, and
            nothing else happens.
    """

    directory: Path
    magic: bytes
    suffix: str
    limit: int
    lost: str
    _warned: bool = field(default=False, init=False)
    _unseen: int | None = field(default=None, init=False)
    """Bytes written since this process has last looked what there is; None if it never has."""

    def get(self, key: str) -> bytes | None:
        """The payload of a key; None if there is none, or none that is whole."""
        if not self._trusted():
            return None
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        found = sealed_payload(self.magic, data)
        if found is not None:
            with contextlib.suppress(OSError):  # marks the use; a read-only disk does not matter
                os.utime(path)
        return found

    def put(self, key: str, payload: bytes) -> None:
        """Keep a payload."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._trusted():
                return
            sealed = seal(self.magic, payload)
            replace_file(self._path(key), sealed)
            # A look at a thousand files takes as long as half a compilation: not at every file.
            if self._unseen is not None:
                self._unseen += len(sealed)
            if self._unseen is None or self._unseen > self.limit // _LOOKS:
                self._prune()
                self._unseen = 0
        except OSError as e:
            self._warn(f"cannot be written ({e.strerror or type(e).__name__})")

    def _path(self, key: str) -> Path:
        return self.directory / f"{key}{self.suffix}"

    def _trusted(self) -> bool:
        """Whether the directory is ours alone; a missing one is neither read nor refused."""
        try:
            status = self.directory.stat()
        except OSError:
            return False
        if not stat.S_ISDIR(status.st_mode):
            self._warn("is not a directory")
        elif why := distrust(status):
            self._warn(why)
        else:
            return True
        return False

    def _prune(self) -> None:
        """Remove the files that were not used for longest until the rest fits the limit.

        What a process left that was killed while it wrote goes too.
        """
        for path in self.directory.glob(f".*{TEMPORARY}"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                    path.unlink()
        files = []
        for path in self.directory.glob(f"*{self.suffix}"):
            with contextlib.suppress(OSError):  # another process may prune too
                status = path.stat()
                files.append((status.st_mtime_ns, status.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files)[:-1]:
            if total <= self.limit:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size

    def _warn(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"wsched: the kernel cache {self.directory} {why}; {self.lost} Choose another "
                "directory with WSCHED_CACHE_DIR.",
                RuntimeWarning,
                stacklevel=5,
            )
