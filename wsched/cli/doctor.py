"""What of a machine wsched can use: GPU, driver, NVRTC, nvFuser, torch, caches, tables.

Every finding is one of three: it works, something that is optional is missing, or something is in
the way. The last two say what to do. Nothing is compiled or run, and nothing that is written stays:
whether a folder can be made, only making it tells.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import Enum
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from lowering.cuda.cache import default_directory
from lowering.cuda.nvrtc import nvrtc_version
from lowering.ground.errors import UnsupportedError
from lowering.ground.files import distrust
from lowering.target.targets import gpus, target_of_device
from wsched.choose.tuned.lookup import OFF, VARIABLE, shipped_tables, untrusted, user_table
from wsched.choose.tuned.table import TableError, read_table
from wsched.version import __version__

__all__ = ["Finding", "State", "findings", "verdict"]

DRIVER = Path("/proc/driver/nvidia/version")
"""There while the kernel's part of NVIDIA's driver is loaded."""


class State(Enum):
    """How a finding stands."""

    WORKS = "works"
    MISSING = "missing"
    FAILS = "fails"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one thing.

    Args:
        name: the thing: ``GPU``, ``NVRTC``.
        state: how it stands.
        found: version, path or reason.
        advice: what to do; empty of what works.
    """

    name: str
    state: State
    found: str
    advice: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**asdict(self), "state": self.state.value}


def findings() -> Iterator[Finding]:
    """Everything that is looked at, one after the other: importing torch takes seconds."""
    yield Finding("wsched", State.WORKS, f"{__version__} on Python {platform.python_version()}")
    looks: tuple[Callable[[], Finding], ...] = (
        _nvrtc, _disassembler, _torch, _gpu, _nvfuser, _cache, _table,
    )  # fmt: skip
    for look in looks:
        yield look()


def verdict(found: list[Finding]) -> str:
    """What can be done here, in one sentence."""
    works = {f.name for f in found if f.state is State.WORKS}
    if "NVRTC" not in works:
        return "Kernels can be planned, dumped and run on the machine model, but not compiled."
    if "GPU" not in works:
        return "Kernels can be compiled, looked at and run on the machine model; no GPU runs them."
    return "Kernels can be compiled and run on the GPU."


def _nvrtc() -> Finding:
    try:
        major, minor = nvrtc_version()
    except UnsupportedError as e:
        return Finding("NVRTC", State.FAILS, e.what, "pip install 'wsched[cuda13]', or [nvfuser]")
    return Finding("NVRTC", State.WORKS, f"{major}.{minor}")


def _disassembler() -> Finding:
    package = "nvidia-cuda-nvdisasm"
    try:
        return Finding("nvdisasm", State.WORKS, metadata.version(package))
    except metadata.PackageNotFoundError:
        return Finding("nvdisasm", State.MISSING, "no SASS dumps", f"pip install {package}")


def _torch() -> Finding:
    if find_spec("torch") is None:
        advice = "pip install torch: execute, compile and trace take torch tensors"
        return Finding("torch", State.MISSING, "not installed", advice)
    try:
        import torch
    except (ImportError, OSError) as e:  # a library that it is linked to
        return Finding("torch", State.FAILS, str(e), "reinstall torch for this driver and Python")
    cuda = torch.version.cuda
    return Finding("torch", State.WORKS, f"{torch.__version__}, CUDA {cuda or 'not built in'}")


def _gpu() -> Finding:
    try:
        import torch
    except (ImportError, OSError):
        return Finding("GPU", State.MISSING, "not looked for without torch", "see torch")
    if not torch.cuda.is_available():
        if DRIVER.exists():
            advice = "see CUDA_VISIBLE_DEVICES, and whether the driver is older than torch's CUDA"
            return Finding("GPU", State.FAILS, "a driver, but torch.cuda finds no GPU", advice)
        advice = f"kernels run on {gpus()}; here the machine model runs them"
        return Finding("GPU", State.MISSING, "no driver", advice)
    here = torch.cuda.get_device_properties(torch.cuda.current_device())
    text = f"{here.name}, {here.multi_processor_count} multiprocessors, {here.major}.{here.minor}"
    if target_of_device(torch) is None:
        return Finding("GPU", State.FAILS, text, f"kernels run on {gpus()}")
    return Finding("GPU", State.WORKS, text)


