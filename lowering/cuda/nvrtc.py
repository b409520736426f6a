"""CUDA C++ to cubin with NVRTC: no driver, no GPU, no CUDA headers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.progress import doing
from lowering.target.targets import DEFAULT

__all__ = ["OPTIONS", "CompileError", "Compiled", "compilations", "compile_cubin", "compile_ptx",
           "nvrtc_version"]  # fmt: skip

OPTIONS = (
    "-std=c++17",
    "--ptxas-options=-v",
    "--ptxas-options=--warn-on-spills",
)
"""Options of every compilation, beside the architecture. ``-v`` makes ptxas report registers."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """What one compilation gave.

    Attributes:
        cubin: the ELF image for the architecture.
        log: text of NVRTC and ptxas: warnings, registers, spills.
        nvrtc_version: (major, minor) of the NVRTC that made it.
        seconds: wall time of the compilation.
    """

    cubin: bytes
    log: str
    nvrtc_version: tuple[int, int]
    seconds: float


_count = 0


def compilations() -> int:
    """How many cubins NVRTC has made in this process (cached ones do not count)."""
    return _count


def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc
    except ImportError as e:
        raise UnsupportedError(
            "compiling without cuda-bindings",
            "cuda-bindings 12.9 or 13.x",
            f"Install cuda-bindings and nvidia-cuda-nvrtc ({e})",
        ) from e
    return nvrtc


def _call(function: str, *args: Any) -> Any:
    """Call one NVRTC function; its result without the status.

    cuda-bindings returns a tuple that begins with the status, in 12.9 and 13.x alike.
    """
    nvrtc = _nvrtc()
    try:
        status, *result = getattr(nvrtc, function)(*args)
    except RuntimeError as e:  # the library itself is loaded at the first call
        raise UnsupportedError(
            "compiling without the NVRTC library", "NVRTC 12.8 or later",
            f"Install nvidia-cuda-nvrtc ({str(e).splitlines()[0] if str(e) else type(e).__name__})",
        ) from e  # fmt: skip
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise _NvrtcError(function, status.name)
    return result[0] if len(result) == 1 else tuple(result)


class CompileError(InternalError):
    """NVRTC or ptxas refused a text.

    ``status`` is NVRTC's, ``log`` what they said; ptxas' C76xx there means that the kernel needs
    more registers than a thread can have.
    """

    def __init__(self, name: str, status: str, log: str) -> None:
        super().__init__("nvrtc", f"{name} does not compile ({status})", log)
        self.status, self.log = status, log


class _NvrtcError(Exception):
    """A status other than success: (function, name of the status)."""


def nvrtc_version() -> tuple[int, int]:
    """(major, minor) of the installed NVRTC; UnsupportedError if there is none."""
    major, minor = _call("nvrtcVersion")
    return int(major), int(minor)


def compile_cubin(
    source: str, name: str = "kernel.cu", options: Sequence[str] = (), arch: str = DEFAULT.arch
) -> Compiled:
    """Compile CUDA C++ for an architecture.

    Args:
        source: the text, as ``emit_cuda`` returns it.
        name: name of the text in messages.
        options: added to ``OPTIONS``.
        arch: of the kernel's target.

    Raises:
        UnsupportedError: cuda-bindings or the NVRTC library is not installed.
        CompileError: the text does not compile; carries the compiler's log.
    """
    global _count
    begin = time.perf_counter()
    cubin, log = _compile(source, name, f"--gpu-architecture={arch}", options, "CUBIN")
    _count += 1
    return Compiled(cubin, log, nvrtc_version(), time.perf_counter() - begin)


def compile_ptx(
    source: str, name: str = "kernel.cu", options: Sequence[str] = (), arch: str = DEFAULT.arch
) -> str:
    """The PTX of a text, to look at; arguments and errors as ``compile_cubin``."""
    virtual = arch.replace("sm", "compute")
    ptx, _ = _compile(source, name, f"--gpu-architecture={virtual}", options, "PTX")
    return ptx.rstrip(b"\0").decode()


def _compile(
    source: str, name: str, arch: str, options: Sequence[str], form: str
) -> tuple[bytes, str]:
    program = _call("nvrtcCreateProgram", source.encode(), name.encode(), 0, [], [])
    try:
        flags = [o.encode() for o in (arch, *OPTIONS, *_uncached(), *options)]
        try:
            with doing(f"NVRTC compiles {name}"):
                _call("nvrtcCompileProgram", program, len(flags), flags)
        except _NvrtcError as e:
            raise CompileError(name, e.args[1], _log(program)) from None
        image = bytearray(_call(f"nvrtcGet{form}Size", program))
        _call(f"nvrtcGet{form}", program, image)
        return bytes(image), _log(program)
    finally:
        _call("nvrtcDestroyProgram", program)


def _uncached() -> tuple[str, ...]:
    """Keep NVRTC from answering out of a cache of its own, which returns no log of ptxas.

    NVRTC 13 does so where there is a driver; 12.8 has neither the cache nor the option.
    """
    return ("--no-cache",) if nvrtc_version() >= (13, 0) else ()


def _log(program: Any) -> str:
    text = bytearray(_call("nvrtcGetProgramLogSize", program))
    _call("nvrtcGetProgramLog", program, text)
    return text.rstrip(b"\0").decode(errors="replace").strip()
