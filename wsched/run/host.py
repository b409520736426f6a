"""The way from a call to a launch in a few microseconds.

What a call costs beside the driver is checking, packing and allocating. Checks and packing depend
on the inputs' class (shapes, strides, types, device, alignment) and on addresses only, so both are
done once and found again by these; the outputs are allocated anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lowering.ground.locks import Lock
from lowering.ground.recent import bounded
from wsched.program.classes import Key, class_key
from wsched.program.memory import allocator
from wsched.program.prepare import Into
from wsched.program.versions import counter

if TYPE_CHECKING:
    import torch

__all__ = ["BoundLaunch", "HostPlan", "Plans", "Run", "repeated", "repeated_into"]

_LAUNCHES = 256
"""Sets of addresses for which a plan keeps a launch, about 1.5 KB each."""

_PLANS = 256
"""Classes for which plans are kept."""


class BoundLaunch:
    """A kernel with its tensors: calling it launches, and tells torch what has been written.

    It keeps the tensors alive. The same outputs are written by each call, and so is what lies
    between the kernels of one that launches several (parts of K, of reductions): calls belong on
    one stream at a time.

    Args:
        launch: launches on torch's current stream, or runs the machine model.
        inputs: what it reads.
        outputs: what it writes and a call returns.
    """

    __slots__ = ("_count", "inputs", "launch", "outputs")

    def __init__(
        self,
        launch: Callable[[], object],
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
    ) -> None:
        self.launch, self._count = launch, counter()
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)

    def __call__(self) -> list[torch.Tensor]:
        """Launch; the outputs in the order of ``add_output``."""
        self.launch()
        self._count(self.outputs)
        return [*self.outputs]


class HostPlan:
    """Calls of one kernel on CUDA inputs of one class.

    Args:
        pack: packs a launch for inputs and outputs of this class.
        inputs: of the first call.
        outputs: of the first call; they say what to allocate for the next ones.
        launch: of the first call.
    """

    __slots__ = ("_allocate", "_launches", "_lock", "_pack")

    def __init__(
        self,
        pack: Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], Callable[[], None]],
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        launch: Callable[[], None],
    ) -> None:
        self._pack = pack
        self._allocate = [allocator(t) for t in outputs]
        self._launches = {_addresses(inputs, outputs): launch}
        self._lock = Lock()

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Allocate the outputs and launch."""
        return self.into(inputs, [allocate() for allocate in self._allocate])

    def into(
        self, inputs: Sequence[torch.Tensor], outputs: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Launch with results that are there, which are returned."""
        key = _addresses(inputs, outputs)
        launch = self._launches.get(key)
        if launch is None:
            launch = self._pack(inputs, outputs)
            with self._lock:
                bounded(self._launches, key, launch, _LAUNCHES)
        launch()
        return outputs


def _addresses(inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> Key:
    return tuple([t.data_ptr() for t in (*inputs, *outputs)])


Run = Callable[[Sequence[Any]], "list[torch.Tensor]"]
"""Runs a kernel, and what has to run in front of it, on inputs of one class."""


P = TypeVar("P", Run, Into)


class Plans(Generic[P]):
    """What runs each class of inputs, or of inputs and results, the most recently made ones; safe
    to use from threads.
    """

    __slots__ = ("_lock", "_plans", "get")

    def __init__(self) -> None:
        self._plans: dict[Key | None, P] = {}
        self._lock = Lock()
        self.get: Callable[[Key | None], P | None] = self._plans.get

    def add(self, key: Key, plan: P) -> None:
        """Keep a plan."""
        with self._lock:
            bounded(self._plans, key, plan, _PLANS)


def repeated(
    call: Callable[[Sequence[Any], Key | None], list[torch.Tensor]], plans: Plans[Run]
) -> Run:
    """Calls on inputs of one class; from the second one on nobody looks which class that is.

    Args:
        call: runs inputs whose class is given.
        plans: where it keeps how the class runs, if it does.
    """
    plan: Run | None = None

    def run(inputs: Sequence[Any]) -> list[torch.Tensor]:
        nonlocal plan
        if plan is not None:
            return plan(inputs)
        key = class_key(inputs)
        results = call(inputs, key)
        plan = plans.get(key)
        return results

    return run


def repeated_into(call: Callable[[Sequence[Any], list[torch.Tensor]], Into | None]) -> Into:
    """Calls on inputs and results of one class each; nobody looks which from the second one on.

    Args:
        call: runs the kernel, and returns how further such calls run, None where it keeps nothing.
    """
    into: Into | None = None

    def run(inputs: Sequence[Any], outputs: list[torch.Tensor]) -> list[torch.Tensor]:
        nonlocal into
        if into is not None:
            return into(inputs, outputs)
        into = call(inputs, outputs)
        return outputs

    return run
