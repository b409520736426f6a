"""Where compilations come from: a bundle that was read, the disk cache, NVRTC.

``WSCHED_BUNDLE`` names bundles, separated as in ``PATH``; :func:`load_bundle` reads one more.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lowering.cuda.bundle import Bundle, Entry, read_bundle, write_bundle
from lowering.cuda.cache import CubinCache, default_directory
from lowering.cuda.nvrtc import Compiled, CompileError
from lowering.ground.errors import UnsupportedError
from lowering.ground.locks import Lock
from lowering.ground.log import log
from lowering.target.targets import TARGETS, target_of_device
from wsched.choose.gpus import Gpu
from wsched.version import __version__

__all__ = ["VARIABLE", "compiled_text", "disk_cache", "load_bundle", "saved_bundle"]

VARIABLE = "WSCHED_BUNDLE"
"""The environment variable: bundles to read when the first kernel is compiled."""

_reading = Lock()
"""Held for every write to ``_bundles``."""

_bundles: dict[Path, Bundle] = {}
"""Those that were read, by their absolute names."""

_caches: dict[Path, CubinCache] = {}
_saving: dict[int, list[Entry]] = {}
"""What is saved now, by identity: two blocks may have recorded the same, or nothing so far."""


def load_bundle(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Read a bundle that ``wsched bundle`` wrote: its kernels need no NVRTC in this process.

    Kernels that are not in it are compiled as ever. A bundle is looked into by the text of a
    kernel, so it cannot give a wrong one; it is read only if it belongs to the user and nobody else
    can write it, because who can write it decides what runs on the GPU. One that was planned for
    another GPU than torch's current one gives a warning.

    Args:
        path: of the file.

    Returns:
        The names of its kernels.

    Raises:
        UnsupportedError: there is no such file, it is damaged, others can write it, it is of
            another version, or its kernels are for other GPUs than torch's current one.
    """
    bundle = read_bundle(Path(path), __version__)
    _check_gpu(Path(path), bundle)
    with _reading:
        _bundles[Path(path).absolute()] = bundle
    log("bundle", lambda: f"{path} with {len(bundle.entries)} compilations for {bundle.gpu}")
    good = [e.name for e in bundle.entries.values() if isinstance(e.made, Compiled)]
    return tuple(sorted(name.removesuffix(".cu") for name in good))


def _check_gpu(path: Path, bundle: Bundle) -> None:
    """Compare a bundle with torch's current GPU, if there is one.

    Raises:
        UnsupportedError: none of its kernels runs there.
    """
    try:
        import torch
    except ImportError:
        return
    if not torch.cuda.is_available():
        return
    here: Any = torch.cuda.get_device_properties(torch.cuda.current_device())
    target = target_of_device(torch)
    if bundle.archs and (target is None or target.arch not in bundle.archs):
        served = [t.gpu for t in TARGETS if t.arch in bundle.archs]
        raise UnsupportedError(
            f"the bundle {path}, whose kernels are for {', '.join(bundle.archs)}, on {here.name}",
            " or ".join(served) or "another GPU",
        )
    found = str(Gpu.of(here))
    if bundle.gpu != found:
        warnings.warn(
            f"wsched: the bundle {path} was planned for {bundle.gpu}, this is {found}: other "
            "kernels may be chosen, which are compiled as ever.",
            RuntimeWarning,
            stacklevel=3,
        )


def disk_cache() -> CubinCache:
    """The cache of the directory that the environment names now."""
    at = default_directory()
    return _caches.get(at) or _caches.setdefault(at, CubinCache(at, __version__))


def compiled_text(source: str, name: str, arch: str) -> Compiled:
    """The compilation of a text: from a bundle, the disk cache or NVRTC.

    Raises:
        CompileError: it does not compile.
        UnsupportedError: it is nowhere, and there is no NVRTC; a bundle that the environment names
            is refused.
    """
    try:
        found = _bundled(source, arch) or disk_cache().compile(source, name, arch=arch)
    except CompileError as e:
        _save(Entry(Bundle.key(source, arch), name, arch, e))
        raise
    except UnsupportedError as e:
        if not _bundles:
            raise
        hint = f"{name} is in none of the bundles {', '.join(map(str, _bundles))}. {e.hint}"
        raise UnsupportedError(e.what, e.supported, hint) from None
    _save(Entry(Bundle.key(source, arch), name, arch, found))
    return found


def _bundled(source: str, arch: str) -> Compiled | None:
    for name in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        if Path(name).absolute() not in _bundles:
            load_bundle(name)
    for bundle in tuple(_bundles.values()):
        if (found := bundle.find(source, arch)) is not None:
            return found
    return None


def _save(entry: Entry) -> None:
    for entries in tuple(_saving.values()):
        entries.append(entry)


@contextmanager
def saved_bundle(path: str | os.PathLike[str], gpu: str = "") -> Iterator[list[Entry]]:
    """Write what is compiled within, in all threads, wherever it came from, to a bundle.

    What this process has compiled before is not compiled again, so it is not in the bundle either:
    a program that is to be bundled as it runs does this first. If the block fails nothing is
    written, and whatever happens the file has its former contents or the new ones.

    Args:
        path: of the file, in a folder that exists.
        gpu: what is planned for, in words; by default torch's current GPU.

    Yields:
        The compilations so far.

    Raises:
        OSError: the file cannot be written.
    """
    found: list[Entry] = []
    _saving[id(found)] = found
    try:
        yield found
    finally:
        del _saving[id(found)]
    write_bundle(Path(path), __version__, gpu or _current_gpu(), found)


def _current_gpu() -> str:
    """Torch's current GPU in words; the machine model where there is none."""
    try:
        import torch
    except ImportError:
        return "the machine model"
    if not torch.cuda.is_available():
        return "the machine model"
    return str(Gpu.of(torch.cuda.get_device_properties(torch.cuda.current_device())))
