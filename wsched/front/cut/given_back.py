"""What a caller is given that no step of a program makes: an input, and a result a second time.

NvFuser gives an input that is listed as an output back as it is (its scheduler of what the host
evaluates treats it as an alias), so nothing is copied; a program's own results are each of memory
of its own, once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from wsched.importer import Definition
from wsched.program.classes import Key

if TYPE_CHECKING:
    import torch

__all__ = ["Run", "given_back", "made_by"]

Run = Callable[[Sequence[Any], Key | None], "list[torch.Tensor]"]
"""Runs a definition on its inputs of one class, by their class; None keeps nothing by it."""


def made_by(definition: Definition) -> tuple[str, ...]:
    """Names of what the caller is given that a program makes, each once."""
    made = {*definition.outputs}
    return tuple(name for name in dict.fromkeys(definition.returned) if name in made)


def given_back(definition: Definition, run: Run) -> Run:
    """A run whose results are what the caller is given.

    Args:
        definition: of the call.
        run: whose results are those of :func:`made_by`.
    """
    if definition.given_back is None:
        return run
    names = (*(n.results[0] for n in definition.inputs), *made_by(definition))
    places = tuple(map(names.index, definition.returned))

    def arranged(inputs: Sequence[Any], key: Key | None) -> list[torch.Tensor]:
        found = (*inputs, *run(inputs, key))
        return [found[at] for at in places]

    return arranged
