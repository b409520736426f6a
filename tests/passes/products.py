"""Kernels at the tile level whose products no schedule makes yet, and how to run them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from lowering.cuda.emit import emit_cuda
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel
from lowering.machine import run_kernel
from lowering.machine.adversary import Adversary
from passes.options import LoweringOptions
from passes.pipeline import run_passes

__all__ = ["Array", "execute", "final", "integers", "machine_code_is_clean", "text", "unwritten"]

Array = np.ndarray[Any, Any]


def text(name: str, folder: str = "products") -> str:
    """The text of ``<folder>/<name>.ir``."""
    file = Path(__file__).with_name(folder) / f"{name}.ir"
    return file.read_text(encoding="utf-8")


@lru_cache
def final(source: str, epilogue_stages: int = 1) -> Kernel:
    """The kernel of a text after all passes."""
    return run_passes(parse_kernel(source), LoweringOptions(epilogue_stages=epilogue_stages))


def integers(rng: np.random.Generator, *shape: int) -> Array:
    """Integers in [-2, 2] as bf16: their products sum up exactly."""
    return rng.integers(-2, 3, shape).astype(ml_dtypes.bfloat16)


def unwritten(*shape: int) -> Array:
    """A result that nothing has been written to."""
    return np.full(shape, np.nan, ml_dtypes.bfloat16)


def execute(
    kernel: Kernel,
    tensors: dict[str, Array],
    *,
    adversary: Adversary = "random",
    seed: int = 0,
    **sizes: int,
) -> None:
    """Run on two CTAs."""
    run_kernel(kernel, tensors, sizes, 2, adversary=adversary, seed=seed)


def machine_code_is_clean(kernel: Kernel) -> bool:
    """Whether the kernel compiles without spills and without wgmmas that ptxas serializes."""
    compiled = compile_cubin(emit_cuda(kernel), arch=kernel.target.arch)
    return read_resources(compiled, kernel.name).clean
