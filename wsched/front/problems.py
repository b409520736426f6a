"""The problem that a call poses: its fusion as the operands lie in memory, extents and device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lowering.target.target import Target
from lowering.target.targets import DEFAULT, target_of_device
from wsched.choose.gpus import H200, H200_L2_BYTES, Gpu
from wsched.choose.problem import Problem
from wsched.front.known import import_fusion
from wsched.fusion import Fusion
from wsched.importer.input_error import require_sequence
from wsched.run.arguments import extents_of, reads_pairs, tma_inputs
from wsched.run.copies import operand_rows, thread_widths
from wsched.run.cpu import MULTIPROCESSORS
from wsched.run.layout import laid_out

if TYPE_CHECKING:
    import torch

__all__ = ["planned", "problem_of"]


def planned(definition: Any, inputs: Sequence[torch.Tensor]) -> tuple[Fusion, Problem]:
    """The fusion with the operands' order in memory, and what the heuristics plan for.

    Raises:
        InputError: the tensors do not fit the definition.
        UnsupportedError: a definition that wsched does not schedule.
    """
    require_sequence(inputs)
    fusion = laid_out(import_fusion(definition), inputs)
    return fusion, problem_of(fusion, inputs)


def problem_of(
    fusion: Fusion,
    inputs: Sequence[torch.Tensor],
    device: torch.device | None = None,
    *,
    batch_invariant: bool = False,
    target: Target | None = None,
) -> Problem:
    """What the heuristic plans for; on the inputs' device, unless that is given, and for its target
    unless another one is.
    """
    extents = extents_of(fusion, inputs)
    device = device or next(t.device for t in inputs if hasattr(t, "device"))
    gpu, here = Gpu(H200, MULTIPROCESSORS, H200_L2_BYTES), DEFAULT
    if device.type == "cuda":
        import torch

        gpu = Gpu.of(torch.cuda.get_device_properties(device))
        here = target_of_device(torch, device) or DEFAULT
    loaded = tma_inputs(fusion, inputs)
    pairs = reads_pairs(fusion, inputs, loaded is not None)
    aligned = operand_rows(fusion, inputs)
    problem = Problem.of(
        fusion, extents, gpu.sms, loaded, pairs, gpu.l2_bytes, gpu.name,
        batch_invariant=batch_invariant, aligned=aligned, target=target or here,
    )  # fmt: skip
    widths = thread_widths(fusion, inputs)
    return problem.with_threads(fusion, widths) if widths else problem
