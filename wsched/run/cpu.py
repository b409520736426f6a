"""Torch CPU tensors on the machine model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from lowering.ground.expr import evaluate
from lowering.kernel.kernel import Kernel
from lowering.kernel.waits import rows_shape
from lowering.machine.errors import DeadlockError
from lowering.machine.run import RunResult, refuse_long_run, run_kernel
from wsched.run.arguments import Arguments
from wsched.run.watched import hang

if TYPE_CHECKING:
    import torch

__all__ = [
    "MULTIPROCESSORS", "array_of", "grid_on_cpu", "refuse_large", "run_arrays", "run_on_cpu",
]  # fmt: skip

MULTIPROCESSORS = 4
"""SMs that the model pretends to have: few, so that small problems give a CTA several tiles."""


def run_on_cpu(kernel: Kernel, arguments: Arguments, **options: Any) -> RunResult:
    """Execute a kernel on CPU tensors, results in place; ``options`` go to ``run_kernel``.

    Raises:
        UnsupportedError: the problem is too large for the machine (with an estimate).
        HangError: warps of a watched kernel wait for ever.
    """
    arrays = {name: array_of(t) for name, t in arguments.matrices.items()}
    if kernel.watch is None:
        return run_arrays(kernel, arrays, arguments.extents, **options)
    shape = rows_shape(kernel, grid_on_cpu(kernel, arguments.extents), arguments.extents)
    rows = arrays[kernel.watch.name] = np.zeros(shape, np.int64)
    try:
        return run_arrays(kernel, arrays, arguments.extents, **options)
    except DeadlockError as e:
        raise hang(kernel, rows) from e


def run_arrays(
    kernel: Kernel, arrays: Mapping[str, Any], extents: Mapping[str, int], **options: Any
) -> RunResult:
    """Execute a kernel on NumPy arrays by tensor name, results in place; needs no torch. What it
    prints goes to standard output, as on a GPU.

    Raises:
        UnsupportedError: the problem is too large for the machine (with an estimate).
    """
    found = run_kernel(kernel, arrays, extents, grid_on_cpu(kernel, extents), **options)
    for line in found.printed:
        print(line)  # which a closed standard output is nothing to
    return found


def refuse_large(kernel: Kernel, extents: Mapping[str, int]) -> None:
    """Refuse a problem that :func:`run_on_cpu` would refuse for its size, without running it.

    Raises:
        UnsupportedError: the estimated time is over the limit; the text has both.
    """
    refuse_long_run(kernel, extents, grid_on_cpu(kernel, extents))


def grid_on_cpu(kernel: Kernel, extents: Mapping[str, int]) -> int:
    """CTAs of a run on the machine."""
    # A cluster larger than the pretended device still runs: one at a time.
    return evaluate(kernel.grid, {**extents, "sms": max(MULTIPROCESSORS, kernel.cluster)})


def array_of(tensor: torch.Tensor) -> Any:
    """A NumPy view: raw bits of floats below 32 bits, which NumPy does not all know.

    Of what gradients are wanted for, too: NumPy has no say in those, and torch hands it over only
    where that is said.
    """
    import torch

    tensor = tensor.detach()
    bits = {2: torch.int16, 1: torch.uint8}.get(tensor.element_size())
    if bits is None or not tensor.dtype.is_floating_point:
        return tensor.numpy()
    return tensor.view(bits).numpy().view(f"uint{8 * tensor.element_size()}")
