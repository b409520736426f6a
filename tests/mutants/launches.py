"""Launches of right kernels, kept as they begin: what the kernels broken from them run on, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from lowering.ground.expr import evaluate
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import FragRedGlobal
from lowering.kernel.visit import walk
from lowering.machine import RunResult, run_kernel
from wsched.fusion import Fusion
from wsched.run.arguments import Arguments, bind, torch_dtype
from wsched.run.compiled import CompiledFusion
from wsched.run.cpu import array_of
from wsched.run.results import add_outputs

__all__ = ["Launch", "called", "integers", "launched", "launches_of"]

_POISON = -77
"""What integers hold that nothing has written."""


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """A launch of a kernel, before it.

    Args:
        tensors: all matrices by the names in the kernel; results are poisoned, sums are begun.
        extents: a value for each parameter.
        grid: CTAs along x.
    """

    tensors: Mapping[str, torch.Tensor]
    extents: Mapping[str, int]
    grid: int

    def run(self, kernel: Kernel, **options: Any) -> tuple[dict[str, Any], RunResult]:
        """All bytes of all matrices after a run of a kernel on copies, and what happened.

        ``options`` go to ``run_kernel``.
        """
        arrays = {name: array_of(_copy(t)) for name, t in self.tensors.items()}
        ran = run_kernel(kernel, arrays, self.extents, self.grid, **options)
        return {n: np.frombuffer(a.tobytes(), np.uint8) for n, a in arrays.items()}, ran

    def after(self, kernel: Kernel) -> Mapping[str, torch.Tensor]:
        """All matrices after a run of a kernel on copies."""
        found = {name: _copy(t) for name, t in self.tensors.items()}
        arrays = {name: array_of(t) for name, t in found.items()}
        run_kernel(kernel, arrays, self.extents, self.grid, adversary="eager")
        return found


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements in other memory, as far apart."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype).copy_(tensor)


def integers(seed: int, *shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Small ones, so that sums are exact in any order."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, shape, generator=generator).to(dtype)


def launched(fusion: Fusion, kernel: Kernel, size: Mapping[str, int], sms: int) -> Launch:
    """A launch of a kernel of its own fusion, on so many multiprocessors."""
    given = [
        integers(at, *(size[a] for a in b.axes), dtype=torch_dtype(b.dtype))
        for at, b in enumerate(fusion.inputs)
    ]
    by_columns = [bool(fusion.tensor(b.tensor).allocation) for b in fusion.inputs]
    given = [t.T.contiguous().T if c else t for t, c in zip(given, by_columns, strict=True)]
    arguments = bind(fusion, given, 1)
    results = [
        torch.full([size[a] for a in b.axes], torch.nan, dtype=torch_dtype(b.dtype))
        for b in fusion.outputs
    ]
    add_outputs(fusion, kernel, 1, arguments, results, "")
    return _launch(kernel, arguments, sms)


def _launch(kernel: Kernel, arguments: Arguments, sms: int) -> Launch:
    extents = arguments.extents
    grid = evaluate(kernel.grid, {**extents, "sms": max(sms, kernel.cluster)})
    kept = {name: _copy(t) for name, t in arguments.matrices.items()}
    return Launch(kept, dict(extents), grid)


def called(made: CompiledFusion, inputs: Sequence[torch.Tensor], sms: int, own: int = 0) -> Launch:
    """The launch of a call on CPU tensors, of those that share groups out that of kernel ``own``;
    results that nothing is added to are poisoned.
    """
    one = made.launched[own]
    found = launches_of(lambda: made(*inputs), sms)
    (launch,) = (launch for kernel, launch in found if kernel is one.kernel)
    if not any(isinstance(s, FragRedGlobal) for s in walk(one.kernel.body)):
        for result in (launch.tensors[b.key] for b in one.fusion.outputs):
            result.fill_(torch.nan if result.dtype.is_floating_point else _POISON)
    return launch


def launches_of(call: Callable[[], Any], sms: int) -> list[tuple[Kernel, Launch]]:
    """What a call on CPU tensors launches, in place of which nothing runs."""
    found: list[tuple[Kernel, Launch]] = []

    def run(kernel: Kernel, arguments: Arguments, **_: Any) -> None:
        found.append((kernel, _launch(kernel, arguments, sms)))

    with (
        patch("wsched.run.on_device.run_on_cpu", run),
        patch("wsched.run.summary.run_on_cpu", run),
    ):
        call()
    return found
