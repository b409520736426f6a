"""Arguments without content: all zeros, for who asks a kernel when and not what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lowering.kernel.kernel import Kernel
from lowering.machine.fragment import Array, held_type
from lowering.machine.launch import described
from lowering.machine.scalars import Env, compile_scalar

__all__ = ["blank_arguments"]

ALIGNED = 16
"""Bytes that rows begin at a multiple of, so that TMA and threads can read all of them."""


def blank_arguments(kernel: Kernel, params: Mapping[str, int], grid: int) -> dict[str, Array]:
    """Zeros for each tensor that :func:`lowering.machine.run.run_kernel` asks for by its name.

    Args:
        kernel: after all passes.
        params: a value for each scalar parameter.
        grid: number of CTAs along x.

    Returns:
        Arrays in the types that the machine holds, rows :data:`ALIGNED`; of trace buffers, int64
        ``[CTAs, warps, 1 + slots, 2]``.
    """
    env = Env(params)
    found = {
        name: _zeros([compile_scalar(n)(env) for n in sizes], m.dtype.raw)
        for m, name, sizes in described(kernel, params)
    }
    for e in (e for g in kernel.globals for e in g.entries):
        sizes = [compile_scalar(n)(env) for n in e.sizes]
        found.setdefault(e.name, _zeros(sizes, held_type(e.dtype)))
    for t in kernel.traces:
        shape = kernel.ctas(grid, params), kernel.threads // 32, 1 + t.slots, 2
        found[t.name] = np.zeros(shape, np.int64)
    return found


def _zeros(sizes: Sequence[int], dtype: str) -> Array:
    """An array with aligned rows; memory that nobody writes is never taken."""
    *outer, cols = sizes
    size = np.dtype(dtype).itemsize
    wide = -(-cols * size // ALIGNED) * ALIGNED // size
    return np.zeros((*outer, wide), dtype)[..., :cols]
