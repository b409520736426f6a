"""The passes of a summary's kernel, which has one role and neither rings nor products.

Requires: what ``lowering.summary`` makes. Guarantees: a final kernel. Only those passes of the
pipeline run that find something to do there.
"""

from __future__ import annotations

from lowering.ground.errors import InternalError
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import print_kernel
from lowering.kernel.verify import verify
from passes.allocate_named_barriers import allocate_named_barriers
from passes.allocate_shared import allocate_shared
from passes.options import LoweringOptions
from passes.pipeline import FINAL
from passes.reshape_pointwise import reshape_pointwise
from passes.simplify import simplify
from passes.wait_for_earlier_grids import wait_for_earlier_grids

__all__ = ["SUMMARY_PASSES", "lower_summary"]

SUMMARY_PASSES = (
    wait_for_earlier_grids, allocate_named_barriers, allocate_shared, reshape_pointwise, simplify,
)  # fmt: skip
"""In the order in which they run."""


def lower_summary(kernel: Kernel) -> Kernel:
    """The final kernel.

    Raises:
        ScheduleError: it needs more shared memory than a CTA has.
        InternalError: what a pass left is ill-formed; with the IR.
    """
    for run in SUMMARY_PASSES:
        kernel = run(kernel, LoweringOptions())
    if problems := verify(kernel, FINAL[kernel.target.arch]):
        raise InternalError("lower_summary", "; ".join(problems), print_kernel(kernel))
    return kernel
