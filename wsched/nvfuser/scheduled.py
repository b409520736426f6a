"""nvFuser's own matmul scheduler and kernel, with the parameters that wsched chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import UnsupportedError
from wsched.doors.fallback.nvfuser import rebuild
from wsched.front.known import recorded
from wsched.front.problems import planned
from wsched.importer.input_error import InputError
from wsched.nvfuser.choice import choose_params
from wsched.nvfuser.limits import require_for
from wsched.nvfuser.params import Fields, to_fields, write_fields
from wsched.schedule.matmul.params import MatmulParams

if TYPE_CHECKING:
    import torch

__all__ = ["ScheduledByNvfuser", "live_params", "schedule", "to_nvfuser"]

OPERAND = 8
"""16-bit elements in 16 bytes: every operand that TMA can address."""


@dataclass(frozen=True, slots=True)
class ScheduledByNvfuser:
    """A definition that nvFuser's matmul scheduler has scheduled.

    Args:
        params: wsched's parameters.
        fields: what nvFuser was told.
        definition: nvFuser's, scheduled; a copy of the caller's.
        live: the ``nvfuser_direct.MatmulParams``.
        shapes: of the inputs that this schedule was made for; None for a number.
    """

    params: MatmulParams
    fields: Fields
    definition: Any
    live: Any
    shapes: tuple[tuple[int, ...] | None, ...]

    def execute(self, inputs: Sequence[Any]) -> list[torch.Tensor]:
        """Run nvFuser's kernel; the first call compiles it.

        Raises:
            InputError: shapes other than those that it was scheduled for, which may need another
                schedule (nvFuser's stmatrix, for one, wants multiples of 16).
            UnsupportedError: nvFuser cannot generate or compile the kernel.
        """
        found = _shapes(inputs)
        if found != self.shapes:
            text = f"inputs of shapes {found}, scheduled for {self.shapes}"
            raise InputError(text, "inputs", str(found), str(self.shapes))
        try:
            return list(self.definition.manual_execute(list(inputs), self.live))
        except RuntimeError as e:
            import torch

            if isinstance(e, torch.OutOfMemoryError) or "CUDA error" in str(e):
                raise
            raise _refused("this schedule", e) from e


def schedule(
    definition: Any, inputs: Sequence[Any], params: MatmulParams | None = None
) -> ScheduledByNvfuser:
    """Schedule a definition by nvFuser's matmul scheduler, with wsched's parameters.

    nvFuser's option ``fuse_matmul`` need not be on: it guards its choice of a scheduler only. The
    caller's definition stays as it is.

    Args:
        definition: a ``nvfuser_direct.FusionDefinition``, or the text that nvFuser prints for one.
        inputs: CUDA tensors and numbers in the order of the definition.
        params: a schedule of your own; by default wsched's choice for nvFuser's kernels.

    Raises:
        UnsupportedError: no definition of one matmul that wsched reads, parameters that nvFuser's
            scheduler cannot take, or nvFuser itself refuses.
        ScheduleError: more stages than fit into shared memory.
        InputError: the tensors do not fit the definition.
    """
    problem = planned(definition, inputs)[1]
    chosen = choose_params(problem) if params is None else params
    require_for(chosen, problem)
    fields = to_fields(chosen)
    copy = rebuild(recorded(definition))
    import nvfuser_direct as nvfuser

    try:
        live = live_params(nvfuser, chosen, fields)
        nvfuser.schedule.schedule(copy.fusion, nvfuser.SchedulerType.matmul, live)
    except RuntimeError as e:
        raise _refused("this schedule", e) from e
    return ScheduledByNvfuser(chosen, fields, copy, live, _shapes(inputs))


def to_nvfuser(params: MatmulParams) -> Any:
    """The ``nvfuser_direct.MatmulParams`` of wsched's parameters; it needs a device.

    Raises:
        UnsupportedError: nvFuser's Hopper scheduler cannot take them, or there is no device.
    """
    import nvfuser_direct

    fields = to_fields(params)
    try:
        return live_params(nvfuser_direct, params, fields)
    except RuntimeError as e:
        raise _refused("these parameters", e) from e


def live_params(nvfuser: Any, params: MatmulParams, fields: Fields) -> Any:
    """A ``nvfuser_direct.MatmulParams`` with the fields; it needs a device.

    What is no schedule is set as nvFuser's heuristic for matmuls does: ``supported_vec_size``, of
    which its Hopper scheduler reads only the epilogue's, and the compiler's option.
    """
    live = nvfuser.MatmulParams()
    write_fields(nvfuser, live, fields)
    vector = params.supported_vec_size.epilogue
    live.supported_vec_size = nvfuser.SupportedVectorization(OPERAND, OPERAND, vector)
    live.cparams.enable_magic_zero = False
    return live


def _shapes(inputs: Sequence[Any]) -> tuple[tuple[int, ...] | None, ...]:
    return tuple(tuple(t.shape) if hasattr(t, "shape") else None for t in inputs)


def _refused(what: str, e: Exception) -> UnsupportedError:
    import torch

    line = (str(e).strip() or type(e).__name__).splitlines()[0].strip()
    asked = "CUDA error" in line and not torch.cuda.is_available()
    hint = "nvFuser asks a CUDA GPU, and there is none here" if asked else ""
    what = f"{what} by nvFuser's matmul scheduler ({line})"
    return UnsupportedError(what, "what nvFuser takes", hint)
