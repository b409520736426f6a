"""Compilations of a program in one file, for machines without NVRTC.

A bundle answers by the text of a kernel: it has the cubin that this very text gave for this
architecture, or nothing. So a bundle that is out of date is never wrong, only of no use; that it is
out of date is said when it is read, by the versions of its format and of wsched in it.

Nothing of a bundle is executed on the host: it is JSON and ELF images. But the images run on the
GPU, and who can write the file decides what they do. So it is taken as the cache's files are: only
if it belongs to the user and nobody else can write it. The hash in it is there for damage.

What did not compile is in it as well: where registers are chosen by compiling, a pair that ptxas
refused is passed over again.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from sys import float_info
from typing import Any

from lowering.cuda.nvrtc import OPTIONS, Compiled, CompileError
from lowering.cuda.sealed import NONSENSE, seal, sealed_payload, split_header, with_header
from lowering.ground.errors import UnsupportedError
from lowering.ground.files import distrust, replace_file

__all__ = ["Bundle", "Entry", "read_bundle", "write_bundle"]

_MAGIC = b"wsched bundle 1\0"


@dataclass(frozen=True, slots=True)
class Entry:
    """One compilation.

    Args:
        key: :func:`Bundle.key` of what was compiled.
        name: of the text.
        arch: that it was compiled for.
        made: what came of it, or why nothing did.
    """

    key: str
    name: str
    arch: str
    made: Compiled | CompileError


@dataclass(frozen=True, slots=True)
class Bundle:
    """Compilations by key.

    Args:
        version: of wsched, which emitted the texts.
        gpu: what was planned for, in words.
        entries: by key.
    """

    version: str
    gpu: str
    entries: Mapping[str, Entry]

    @staticmethod
    def key(source: str, arch: str) -> str:
        """Hash of a text, the architecture and the options of compilations."""
        return hashlib.sha256(json.dumps([source, arch, list(OPTIONS)]).encode()).hexdigest()

    def find(self, source: str, arch: str) -> Compiled | None:
        """The compilation of a text, None if it is not in here.

        Raises:
            CompileError: it did not compile.
        """
        entry = self.entries.get(self.key(source, arch))
        if entry is None:
            return None
        if isinstance(entry.made, CompileError):
            raise CompileError(entry.name, entry.made.status, entry.made.log)
        return entry.made

    @property
    def archs(self) -> tuple[str, ...]:
        """Architectures of its kernels."""
        return tuple(sorted({e.arch for e in self.entries.values()}))


def write_bundle(path: Path, version: str, gpu: str, entries: Iterable[Entry]) -> None:
    """Write a bundle; the file has its former contents or these, whenever the process ends.

    Args:
        path: in a folder that exists; nobody else may write to the file.
        version: of wsched.
        gpu: what was planned for, in words.
        entries: what is in it; of equal keys the last one.

    Raises:
        OSError: it cannot be written.
    """
    cubins, told = list[bytes](), list[dict[str, Any]]()
    for entry in {e.key: e for e in entries}.values():
        facts: dict[str, Any] = {"key": entry.key, "name": entry.name, "arch": entry.arch}
        if isinstance(entry.made, CompileError):
            told.append(facts | {"status": entry.made.status, "log": entry.made.log})
            continue
        made = entry.made
        facts |= {"nvrtc": made.nvrtc_version, "seconds": made.seconds, "log": made.log}
        told.append(facts | {"bytes": len(made.cubin)})
        cubins.append(made.cubin)
    header = {"version": version, "gpu": gpu, "kernels": told}
    replace_file(path, seal(_MAGIC, with_header(header, b"".join(cubins))))


def _at_once(path: str, flags: int) -> int:
    """Open a file without waiting for who writes into it, where it is a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def read_bundle(path: Path, version: str) -> Bundle:
    """Read a bundle.

    Args:
        path: of the file.
        version: of this wsched.

    Raises:
        UnsupportedError: there is no such file, others can write it, it is no bundle or not whole,
            or it is another version's, or its header is none.
    """
    try:
        with open(path, "rb", opener=_at_once) as file:  # whose it is, and what is in it, of one
            status = os.fstat(file.fileno())
            why = distrust(status) or ("" if stat.S_ISREG(status.st_mode) else "is no file")
            data = b"" if why else file.read()
    except (OSError, ValueError) as e:  # a name with a NUL
        why = f"cannot be read ({getattr(e, 'strerror', None) or e or type(e).__name__})"
        raise _refused(path, why, "a file that can be read") from None
    if why:
        raise _refused(path, why, "a file of your own that nobody else can write")
    payload = sealed_payload(_MAGIC, data)
    if payload is None:
        what = "is no bundle" if data[: len(_MAGIC)] != _MAGIC else "is damaged or cut"
        raise _refused(path, what, "a whole file that `wsched bundle` wrote")
    try:
        header, rest = split_header(payload)
        written = _text(header, "version")
        found = _read(header, rest) if written == version else None
    except NONSENSE:
        why = "has a header that this version cannot read"
        raise _refused(path, why, "a bundle of this version") from None
    if found is None:
        why = f"is of wsched {written}, this is {version}"
        raise _refused(path, why, "a bundle of this version")
    return found


def _read(header: dict[str, Any], rest: bytes) -> Bundle:
    """What a header and the cubins behind it say; one of :data:`NONSENSE` if that is nothing."""
    entries, at = dict[str, Entry](), 0
    for facts in header["kernels"]:
        key, name, arch, told = (_text(facts, n) for n in ("key", "name", "arch", "log"))
        if "status" in facts:
            made: Compiled | CompileError = CompileError(name, _text(facts, "status"), told)
        else:
            (major, minor), size = map(_count, facts["nvrtc"]), _count(facts["bytes"])
            made = Compiled(rest[at : at + size], told, (major, minor), _seconds(facts["seconds"]))
            at += size
        entries[key] = Entry(key, name, arch, made)
    if at != len(rest):
        raise ValueError(f"{len(rest)} bytes of cubins, {at} in the header")
    return Bundle(header["version"], _text(header, "gpu"), entries)


def _text(facts: dict[str, Any], name: str) -> str:
    found = facts[name]
    if not isinstance(found, str):
        raise TypeError(f"{name} is {type(found).__name__}, not a text")
    return found


def _count(found: Any) -> int:
    if type(found) is not int or found < 0:
        raise ValueError(f"{found!r} is no count")
    return found


def _seconds(found: Any) -> float:
    if type(found) not in (int, float) or not 0 <= found <= float_info.max:
        raise ValueError(f"{found!r} is no time")
    return float(found)


def _refused(path: Path, why: str, supported: str) -> UnsupportedError:
    hint = "Write it again with `wsched bundle`"
    return UnsupportedError(f"the bundle {path}, which {why},", supported, hint)
