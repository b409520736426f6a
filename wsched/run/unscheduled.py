"""What summaries and sweeps do alike when they run: they look at inputs once for each class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wsched.importer.input_error import require_memory
from wsched.program.classes import Key, class_key
from wsched.program.memory import device_of
from wsched.program.prepare import Into
from wsched.run.host import BoundLaunch, HostPlan, Plans, Run, repeated, repeated_into
from wsched.run.overlap import require_disjoint
from wsched.run.results import require_like
from wsched.run.staged import Make, StagedPlan, staged

if TYPE_CHECKING:
    import torch

__all__ = ["Unscheduled"]


class Unscheduled(ABC):
    """A kernel without a schedule, for tensors of any sizes, on a GPU or on the machine."""

    def __init__(self) -> None:
        self._plans = Plans[Run]()

    def __call__(self, *inputs: Any, out: Any = None) -> list[torch.Tensor]:
        """Run on torch's current stream, or on the machine model if the tensors are on the CPU.

        Args:
            inputs: a tensor for each input, or a number for one without dimensions; a tensor that
                the kernel cannot read as it lies is copied.
            out: tensors to write the results to, in place of new ones.

        Raises:
            InputError: number, types or shapes of the tensors do not fit, or ``out`` lies where
                inputs do that are not read element by element.
            UnsupportedError: a device without this kernel's instructions, a result that lies so
                that the kernel cannot write it, or a CPU problem too large for the machine.
        """
        if out is not None:
            return self.bind(*inputs, out=out)()
        return self.call(inputs, class_key(inputs))

    def call(self, inputs: Sequence[Any], key: Key | None) -> list[torch.Tensor]:
        """A call whose caller knows the :func:`~wsched.program.classes.class_key`."""
        plan = self._plans.get(key)
        if plan is not None:
            return plan(inputs)
        outputs = self._results(inputs, device_of(inputs))
        plan = self._run(inputs, outputs)
        if key is not None and plan is not None:
            self._plans.add(key, plan)
        return outputs

    def _run(
        self, inputs: Sequence[Any], outputs: list[torch.Tensor]
    ) -> HostPlan | StagedPlan | None:
        """Run with results that are there; how calls like this one go on a GPU."""
        makes = self._makes(inputs, outputs)
        read = staged(inputs, makes)
        launch = self._pack(read, outputs)
        launch()
        if not outputs[0].is_cuda or self._holds(outputs):
            return None
        packed = HostPlan(self._pack, read, outputs, launch)
        return StagedPlan(packed, makes) if makes else packed

    def repeated(self) -> Callable[[Sequence[Any]], list[torch.Tensor]]:
        """A function for calls on inputs of one class, which it looks at in the first call only."""
        return repeated(self.call, self._plans)

    def packed(
        self, inputs: Sequence[Any], outputs: list[torch.Tensor]
    ) -> Callable[[], None] | None:
        """A launch for these tensors that knows addresses only; None where calls make more."""
        more = self._makes(inputs, outputs) or self._holds(outputs)
        return None if more else self._pack(inputs, outputs)

    def repeated_into(self) -> Into:
        """The same with results that are there. One may lie where an input lies that is read
        element by element, with the result's own elements at the same addresses.
        """

        def first(inputs: Sequence[Any], outputs: list[torch.Tensor]) -> Into | None:
            plan = self._run(inputs, outputs)
            return None if plan is None else plan.into

        return repeated_into(first)

    def bind(self, *inputs: Any, out: Any = None) -> BoundLaunch:
        """Check and pack a call for these very tensors; calling the result launches it.

        What the kernel cannot read as it lies is copied again by each launch. Arguments and errors
        as for a call.
        """
        outputs = (
            self._results(inputs, device_of(inputs)) if out is None else self._given(inputs, out)
        )
        makes = self._makes(inputs, outputs)
        launch = self._pack(staged(inputs, makes), outputs)
        if not makes:
            return BoundLaunch(launch, inputs, outputs)
        return BoundLaunch(lambda: self._pack(staged(inputs, makes), outputs)(), inputs, outputs)

    def _given(self, inputs: Sequence[Any], out: Any) -> list[torch.Tensor]:
        """The caller's tensors for the results, checked."""
        import torch

        outputs = [out] if isinstance(out, torch.Tensor) else list(out)
        wanted = [(list(t.shape), t.dtype) for t in self._results(inputs, torch.device("meta"))]
        require_memory(outputs)
        require_like(outputs, wanted, device_of(inputs))
        require_disjoint(inputs, outputs, self._in_place)
        return outputs

    def _in_place(self, place: int, position: int) -> bool:
        """Whether a result may be written over an input: each element is read where it is
        written.
        """
        return False

    def _holds(self, outputs: Sequence[torch.Tensor]) -> bool:
        """Whether a launch holds these results, since it copies them from memory of its own: it
        would keep both as long as it is kept.
        """
        return False

    @abstractmethod
    def _results(self, inputs: Sequence[Any], device: torch.device) -> list[torch.Tensor]:
        """New tensors for the results on a device; raises InputError where the inputs do not
        fit.
        """

    @abstractmethod
    def _makes(self, inputs: Sequence[Any], outputs: Sequence[torch.Tensor]) -> Mapping[int, Make]:
        """What calls on inputs like these make of them, by positions; raises as ``_results``."""

    @abstractmethod
    def _pack(
        self, read: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
    ) -> Callable[[], None]:
        """A function that runs the kernel on inputs as it reads them."""
