"""What a command plans a kernel with: parameters, the GPU and its multiprocessors."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.target.target import Target
from wsched.cli.check import multiprocessors, target_here
from wsched.cli.options import asked_params, asked_target
from wsched.front.schedule import Schedule
from wsched.front.sizes import Extents, kernel_for
from wsched.front.targets import planned_target
from wsched.importer import Definition
from wsched.run.compiled import CompiledFusion
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["AskedKernel", "asked_kernel"]


@dataclass(frozen=True, slots=True)
class AskedKernel:
    """A kernel as it was asked for.

    Args:
        params: a schedule in place of the heuristic's.
        planned: the GPU that it is for.
        sms: multiprocessors to plan for.
        own: whether it is that of a schedule, which has a target of its own.
    """

    params: MatmulParams | None
    planned: Target
    sms: int
    own: bool = False

    @property
    def target(self) -> Target | None:
        """What is said of the target beside a definition, nothing beside a schedule."""
        return None if self.own else self.planned

    @property
    def device(self) -> str:
        """The GPU in words."""
        return f"{self.planned.gpu} with {self.sms} multiprocessors"

    def kernel(self, definition: str | Definition | Schedule, extents: Extents) -> CompiledFusion:
        """The kernel of a definition; raises as :func:`~wsched.front.sizes.kernel_for`."""
        return kernel_for(definition, extents, self.sms, self.params, self.target)


def asked_kernel(
    definition: str | Schedule, params: str | None, target: str | None, sms: int | None = None
) -> AskedKernel:
    """What options of a command say: the target is that of a schedule or of parameters, else the
    one asked for, else that of the GPU that is here.

    Raises:
        InputError: a target or parameters beside a schedule, or parameters for another target.
        BadParameter: parameters or a target that are none.
    """
    given, asked = asked_params(params), asked_target(target)
    planned = planned_target(definition, given, asked, target_here())
    own = isinstance(definition, Schedule)
    return AskedKernel(given, planned, multiprocessors(sms, planned), own)
