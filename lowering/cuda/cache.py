"""Compiled kernels on disk, so that a process need not compile what another one did.

A file holds one compilation and is named by the hash of everything that it depends on. It is
written beside its place and moved there at once, and it carries its length and hash, so that
neither a second process nor a crash nor a bad disk can make a wrong kernel: what does not verify
is compiled again. Nothing in a file is executed on the host when it is read, but the kernel is run
on the device: so a directory that others may write to is not used.

A file is sealed (:mod:`lowering.cuda.sealed`); its header has the compiler's log, the version of
NVRTC and the time that the compilation took, and the cubin follows.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from lowering.cuda.nvrtc import OPTIONS, Compiled, compile_cubin, nvrtc_version
from lowering.cuda.sealed import seal, sealed_payload, split_header, with_header
from lowering.ground.errors import UnsupportedError
from lowering.ground.files import TEMPORARY, distrust, replace_file
from lowering.ground.log import log
from lowering.ground.recent import Recent
from lowering.target.targets import DEFAULT

__all__ = ["CubinCache", "default_directory"]

_MAGIC = b"wsched cubin 1\n\0"
_SUFFIX = ".cubin"
_ABANDONED_SECONDS = 3600
"""Writing takes milliseconds: a temporary file older than this has no writer any more."""

_LIMIT_BYTES = 256 << 20
"""Files beyond this total are removed, oldest use first; a kernel takes 10 to 60 KB."""

_MEMORY_BYTES = 64 << 20
"""Bytes of cubins to keep in memory; those that loaded kernels hold are no second copies."""


def default_directory() -> Path:
    """``WSCHED_CACHE_DIR``, or the user's cache directory of the platform.

    Raises:
        UnsupportedError: the variable is not set and platformdirs is not installed.
    """
    if chosen := os.environ.get("WSCHED_CACHE_DIR"):
        return Path(chosen)
    try:
        from platformdirs import user_cache_dir
    except ImportError as e:
        raise UnsupportedError(
            "finding the cache directory without platformdirs",
            "platformdirs, or a directory in WSCHED_CACHE_DIR",
            "Install platformdirs",
        ) from e
    return Path(user_cache_dir("wsched"))


class CubinCache:
    """Compilations in memory and on disk.

    Args:
        directory: where the files lie; it is made, with access for its owner only, when the first
            one is written.
        version: version of wsched, part of the key: another version emits other texts.
        limit: bytes of files to keep.
        compiler: compiles a text; for tests.

    A directory that belongs to someone else or that others may write to is not used, one that
    cannot be written is read only; both give one warning, and compiling goes on.
    """

    def __init__(
        self,
        directory: Path,
        version: str,
        limit: int = _LIMIT_BYTES,
        compiler: Callable[[str, str, Sequence[str], str], Compiled] = compile_cubin,
    ) -> None:
        self.directory, self.version, self.limit = directory, version, limit
        self._compiler = compiler
        self._memory: Recent[str, Compiled] = Recent(
            lambda: 4096, _MEMORY_BYTES, lambda c: len(c.cubin)
        )
        self._warned = False

    def key(self, source: str, options: Sequence[str] = (), arch: str = DEFAULT.arch) -> str:
        """Hash of a text, the architecture and options, the versions of NVRTC and wsched."""
        facts = [source, arch, [*OPTIONS, *options], list(nvrtc_version()), self.version]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def compile(
        self, source: str, name: str, options: Sequence[str] = (), arch: str = DEFAULT.arch
    ) -> Compiled:
        """The compilation of a text: from memory, from disk, or made now and kept.

        Raises as ``compile_cubin``; never because of the disk.
        """
        key = self.key(source, options, arch)
        if (kept := self._memory.get(key)) is not None:
            return kept
        found = self._read(key)
        if found is not None:
            log("cubin from disk", lambda: name)
        else:
            found = made = self._compiler(source, name, options, arch)
            log("compilation", lambda: f"{name} took {made.seconds:.2g} s")
            self._write(key, found)
        return self._memory.add(key, found)

    # --- disk ---------------------------------------------------------------------------------

    def _path(self, key: str) -> Path:
        return self.directory / f"{key}{_SUFFIX}"

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

    def _read(self, key: str) -> Compiled | None:
        if not self._trusted():
            return None
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        found = _unpack(data)
        if found is not None:
            with contextlib.suppress(OSError):  # marks the use; a read-only disk does not matter
                os.utime(path)
        return found

    def _write(self, key: str, compiled: Compiled) -> None:
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._trusted():
                return
            replace_file(self._path(key), _pack(compiled))
            self._prune()
        except OSError as e:
            self._warn(f"cannot be written ({e.strerror or type(e).__name__})")

    def _prune(self) -> None:
        """Remove the files that were not used for longest until the rest fits the limit.

        What a process left that was killed while it wrote goes too.
        """
        for path in self.directory.glob(f".*{TEMPORARY}"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                    path.unlink()
        files = []
        for path in self.directory.glob(f"*{_SUFFIX}"):
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
                f"wsched: the kernel cache {self.directory} {why}; kernels are compiled again in "
                "each process. Choose another directory with WSCHED_CACHE_DIR.",
                RuntimeWarning,
                stacklevel=4,
            )


def _pack(compiled: Compiled) -> bytes:
    header = {"log": compiled.log, "nvrtc": compiled.nvrtc_version, "seconds": compiled.seconds}
    return seal(_MAGIC, with_header(header, compiled.cubin))


def _unpack(data: bytes) -> Compiled | None:
    """The compilation in a file, or None if the file is not whole."""
    payload = sealed_payload(_MAGIC, data)
    if payload is None:
        return None
    header, cubin = split_header(payload)
    major, minor = header["nvrtc"]
    return Compiled(cubin, header["log"], (major, minor), header["seconds"])
