"""From a module to a cubin: LLVM, which takes MLIR to PTX, and ptxas behind it.

Triton's wheel brings both, and torch brings Triton, so nothing has to be installed for it. LLVM's
own tools do the same (``mlir-opt``, ``mlir-translate``, ``llc``; see design/0038). LLVM's middle
end has no part in it: the module is what the passes of wsched made of the kernel, and what is left
to do, registers and the order of instructions, is ptxas'.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

from lowering.cuda.nvrtc import Compiled, CompileError
from lowering.ground.errors import UnsupportedError

__all__ = ["compile_mlir", "lowered", "ptxas"]

_FEATURES = "+ptx86"
"""PTX ISA 8.6, which ptxas 12.7 and later take."""

_TRIPLE = "nvptx64-nvidia-cuda"

_SHARED = re.compile(r"(nvvm\.mbarrier\.(?:init|inval|arrive(?:\.expect_tx)?)) ")
"""Operations that the MLIR of Triton 3.6 has twice, for generic and for shared addresses."""


@cache
def _triton() -> Any:
    """Triton's compiled module and its folder for NVIDIA.

    Raises:
        UnsupportedError: there is none.
    """
    try:
        import triton
        from triton._C import libtriton
    except ImportError as e:
        hint = f"Install torch, which brings Triton ({e})"
        raise UnsupportedError("MLIR without Triton", "Triton 3.6", hint) from e
    libtriton.llvm.init_targets()
    libtriton.nvidia.set_short_ptr()
    return libtriton, Path(triton.__file__).parent / "backends" / "nvidia"


def lowered(text: str, name: str, arch: str) -> str:
    """The PTX of a module.

    Args:
        text: the module, as ``emit_mlir`` returns it.
        name: of the text in messages.
        arch: of the kernel's target.

    Raises:
        UnsupportedError: Triton is not installed.
        CompileError: MLIR refuses the module.
    """
    lib, folder = _triton()
    context = lib.ir.context()
    lib.ir.load_dialects(context)
    lib.nvidia.load_dialects(context)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "kernel.mlir")
        path.write_text(_SHARED.sub(r"\1.shared ", text))
        try:
            module = lib.ir.parse_mlir_module(str(path), context)
        except RuntimeError as e:
            raise CompileError(name, "MLIR", str(e)) from None
    manager, convert = lib.ir.pass_manager(context), lib.passes.convert
    for add in (
        convert.add_scf_to_cf,
        convert.add_cf_to_llvmir,
        convert.add_arith_to_llvmir,
        convert.add_nvvm_to_llvm,
    ):
        add(manager)
    try:
        manager.run(module, name)
    except RuntimeError as e:
        raise CompileError(name, "MLIR", str(e)) from None
    inner = lib.llvm.context()
    made = lib.llvm.to_module(module, inner)
    lib.llvm.attach_datalayout(made, _TRIPLE, arch, _FEATURES)
    if "@__nv_" in text:
        lib.llvm.link_extern_libs(made, [str(folder / "lib" / "libdevice.10.bc")])
    # Products and sums become one operation where the module says so (``contract``), nowhere else.
    ptx: str = lib.llvm.translate_to_asm(str(made), _TRIPLE, arch, _FEATURES, [], False, False)
    return ptx


def ptxas(ptx: str, name: str, arch: str) -> tuple[bytes, str]:
    """The cubin of a PTX text, and what ptxas said.

    Raises:
        UnsupportedError: Triton, which brings ptxas, is not installed.
        CompileError: ptxas refuses the text.
    """
    _, folder = _triton()
    with tempfile.TemporaryDirectory() as scratch:
        source, cubin = Path(scratch, "kernel.ptx"), Path(scratch, "kernel.cubin")
        source.write_text(ptx)
        command = [folder / "bin" / "ptxas", "-v", f"-arch={arch}", source, "-o", cubin]
        run = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
        if run.returncode:
            raise CompileError(name, "ptxas", run.stderr)
        return cubin.read_bytes(), run.stderr


def compile_mlir(text: str, name: str, arch: str) -> Compiled:
    """The cubin of a module; arguments and errors as :func:`lowered`."""
    begin = time.perf_counter()
    cubin, log = ptxas(lowered(text, name, arch), name, arch)
    return Compiled(cubin, log, ptxas_version(), time.perf_counter() - begin)


@cache
def ptxas_version() -> tuple[int, int]:
    """(major, minor) of the CUDA release that ptxas is from."""
    _, folder = _triton()
    command = [str(folder / "bin" / "ptxas"), "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"release (\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0, 0)
