"""Where a run took place: machine, driver, versions, and the commit of wsched."""

from __future__ import annotations

import importlib
import importlib.util
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import wsched

__all__ = ["commit", "cpu_name", "driver_version", "environment", "version_text", "versions"]

# Module -> name in the report; its distribution may have another name, nvFuser's has its version.
_MODULES = {"torch": "torch", "triton": "triton", "nvfuser_direct": "nvfuser", "cutlass": "cutlass"}
_PACKAGES = (
    "cuda-bindings",
    "nvidia-cublas",
    "nvidia-cublas-cu12",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-nvrtc-cu12",
    "nvidia-cuda-runtime-cu12",
)


def environment(gpu: Mapping[str, Any]) -> dict[str, Any]:
    """Return the block of the JSON; what cannot be read is None.

    Args:
        gpu: as :meth:`wsched.bench.method.gpu.CudaGpu.describe` returns it.
    """
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "host": {"cpu": cpu_name(), "system": platform.platform()},
        "gpu": dict(gpu),
        "driver": driver_version(),
        "cuda_driver": _cuda_driver(),
        "cuda_runtime": _cuda_runtime(),
        "python": platform.python_version(),
        "wsched": {"version": wsched.__version__, **commit(Path(wsched.__file__).parent)},
        "versions": versions(),
    }


def versions() -> dict[str, str | None]:
    """Return the versions of what is compared; None for what is not installed."""
    owners = metadata.packages_distributions()
    found: dict[str, str | None] = {}
    for module, name in _MODULES.items():
        found[name] = None
        if module in owners:
            found[name] = metadata.version(owners[module][0])
        elif importlib.util.find_spec(module) is not None:
            found[name] = "unknown"  # on the path, but not installed by a packager
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def commit(package: Path) -> dict[str, Any]:
    """Return the git commit that a package's folder lies at the top of, and whether it is changed.

    Both None outside of a checkout; a checkout of something else, in which wsched is installed
    further down, is none.
    """
    root = package.resolve().parent
    top = _output(["git", "-C", str(root), "rev-parse", "--show-toplevel"])
    if top is None or Path(top) != root:
        return {"commit": None, "changed": None}
    status = _output(["git", "-C", str(root), "status", "--porcelain"])
    head = _output(["git", "-C", str(root), "rev-parse", "HEAD"])
    return {"commit": head, "changed": None if status is None else bool(status)}


def cpu_name(info: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor's name; its architecture where Linux does not say more."""
    try:
        lines = info.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def driver_version(proc: Path = Path("/proc/driver/nvidia/version")) -> str | None:
    """Return the version of NVIDIA's kernel driver, such as ``580.159.03``."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    told = _output(command)
    if told:
        return told.splitlines()[0].strip()
    try:
        words = proc.read_text().split()
    except OSError:
        return None
    return next((w for w in words if w.count(".") in (1, 2) and w.replace(".", "").isdigit()), None)


def version_text(number: int) -> str:
    """Return CUDA's ``1000 * major + 10 * minor`` as ``major.minor``."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _cuda_driver() -> str | None:
    """The newest CUDA that the driver can run."""
    try:
        status, number = importlib.import_module("cuda.bindings.driver").cuDriverGetVersion()
    except (ImportError, RuntimeError):
        return None
    return version_text(int(number)) if int(status) == 0 else None


def _cuda_runtime() -> str | None:
    """The CUDA runtime that torch was built with."""
    try:
        version = importlib.import_module("torch").version.cuda
    except ImportError:
        return None
    return None if version is None else str(version)


def _output(command: Sequence[str]) -> str | None:
    """What a program prints; None if it is not there, fails or does not end."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ended.stdout.strip() if ended.returncode == 0 else None
