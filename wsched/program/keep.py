"""Results that a program keeps between calls, because what they are made of does not change.

A tensor is the same while it is the same object with the same memory and the same version, which
torch counts up with each write in place. Nothing notices a write past torch (by a kernel of
somebody's own, or through ``tensor.data``): who declares a constant promises that there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import ref

from lowering.ground.errors import ScheduleError
from wsched.importer.input_error import InputError
from wsched.program.program import Program
from wsched.program.text import print_program

if TYPE_CHECKING:
    import torch

__all__ = ["Keep", "Kept", "check_keep"]


@dataclass(frozen=True, slots=True)
class Keep:
    """What a program keeps.

    Args:
        constants: positions of the inputs that do not change.
        steps: so many of the first steps depend on these alone.
    """

    constants: tuple[int, ...]
    steps: int


def check_keep(program: Program, keep: Keep) -> None:
    """Refuse to keep what may change, or what a caller is given and may write into.

    Raises:
        ScheduleError: so it is; the rule is ``keep``.
    """
    known = {program.inputs[at] for at in keep.constants}
    first, others = program.steps[: keep.steps], program.steps[keep.steps :]
    for step in first:
        if unknown := [b.name for b in step.reads if b not in known]:
            raise _refused(program, str(step), f"it is kept, and {unknown[0]} is no constant")
        if any(b.at is not None for b in step.writes):
            raise _refused(program, str(step), "it is kept, and writes into other memory")
        known |= set(step.writes)
    for buffer in (b for step in others for b in step.writes):
        if buffer.memory in known:
            raise _refused(program, str(buffer), f"it lies at {buffer.memory}, which is kept")
    for buffer in program.outputs:
        if buffer in known:
            raise _refused(program, f"output {buffer}", "it is kept, and its reader may write it")


def _refused(program: Program, wrote: str, why: str) -> ScheduleError:
    return ScheduleError("keep", wrote, why, (), print_program(program))


@dataclass(frozen=True, slots=True)
class _Entry:
    """What was made of some tensors.

    Args:
        tensors: weak references; with the first one that dies the entry goes.
        state: their addresses and versions.
        memory: theirs, so that no other tensor can lie at these addresses.
        made: of them.
    """

    tensors: tuple[ref[Any], ...]
    state: tuple[tuple[int, int], ...]
    memory: tuple[Any, ...]
    made: tuple[Any, ...]


class Kept:
    """The kept steps of a program, and what they have made for each set of constants.

    Each stream has results of its own: nothing else orders their use behind their making. While a
    graph is captured the steps are captured, too: no replay could notice a new version.

    Args:
        keep: which constants.
        actions: the steps.
        device: where they run.
    """

    __slots__ = ("_actions", "_device", "_entries", "_places")

    def __init__(
        self, keep: Keep, actions: Sequence[Callable[[list[Any]], object]], device: torch.device
    ) -> None:
        self._places, self._actions, self._device = keep.constants, tuple(actions), device
        self._entries: dict[tuple[int, ...], _Entry] = {}

    def fill(self, values: list[Any]) -> None:
        """Add what the steps make to the inputs of a call.

        Raises:
            InputError: a constant of which torch counts no versions.
        """
        stream = 0
        if self._device.type == "cuda":
            import torch

            if torch.cuda.is_current_stream_capturing():
                return self._run(values)
            stream = torch.cuda.current_stream(self._device).cuda_stream
        given = [values[at] for at in self._places]
        key = (stream, *map(id, given))
        state = self._state(given)
        entry = self._entries.get(key)
        if entry is not None and entry.state == state:
            values.extend(entry.made)
            return None
        return self._make(key, state, given, values)

    def _state(self, given: Sequence[Any]) -> tuple[tuple[int, int], ...]:
        try:
            return tuple([(t.data_ptr(), t._version) for t in given])
        except RuntimeError:
            at = next(p for p, t in zip(self._places, given, strict=True) if t.is_inference())
        raise InputError(
            f"input {at} is a constant made in torch.inference_mode, where versions are not "
            "counted; make it outside, or declare it no constant",
            f"input {at}",
            "an inference tensor",
            "a tensor with a version",
        )

    def _make(
        self,
        key: tuple[int, ...],
        state: tuple[tuple[int, int], ...],
        given: Sequence[Any],
        values: list[Any],
    ) -> None:
        count, entries = len(values), self._entries

        def forget(_: ref[Any]) -> None:
            entries.pop(key, None)

        self._run(values)
        memory = tuple(t.untyped_storage() for t in given)
        made = tuple(values[count:])
        entries[key] = _Entry(tuple(ref(t, forget) for t in given), state, memory, made)

    def _run(self, values: list[Any]) -> None:
        """Run the steps. What torch records for gradients would keep the constants alive."""
        import torch

        with torch.no_grad():
            for act in self._actions:
                act(values)
