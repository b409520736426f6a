"""Calls of functions that write definitions: tensors are checked, and a text is written, once for
a class of them.

Both take Python longer than all launches of a layer of experts, and until the first one the GPU has
nothing to do. What is found out in a first call depends on the tensors' class
(:func:`~wsched.program.classes.class_key`) and on arguments that are none: it holds for every call
that is alike in both, whose class then serves to find its route as well.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from lowering.ground.locks import Lock
from lowering.ground.recent import bounded
from wsched.front.api import execute, execute_class
from wsched.front.traced import is_compiling
from wsched.program.classes import Key, class_key

if TYPE_CHECKING:
    import torch

__all__ = ["Again"]

_KEPT = 256
"""Classes of which a function keeps texts."""


class Again:
    """The texts that one function has written; safe to use from threads."""

    def __init__(self) -> None:
        self._texts: dict[tuple[Key | None, Hashable], str] = {}
        self._lock = Lock()

    def call(
        self, given: Sequence[torch.Tensor], beside: Hashable
    ) -> Callable[[], list[torch.Tensor]] | None:
        """A call that needs no check but of values; None where none like it has been made, and for
        Dynamo, which traces what is checked and written.

        Args:
            given: what the definition would read, tensors or not.
            beside: all else that decides the text.
        """
        if is_compiling():
            return None
        key = class_key(given)
        text = self._texts.get((key, beside))
        return None if text is None else partial(execute_class, text, given, key)

    def first(
        self, text: str, inputs: Sequence[torch.Tensor], beside: Hashable
    ) -> list[torch.Tensor]:
        """A call on tensors that have been checked, by the text that was written for them."""
        results = execute(text, inputs)
        if not is_compiling() and (key := class_key(inputs)) is not None:
            with self._lock:
                bounded(self._texts, (key, beside), text, _KEPT)
        return results
