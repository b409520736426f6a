"""A run of a kernel with stamps, and the time line that they make."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowering.ground.expr import evaluate
from lowering.kernel.kernel import Kernel
from wsched.fusion import ParallelType
from wsched.run.arguments import Arguments
from wsched.run.cpu import grid_on_cpu, run_on_cpu
from wsched.schedule.plan import Plan
from wsched.trace.stamps import SLOTS, decode
from wsched.trace.timeline import Trace

if TYPE_CHECKING:
    from lowering.cuda.launch import LoadedKernel

__all__ = ["slots_of", "stamped_run"]


def stamped_run(kernel: Kernel, arguments: Arguments, loaded: LoadedKernel | None) -> Trace:
    """Run a traced kernel and read its trace buffer.

    On a GPU it runs twice and the second run is read: in the first one, code and tensor maps are
    fetched for the first time. On the machine every warp makes one step in turn.

    Args:
        kernel: a kernel with stamps.
        arguments: of the call, outputs included.
        loaded: the kernel on the GPU; None for the machine.
    """
    import torch

    extents, device = arguments.extents, arguments.device
    if loaded is None:
        grid = grid_on_cpu(kernel, extents)
    else:
        grid = evaluate(kernel.grid, extents | {"sms": loaded.resident_ctas(device.index)})
    buffer = kernel.traces[-1]
    shape = (kernel.ctas(grid, extents), kernel.threads // 32, 1 + buffer.slots, 2)
    stamps = torch.zeros(shape, dtype=torch.int64, device=device)
    matrices = arguments.matrices | {buffer.name: stamps}
    if grid and loaded is None:
        run_on_cpu(kernel, replace(arguments, matrices=matrices), adversary="fair")
    elif grid and loaded is not None:
        launch = loaded.prepare(matrices, extents, grid)
        for _ in range(2):
            launch()
    return decode(kernel, stamps.cpu().numpy(), on_machine=loaded is None)


def slots_of(plan: Plan) -> int:
    """How many stamps of a warp are kept: more where a CTA has several tiles, a serial loop around
    the accumulator.
    """
    acc = plan.fusion.tensor(plan.operands.compute)
    return SLOTS[any(d.parallel is ParallelType.Serial for d in acc.loop[: acc.compute_at])]
