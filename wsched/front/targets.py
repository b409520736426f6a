"""A target, or a GPU, that is asked for beside what has one."""

from __future__ import annotations

from typing import Any

from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from wsched.choose.gpus import GPUS, Gpu
from wsched.importer.input_error import InputError
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.schedule import Schedule

__all__ = ["gpu_named", "planned_target", "refuse_choices", "refuse_target", "require_target"]


def planned_target(
    definition: Any,
    params: MatmulParams | None = None,
    asked: Target | None = None,
    here: Target = DEFAULT,
) -> Target:
    """What a kernel is made for: a schedule's or the parameters' target, else the one asked for,
    else the one that is ``here``.

    Raises:
        InputError: another one is asked for, or parameters beside a schedule.
    """
    if isinstance(definition, Schedule):
        refuse_choices(params, asked)
        return definition.target
    if params is not None:
        require_target(params, asked)
        return params.mma_macro.target
    return asked or here


def refuse_choices(params: MatmulParams | None, target: Target | None) -> None:
    """Refuse parameters and a target beside a schedule; raises InputError."""
    refuse_target(None if target is None else target.arch)
    if params is not None:
        text = "--params beside a schedule, which has made every choice itself"
        raise InputError(text, "params", type(params).__name__, "None")


def refuse_target(target: str | None) -> None:
    """Refuse a target beside a schedule, which has its own; raises InputError."""
    if target is not None:
        raise InputError(
            f"target={target!r} beside a schedule", "target", target, "none: it has one"
        )


def gpu_named(name: str) -> Gpu:
    """The GPU of this name.

    Raises:
        InputError: it is not known.
    """
    if name not in GPUS:
        text = f"gpu is {name!r}; known are {', '.join(GPUS)}"
        raise InputError(text, "gpu", str(name), ", ".join(GPUS))
    return GPUS[name]


def require_target(params: MatmulParams, asked: Target | None) -> None:
    """Refuse parameters for another GPU than the one that is asked for; raises InputError."""
    if asked is not None and asked.arch != params.mma_macro.target.arch:
        made = f"{params.mma_macro}, of {params.mma_macro.target.arch}"
        text = f"target={asked.arch!r} with params whose mma_macro is {made}"
        raise InputError(text, "target", asked.arch, params.mma_macro.target.arch)
