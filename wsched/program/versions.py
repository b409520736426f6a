"""Writes into memory that a caller has given, which torch is told of as it knows of its own.

Torch counts the writes into a tensor: by that autograd finds that what it has saved is no longer
what it was, and a program that constants have changed (:mod:`wsched.program.keep`). It knows
nothing of what kernels write. Results that are new have no reader yet, and are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from wsched.importer.input_error import InputError
from wsched.program.program import Buffer, Program

if TYPE_CHECKING:
    import torch

__all__ = ["counter", "gradients_lost", "require_unrecorded", "taken", "written_inputs"]

Counter = Callable[[Iterable["torch.Tensor"]], None]


@cache
def counter() -> Counter:
    """What counts a write into each of several tensors, in one call. Inference tensors have no
    version, and are left alone.

    The public function does nothing more than to ask whether it is given one tensor, which takes
    0.5 us of its 0.85 (Python 3.12, 2026-12-01).
    """
    import torch

    public = torch.autograd.graph.increment_version
    found: Counter = getattr(torch._C, "_increment_version", public)
    return found


def require_unrecorded(tensors: Sequence[Any], argument: Callable[[int], str]) -> None:
    """Refuse to write into what torch differentiates by: nobody would know what has been written.
    Torch refuses results in such tensors, too, and takes them where it does not record.

    Args:
        tensors: what is to be written.
        argument: name of each, by its place.

    Raises:
        InputError: one requires gradients, and torch records.
    """
    if True in [t.requires_grad for t in tensors]:
        import torch

        if not torch.is_grad_enabled():
            return
        raise gradients_lost(argument(next(at for at, t in enumerate(tensors) if t.requires_grad)))


def gradients_lost(name: str) -> InputError:
    """What is raised of a tensor of that name which would be written and requires gradients."""
    text = (
        f"{name} requires gradients, and what is written into it has none; pass it detached, "
        "or call inside of torch.no_grad()"
    )
    return InputError(text, name, "requires_grad=True", "a tensor without, or torch.no_grad()")


def written_inputs(program: Program) -> Callable[[Sequence[Any]], list[Any]] | None:
    """What takes those of the inputs that a program writes into; None where it writes into none.

    It refuses them as :func:`require_unrecorded`.
    """
    places: dict[Buffer, int] = {b: at for at, b in enumerate(program.inputs)}
    memory = {b.memory for step in program.steps for b in step.writes}
    found = sorted(places[b] for b in memory if b in places)
    return partial(taken, found) if found else None


def taken(places: Sequence[int], inputs: Sequence[Any]) -> list[Any]:
    """The inputs at some places, which are to be written; refused as by
    :func:`require_unrecorded`.
    """
    tensors = [inputs[at] for at in places]
    require_unrecorded(tensors, lambda at: f"input {places[at]}")
    return tensors
