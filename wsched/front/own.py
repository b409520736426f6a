"""Kernels of schedules that were written call by call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lowering.ground.errors import ScheduleError
from lowering.ground.locks import Lock
from lowering.target.target import Target
from wsched.fusion import Fusion, History, nest_text
from wsched.importer.input_error import InputError
from wsched.run.arguments import extents_of
from wsched.run.compiled import CompiledFusion, compile_plan
from wsched.run.kept import Kept
from wsched.run.kernel_name import schedule_name
from wsched.run.layout import laid_out
from wsched.schedule import properties
from wsched.schedule.options import KernelOptions
from wsched.schedule.schedule import Schedule

__all__ = ["compile_schedule", "kernel_of"]

_Key = tuple[Fusion, KernelOptions, Target, bool]
"""What tells kernels apart: the scheduled fusion without the calls that led there, the GPU, and
whether the kernel is due to be proved before it is launched.
"""

_making = Lock()
_kernels: Kept[_Key] = Kept()


def kernel_of(schedule: Schedule, proof: bool = True) -> CompiledFusion:
    """The kernel of exactly this schedule; made once. With ``proof`` it is proved before its first
    launch, unless the environment says otherwise.

    Raises:
        ScheduleError: it is illegal, or breaks a limit of the device.
        UnsupportedError: there is no lowering for it.
    """
    key = replace(schedule.fusion, history=History()), schedule.options, schedule.target, proof
    found = _kernels.get(key)
    if found is None:
        with _making:
            found = _kernels.get(key) or _kernels.add(key, _make(schedule, proof))
    return found


def _make(schedule: Schedule, proof: bool) -> CompiledFusion:
    name = schedule_name(schedule.fusion, schedule.options)
    return replace(compile_plan(schedule.plan(), schedule.options, name), written=proof)


def compile_schedule(
    schedule: Schedule,
    inputs: Sequence[Any],
    params: object = None,
    batch_invariant: bool = False,
    proof: bool = True,
) -> CompiledFusion:
    """The same, for a call.

    Args:
        schedule: of a whole definition.
        inputs: tensors in the order of the definition.
        params: refused, if there are any.
        batch_invariant: refuse a schedule whose results' rows depend on each other's number.
        proof: as there.

    Raises:
        InputError: the inputs do not fit the definition, or lie in memory otherwise than the
            schedule says; parameters beside a schedule.
        ScheduleError, UnsupportedError: as :func:`kernel_of`; or it is not batch-invariant.
    """
    if params is not None:
        text = "params beside a Schedule, which has made every choice itself"
        raise InputError(text, "params", type(params).__name__, "None")
    fusion = schedule.fusion
    extents_of(fusion, inputs)
    lies = laid_out(fusion, inputs)
    for position, binding in enumerate(fusion.inputs):
        found, said = (f.tensor(binding.tensor).in_memory for f in (lies, fusion))
        if found != said:
            argument = f"input {position}"
            text = (
                f"{argument} is contiguous along {found[-1].label}, the schedule reads it along "
                f"{said[-1].label}; wsched.Schedule(definition, inputs) makes one for these"
            )
            raise InputError(text, argument, found[-1].label, said[-1].label)
    kernel = kernel_of(schedule, proof)
    if batch_invariant and not properties.batch_invariant(kernel.plan):
        raise ScheduleError(
            "batch-invariant",
            "batch_invariant=True",
            "the order in which the schedule sums K depends on the number of CTAs or tiles",
            ("loops over K whose extents depend on K alone",),
            nest_text(fusion.tensor(schedule.acc)),
        )
    return kernel
