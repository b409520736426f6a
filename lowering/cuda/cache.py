"""Compiled kernels on disk, so that a process need not compile what another one did.

A file holds one compilation and is named by the hash of everything that it depends on; what is not
whole is compiled again. Nothing in a file is executed on the host when it is read, but the kernel
is run on the device: so a directory that others may write to is not used.

The files are a :class:`~lowering.cuda.shelf.Shelf`; a header has the compiler's log, the version of
NVRTC and the time that the compilation took, and the cubin follows.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from lowering.cuda.nvrtc import OPTIONS, Compiled, compile_cubin, nvrtc_version
from lowering.cuda.sealed import NONSENSE, split_header, with_header
from lowering.cuda.shelf import Shelf
from lowering.ground.errors import UnsupportedError
from lowering.ground.log import log
from lowering.ground.recent import Recent
from lowering.target.targets import DEFAULT

__all__ = ["CubinCache", "default_directory"]

_MAGIC = b"wsched cubin 1\n\0"
_SUFFIX = ".cubin"
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
        lost = "kernels are compiled again in each process."
        self.version, self._compiler = version, compiler
        self._shelf = Shelf(directory, _MAGIC, _SUFFIX, limit, lost)
        self._memory: Recent[str, Compiled] = Recent(
            lambda: 4096, _MEMORY_BYTES, lambda c: len(c.cubin)
        )

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
        payload = self._shelf.get(key)
        if payload is not None and (whole := _unpack(payload)) is not None:
            found = whole
            log("cubin from disk", lambda: name)
        else:
            found = made = self._compiler(source, name, options, arch)
            log("compilation", lambda: f"{name} took {made.seconds:.2g} s")
            self._shelf.put(key, _pack(found))
        return self._memory.add(key, found)


def _pack(compiled: Compiled) -> bytes:
    header = {"log": compiled.log, "nvrtc": compiled.nvrtc_version, "seconds": compiled.seconds}
    return with_header(header, compiled.cubin)


def _unpack(payload: bytes) -> Compiled | None:
    """The compilation in a file; None if somebody else's program sealed something else in it."""
    try:
        header, cubin = split_header(payload)
        major, minor = map(int, header["nvrtc"])
        return Compiled(cubin, str(header["log"]), (major, minor), float(header["seconds"]))
    except NONSENSE:
        return None
