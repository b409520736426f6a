"""Machine code of a cubin."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lowering.ground.errors import InternalError, UnsupportedError

__all__ = ["disassemble", "find_nvdisasm"]

_SECONDS = 60


def find_nvdisasm() -> Path:
    """The nvdisasm of the Python packages, else the one on PATH.

    Raises:
        UnsupportedError: there is none.
    """
    try:
        from cuda.pathfinder import find_nvidia_binary_utility

        found = find_nvidia_binary_utility("nvdisasm")
    except (ImportError, RuntimeError):
        found = None
    found = found or shutil.which("nvdisasm")
    if not found:
        raise UnsupportedError(
            "disassembling without nvdisasm",
            "nvdisasm of the package nvidia-cuda-nvdisasm or on PATH",
            "Install nvidia-cuda-nvdisasm",
        )
    return Path(found)


def disassemble(cubin: bytes, options: Sequence[str] = ()) -> str:
    """SASS of every function of a cubin, as nvdisasm prints it.

    Args:
        cubin: the ELF image.
        options: for nvdisasm, beside that for code alone; ``-gi`` prints the lines of the source
            that the cubin names, those of inlined functions with where they were called.

    Raises:
        UnsupportedError: there is no nvdisasm.
        InternalError: nvdisasm does not read the cubin.
    """
    tool = find_nvdisasm()
    with tempfile.TemporaryDirectory(prefix="wsched-") as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        done = subprocess.run(
            [str(tool), "-c", *options, str(path)],
            capture_output=True, text=True, check=False, timeout=_SECONDS,
        )  # fmt: skip
    if done.returncode:
        raise InternalError("sass", f"nvdisasm failed ({done.returncode}): {done.stderr.strip()}")
    return done.stdout
