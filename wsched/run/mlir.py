"""A kernel whose cubin LLVM makes of its MLIR module, in place of NVRTC of its CUDA text."""

from __future__ import annotations

from dataclasses import dataclass, fields

from lowering.cuda.nvrtc import Compiled
from wsched.run.compiled import CompiledFusion
from wsched.run.once import once

__all__ = ["ThroughMlir", "through_mlir"]


@dataclass(frozen=True, repr=False)
class ThroughMlir(CompiledFusion):
    """The same kernel, parameters and launch; only its machine code comes by another way."""

    @once
    def compiled(self) -> Compiled:
        """The cubin, from MLIR's module; not kept on disk.

        Raises:
            UnsupportedError: Triton, which brings LLVM, is not installed; a statement that the
                module cannot have.
            CompileError: LLVM or ptxas refuses the module.
        """
        from lowering.mlir.toolchain import compile_mlir

        return compile_mlir(self.dump("mlir"), self.kernel.name, self.kernel.target.arch)


def through_mlir(kernel: CompiledFusion) -> ThroughMlir:
    """The same kernel by way of MLIR; it is compiled where it is first needed.

    Args:
        kernel: as :func:`wsched.compile` or ``MatmulBuilder.build`` returns it.

    Returns:
        One that is called, dumped and bound as it. What is needed of the cubin raises
        UnsupportedError where Triton, which brings LLVM, is not installed or the module cannot have
        a statement of the kernel (``kernel.dump("mlir")`` says which).
    """
    return ThroughMlir(**{f.name: getattr(kernel, f.name) for f in fields(kernel)})