def _nvfuser() -> Finding:
    if find_spec("nvfuser_direct") is None:
        advice = "pip install 'wsched[nvfuser]'; texts of definitions need none"
        return Finding("nvFuser", State.MISSING, "not installed", advice)
    try:
        module = import_module("nvfuser_direct")
    except (ImportError, OSError) as e:
        advice = "install the nvFuser that was built for this torch"
        return Finding("nvFuser", State.FAILS, str(e).splitlines()[0], advice)
    version = getattr(module, "__version__", "") or _version_of("nvfuser_direct")
    return Finding("nvFuser", State.WORKS, version)


def _version_of(module: str) -> str:
    owners = metadata.packages_distributions().get(module, [])
    return metadata.version(owners[0]) if owners else "of unknown version"


def _cache() -> Finding:
    try:
        folder = default_directory()
    except UnsupportedError as e:
        return Finding("cubin cache", State.FAILS, e.what, e.hint)
    advice = "set WSCHED_CACHE_DIR to a folder of your own; until then each process compiles anew"
    try:
        return _cache_in(folder, advice)
    except OSError as e:
        return Finding("cubin cache", State.FAILS, f"{folder}: {e.strerror}", advice)


def _cache_in(folder: Path, advice: str) -> Finding:
    """Raises OSError where it cannot be looked at, in a home that others own say."""
    if folder.exists() and not folder.is_dir():
        return Finding("cubin cache", State.FAILS, f"{folder} is not a directory", advice)
    if folder.exists() and (why := distrust(folder.stat())):
        return Finding("cubin cache", State.FAILS, f"{folder} {why}", advice)
    _write_in(folder)
    kept = sorted(folder.glob("*.cubin"))
    size = sum(p.stat().st_size for p in kept) / (1 << 20)
    return Finding("cubin cache", State.WORKS, f"{folder}: {len(kept)} kernels, {size:.1f} MB")


def _write_in(folder: Path) -> None:
    """Do what the cache does when it keeps a kernel, and take it away again.

    Raises:
        OSError: the folder cannot be made, or nothing be written there.
    """
    missing = [p for p in (folder, *folder.parents) if not p.exists()]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as file:
            file.write(b"kernel")
    finally:
        for made in missing:
            with suppress(OSError):  # never made, or another process keeps something there
                made.rmdir()


def _table() -> Finding:
    shipped = ", ".join(p.stem for p in shipped_tables())
    try:
        file = user_table()
    except UnsupportedError:
        off = f"{VARIABLE}={OFF}: the cost model chooses"
        return Finding("tuned tables", State.MISSING, off, f"unset {VARIABLE}")
    try:
        there = file.exists()
    except OSError as e:
        advice = f"let it be where you can read, or name another in {VARIABLE}"
        return Finding("tuned tables", State.FAILS, f"{file}: {e.strerror}", advice)
    if not there:
        advice = "wsched tune measures one for this GPU"
        if os.environ.get(VARIABLE):
            advice = f"{VARIABLE} names it: mend it, or let wsched tune write it"
            return Finding("tuned tables", State.FAILS, f"{file} does not exist", advice)
        return Finding("tuned tables", State.MISSING, f"none of yours; shipped: {shipped}", advice)
    if why := untrusted(file):
        advice = "let it and its folder be yours alone"
        return Finding("tuned tables", State.FAILS, f"{file}: {why}; shipped: {shipped}", advice)
    try:
        count = len(read_table(file).entries)
    except TableError as e:
        return Finding("tuned tables", State.FAILS, f"{file}: {e}", "mend or remove it")
    text = f"{file}: {count} entries; shipped: {shipped}"
    return Finding("tuned tables", State.WORKS, text)
