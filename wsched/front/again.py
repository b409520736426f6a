"""Calls of functions that write definitions: tensors are checked, and a text is written, once for
a class of them.

Both take Python longer than all launches of a layer of experts, and until the first one the GPU has
nothing to do. What is found out in a first call depends on the tensors' class
(:func:`~wsched.program.classes.class_key`) and on arguments that are none: it holds for every call
that is alike in both, whose class then serves to find its route as well. The latest classes are not
even written down again: torch is asked whether tensors are of one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from lowering.ground.locks import Lock
from lowering.ground.recent import bounded
from wsched.front.api import execute, remembered
from wsched.importer.watched import is_traced
from wsched.program.classes import Key, class_key, told_apart

if TYPE_CHECKING:
    import torch

__all__ = ["Again", "Run"]

_KEPT, _LATEST = 256, 4
"""Classes for which a function keeps what runs them, and those of which it asks torch."""

Run = Callable[[Sequence[Any]], "list[torch.Tensor]"]
"""Runs tensors of one class."""


Around = Callable[[Run], Run]


def _as_it_is(run: Run) -> Run:
    return run


@dataclass(frozen=True, slots=True)
class _Known:
    """A class, and what runs it.

    Args:
        beside: all else that decides the text.
        alike: whether tensors are of the class.
        run: runs them.
    """

    beside: Hashable
    alike: Callable[[Sequence[Any]], bool]
    run: Run


class Again:
    """What runs further calls of one function; safe to use from threads."""

    def __init__(self) -> None:
        self._runs: dict[tuple[Key | None, Hashable], Run] = {}
        self._latest: tuple[_Known, ...] = ()
        self._lock = Lock()

    def run(self, given: Sequence[torch.Tensor], beside: Hashable) -> Run | None:
        """What runs such tensors, once their values have been checked; None where no call like it
        has been made, and where somebody traces what is checked and written.

        Args:
            given: what the definition would read, tensors or not.
            beside: all else that decides the text.
        """
        if is_traced():
            return None
        for known in self._latest:
            if known.beside == beside and known.alike(given):
                return known.run
        try:
            return self._runs.get((class_key(given), beside))
        except TypeError:  # what has no hash is refused where it is checked
            return None

    def first(
        self, text: str, given: Sequence[torch.Tensor], beside: Hashable, around: Around = _as_it_is
    ) -> list[torch.Tensor]:
        """A call on tensors that have been checked, by the text that was written for them.

        Args:
            text: of the definition.
            given: the tensors, by whose class further calls are known.
            beside: all else that decides the text.
            around: makes what runs the tensors of what runs the text's inputs, whose class theirs
                decides; by default these are the same.
        """
        if is_traced():
            return around(partial(execute, text))(given)
        read: list[Sequence[Any]] = []

        def once(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
            read.append(inputs)
            return execute(text, inputs)

        results = around(once)(given)
        known, of = class_key(given), class_key(read[0])
        if known is not None and of is not None:
            run, alike = around(remembered(text, of)), told_apart(given)
            with self._lock:
                bounded(self._runs, (known, beside), run, _KEPT)
                if alike is not None:
                    latest = _Known(beside, alike, run)
                    self._latest = (latest, *self._latest[: _LATEST - 1])
        return results
