"""A target, or a GPU, that is asked for beside what has one."""

from __future__ import annotations

from lowering.target.target import Target
from wsched.choose.gpus import GPUS, Gpu
from wsched.run.input_error import InputError
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["gpu_named", "refuse_target", "require_target"]


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
