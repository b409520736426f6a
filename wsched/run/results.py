"""The results of a call: new tensors, or the caller's, checked; and how the kernel sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import evaluate
from lowering.kernel.kernel import Kernel
from lowering.target.ptx import TMA_WRITES
from wsched.fusion import Fusion, TensorBinding
from wsched.importer.input_error import InputError, no_tensor, require_memory
from wsched.program.versions import require_unrecorded
from wsched.run.arguments import (
    Arguments,
    in_memory,
    matrix,
    torch_dtype,
)
from wsched.run.stored import stored_matrix
from wsched.run.wrong_ends import flag_of

if TYPE_CHECKING:
    import torch

__all__ = [
    "FROM_REGISTERS", "FROM_REGISTERS_BY_CALLS", "NTH_OUT", "add_outputs", "new_result",
    "require_like", "results",
]  # fmt: skip

FROM_REGISTERS = "use_smem_epilogue=False makes a kernel whose threads store results of any stride"
"""What to do about results that TMA cannot store, if parameters made the schedule."""

FROM_REGISTERS_BY_CALLS = (
    "Store the result with Set from registers, without the copy in shared memory: then threads "
    "store results of any stride"
)
"""The same, if it was written call by call."""

NTH_OUT = "out[{}]".format
"""What a result is called that a caller has given, by its place."""


def results(
    fusion: Fusion, arguments: Arguments, out: torch.Tensor | Sequence[torch.Tensor] | None
) -> list[torch.Tensor]:
    """A tensor for each result: uninitialised, or ``out``.

    Raises:
        InputError: ``out`` has other tensors than the results, or one that requires gradients.
    """
    import torch

    if out is None:
        return [
            new_result(fusion, binding, arguments.extents, arguments.device)
            for binding in fusion.outputs
        ]
    wanted = [
        (_result_shape(fusion, b, arguments.extents), torch_dtype(b.dtype)) for b in fusion.outputs
    ]
    if not isinstance(out, torch.Tensor | Sequence):
        raise no_tensor("out", out)
    outputs = [out] if isinstance(out, torch.Tensor) else list(out)
    require_like(outputs, wanted, arguments.device)
    require_memory(outputs)
    return outputs


def require_like(
    outputs: Sequence[torch.Tensor],
    wanted: Sequence[tuple[list[int], torch.dtype]],
    device: torch.device,
) -> None:
    """Check number, shapes, types and device of the tensors that a caller wants results in.

    Args:
        outputs: the caller's.
        wanted: shape and type of each result.
        device: where they have to be.

    Raises:
        InputError: ``outputs`` are other tensors, or one requires gradients while torch records.
    """
    if len(outputs) != len(wanted):
        text = f"out has {len(outputs)} tensors, the definition has {len(wanted)} outputs"
        raise InputError(text, "out", str(len(outputs)), str(len(wanted)))
    for position, (given, (shape, dtype)) in enumerate(zip(outputs, wanted, strict=True)):
        if not hasattr(given, "data_ptr"):
            raise no_tensor(f"out[{position}]", given)
        if (list(given.shape), given.dtype, given.device) != (shape, dtype, device):
            argument, result = f"out[{position}]", f"{dtype} {shape} on {device}"
            is_now = f"{given.dtype} {list(given.shape)} on {given.device}"
            text = f"{argument} is {is_now}, the result is {result}"
            raise InputError(text, argument, is_now, result)
    require_unrecorded(outputs, NTH_OUT)


def _result_shape(fusion: Fusion, binding: TensorBinding, extents: Mapping[str, int]) -> list[int]:
    """Shape of a result, or of its parts where a kernel stores these."""
    stored = {str(d.extent): d.extent for d in fusion.tensor(binding.tensor).stored}
    known = {"1": 1, **extents}
    return [known[a] if a in known else evaluate(stored[a], extents) for a in binding.extents]


def new_result(
    fusion: Fusion, binding: TensorBinding, extents: Mapping[str, int], device: torch.device
) -> torch.Tensor:
    """An uninitialised result, in memory as the fusion stores it."""
    import torch

    order = in_memory(fusion, binding)
    sizes = dict(zip(binding.axes, _result_shape(fusion, binding, extents), strict=True))
    result = torch.empty(
        [sizes[name] for name in order], dtype=torch_dtype(binding.dtype), device=device
    )
    return result.permute([order.index(name) for name in binding.axes])


def _stored_by_tma(
    fusion: Fusion, binding: TensorBinding, tensor: torch.Tensor, what: str, instead: str
) -> torch.Tensor:
    """An output as TMA stores it, which leaves nothing beside its rows alone but by whole
    :data:`~lowering.target.ptx.TMA_WRITES`.
    """
    found = matrix(fusion, binding, tensor, what, instead)
    length = found.shape[-1] * found.element_size()
    if length % TMA_WRITES and found.numel():
        raise UnsupportedError(
            f"{what} with rows of {length} bytes, behind which TMA stores zeros",
            f"rows of multiples of {TMA_WRITES} bytes",
            instead,
        )
    return found


def add_outputs(
    fusion: Fusion,
    kernel: Kernel,
    vector: int,
    arguments: Arguments,
    outputs: Sequence[torch.Tensor],
    from_registers: str,
) -> None:
    """Enter the outputs' matrices among the arguments, and what else is written.

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
    if fusion.groups is not None:
        arguments.matrices[fusion.groups.wrong] = flag_of(arguments.device)
    by_tma = {t.name for t in kernel.tensor_maps}
    for position, (binding, tensor) in enumerate(zip(fusion.outputs, outputs, strict=True)):
        what = f"output {position}"
        arguments.matrices[binding.key] = (
            _stored_by_tma(fusion, binding, tensor, what, from_registers)
            if binding.tensor in by_tma
            else stored_matrix(fusion, binding, tensor, what, vector)
        )
