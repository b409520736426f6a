"""A call as a sequence of segments: whose results go where, and what runs each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wsched.doors.dropin.segments import Segment
from wsched.doors.fallback import execute, rebuild
from wsched.front import api
from wsched.run.host import Key, class_key

if TYPE_CHECKING:
    import torch

    from wsched.run.compiled import CompiledFusion

__all__ = ["Execute", "Plan", "Run", "plan_of"]

Execute = Callable[..., "list[torch.Tensor]"]
"""``FusionDefinition.execute`` of nvFuser, as it was before anybody replaced it."""

Run = Callable[[Sequence[Any], Key], "list[torch.Tensor]"]
"""Runs a definition on its inputs, whose class is known."""


class _Kernel:
    """A segment that wsched runs; its kernel is compiled when the first tensors come."""

    __slots__ = ("_definition", "_kernel")

    def __init__(self, segment: Segment) -> None:
        self._definition = segment.definition
        self._kernel: CompiledFusion | None = None

    def __call__(self, inputs: Sequence[Any], key: Key | None = None) -> list[torch.Tensor]:
        if self._kernel is None:
            self._kernel = api.compile(self._definition, inputs)
        return self._kernel.call(inputs, class_key(inputs) if key is None else key)


class _Rest:
    """A segment that nvFuser runs, as a definition of its own."""

    __slots__ = ("_execute", "_fd")

    def __init__(self, segment: Segment, original: Execute) -> None:
        self._fd, self._execute = rebuild(segment.definition), original

    def __call__(self, inputs: Sequence[Any]) -> list[torch.Tensor]:
        return execute(self._fd, inputs, self._execute)


@dataclass(frozen=True, slots=True)
class _Step:
    """One segment of a plan.

    Args:
        run: takes the inputs of the segment and returns its results.
        reads: positions of its inputs among the values of the call.
        last: positions of what no later step reads; that memory is free for its followers.
    """

    run: Callable[[Sequence[Any]], list[torch.Tensor]]
    reads: tuple[int, ...]
    last: tuple[int, ...]


class Plan:
    """Calls of one definition on inputs of one class.

    The values of a call are its inputs, then the results of each step.

    Args:
        steps: in order.
        outputs: positions of the results of the definition.
    """

    __slots__ = ("outputs", "steps")

    def __init__(self, steps: Sequence[_Step], outputs: Sequence[int]) -> None:
        self.steps, self.outputs = tuple(steps), tuple(outputs)

    def __call__(self, inputs: Sequence[Any], key: Key) -> list[torch.Tensor]:
        """Run it on the current stream.

        Raises:
            UnsupportedError: a segment that does not run these inputs; none of them is changed.
        """
        values = list(inputs)
        for step in self.steps:
            values += step.run([values[i] for i in step.reads])
            for i in step.last:
                values[i] = None
        return [values[i] for i in self.outputs]


def plan_of(
    names: Sequence[str], segments: Sequence[Segment], outputs: Sequence[str], original: Execute
) -> Run:
    """How a definition runs.

    Args:
        names: of its inputs.
        segments: in an order in which they can run.
        outputs: names of its results.
        original: nvFuser's own ``execute``.

    Raises:
        UnsupportedError: nvFuser refuses to define a segment.
    """
    if len(segments) == 1 and segments[0].inputs == tuple(names):
        return _Kernel(segments[0])  # whose results are the definition's, in its order
    order = [*names, *(name for s in segments for name in s.outputs)]
    at = {name: i for i, name in enumerate(order)}
    last = {name: k for k, s in enumerate(segments) for name in s.inputs if name not in outputs}
    steps = []
    for k, segment in enumerate(segments):
        run: _Kernel | _Rest = _Kernel(segment) if segment.matmul else _Rest(segment, original)
        done = tuple(at[n] for n in segment.inputs if last.get(n) == k)
        steps.append(_Step(run, tuple(at[n] for n in segment.inputs), done))
    return Plan(steps, [at[n] for n in outputs])
