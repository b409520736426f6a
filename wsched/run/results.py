"""The results of a call: new tensors, or the caller's, checked; and how the kernel sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lowering.kernel.kernel import Kernel
from wsched.fusion import Fusion
from wsched.run.arguments import (
    Arguments,
    matrix,
    new_result,
    result_shape,
    stored_matrix,
    torch_dtype,
)
from wsched.run.input_error import InputError

if TYPE_CHECKING:
    import torch

__all__ = ["FROM_REGISTERS", "FROM_REGISTERS_BY_CALLS", "add_outputs", "results"]

FROM_REGISTERS = "use_smem_epilogue=False makes a kernel whose threads store results of any stride"
"""What to do about results that TMA cannot store, if parameters made the schedule."""

FROM_REGISTERS_BY_CALLS = (
    "Store the result with Set from registers, without the copy in shared memory: then threads "
    "store results of any stride"
)
"""The same, if it was written call by call."""


def results(
    fusion: Fusion, arguments: Arguments, out: torch.Tensor | Sequence[torch.Tensor] | None
) -> list[torch.Tensor]:
    """A tensor for each result: uninitialised, or ``out``.

    Raises:
        InputError: ``out`` has other tensors than the results.
    """
    import torch

    if isinstance(out, torch.Tensor):
        out = [out]
    if out is not None and len(out) != len(fusion.outputs):
        outputs = len(fusion.outputs)
        text = f"out has {len(out)} tensors, the definition has {outputs} outputs"
        raise InputError(text, "out", str(len(out)), str(outputs))
    found = []
    for position, binding in enumerate(fusion.outputs):
        shape = result_shape(binding, arguments.extents)
        dtype = torch_dtype(binding.dtype)
        if out is None:
            found.append(new_result(fusion, binding, arguments.extents, arguments.device))
            continue
        given = out[position]
        if (list(given.shape), given.dtype, given.device) != (shape, dtype, arguments.device):
            argument, wanted = f"out[{position}]", f"{dtype} {shape} on {arguments.device}"
            is_now = f"{given.dtype} {list(given.shape)} on {given.device}"
            text = f"{argument} is {is_now}, the result is {wanted}"
            raise InputError(text, argument, is_now, wanted)
        found.append(given)
    return found


def add_outputs(
    fusion: Fusion,
    kernel: Kernel,
    vector: int,
    arguments: Arguments,
    outputs: Sequence[torch.Tensor],
    from_registers: str,
) -> None:
    """Enter the outputs' matrices among the arguments.

    Args:
        fusion: scheduled.
        kernel: what stores them.
        vector: columns that threads access at once where they write global memory.
        arguments: of the call, changed.
        outputs: as :func:`results` gives them.
        from_registers: what to do about those that TMA cannot store.

    Raises:
        UnsupportedError: the kernel cannot store one of them where it lies.
    """
    by_tma = {t.name for t in kernel.tensor_maps}
    for position, (binding, tensor) in enumerate(zip(fusion.outputs, outputs, strict=True)):
        what = f"output {position}"
        arguments.matrices[binding.tensor] = (
            matrix(fusion, binding, tensor, what, from_registers)
            if binding.tensor in by_tma
            else stored_matrix(fusion, binding, tensor, what, vector)
        )
