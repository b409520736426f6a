"""Whether wsched takes a definition on given inputs: it does where that is predicted to be faster.

What does not depend on inputs (the operations and their cuts) is found out once for a definition,
the rest once for each class of inputs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.locks import Lock
from lowering.ground.recent import bounded
from lowering.target.targets import DEFAULT, target_of_device
from wsched.choose.nvfuser_cost import NvfuserCost
from wsched.doors.dropin.ledger import Tally
from wsched.front.cut.choose import translated
from wsched.front.cut.cpu_numbers import given_numbers
from wsched.front.cut.epilogues import Take
from wsched.front.cut.graph import Graph
from wsched.front.cut.infer import infer
from wsched.front.cut.predict import Call, SegmentsCost
from wsched.front.cut.program import Run
from wsched.front.cut.segments import Cutter, Segment
from wsched.front.cut.shares import Share, cut_shares, shares
from wsched.front.cut.sizes import bind_extents
from wsched.front.cut.verdict import verdict
from wsched.front.tf32 import torch_allows_tf32
from wsched.importer import Definition, definition_of, refuse_unfinished
from wsched.importer.input_error import InputError
from wsched.importer.ops import PRODUCTS
from wsched.importer.tf32 import as_tf32, tf32_inputs
from wsched.importer.title import title_of

if TYPE_CHECKING:
    import torch

__all__ = ["Decision", "Known", "decide", "decision_of", "known_of", "runs_on"]

_OWN_MATMULS = ("fuse_matmul",), ("matmul_expr_eval",)
"""What ``NVFUSER_ENABLE`` and ``NVFUSER_DISABLE`` name where nvFuser is asked for kernels of its
own for matmuls; then its route is another one, and wanted."""

_DEFINITIONS = 256
"""Definitions that are remembered."""

_reading = Lock()
_known: dict[Definition, Known] = {}


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a call.

    Args:
        reason: why nvFuser runs it all; empty if wsched takes a part.
        segments: in the order in which they run, if wsched takes a part.
        cost: predicted of them, or of the best that there is; None if it was not asked for.
        nvfuser: of nvFuser's own route.
        shares: its matmuls, in the order of the definition.
        cutter: what the segments are of, if wsched takes a part: the definition, or the same with
            factors behind products.
    """

    reason: str
    segments: tuple[Segment, ...] = ()
    cost: SegmentsCost | None = None
    nvfuser: NvfuserCost | None = None
    shares: tuple[Share, ...] = ()
    cutter: Cutter | None = None

    @property
    def taken(self) -> bool:
        """Whether wsched takes a part."""
        return not self.reason

    def __str__(self) -> str:
        if not self.taken:
            return "; ".join(filter(None, (f"nvFuser runs it: {self.reason}", self.predicted)))
        parts = "; ".join(f"{'wsched' if s.own else 'nvFuser'}: {_ops(s)}" for s in self.segments)
        return f"{parts}; {self.predicted}"

    @property
    def predicted(self) -> str:
        """The two predictions; empty if there was none."""
        if self.cost is None:
            return ""
        gpu, host = self.cost.gpu_us, self.cost.host_us
        own = f"{self.cost.us:.1f} us (GPU {gpu:.1f}, host {host:.1f})"
        return f"predicted {own}, nvFuser's route {self.nvfuser}"


def _ops(segment: Segment) -> str:
    return ", ".join(n.op for n in segment.definition.nodes if not n.op.startswith("define_"))


@dataclass(eq=False, slots=True)
class Known:
    """What is known of a definition, and what has been decided about its calls.

    Args:
        reason: why wsched never takes it; empty if it may.
        names: of its inputs.
        outputs: names of its results.
        cutter: the ways to cut it, which the prediction chooses from; None with a reason.
        sized: positions of the inputs that are operands of matmuls, whose shapes decide.
        left: those shapes, where nvFuser runs it all, and the calls with them.
        plans: how classes of inputs run that wsched takes, by
            :func:`wsched.program.classes.class_key`, and the calls.
        never: the calls of a definition with a reason.
        tf32: of the same with inputs as TF32; None where no input can be.
    """

    reason: str
    definition: Definition = field(default_factory=partial(Definition, (), ()))
    cutter: Cutter | None = None
    sized: tuple[int, ...] = ()
    left: dict[tuple[Any, ...], Tally] = field(default_factory=dict)
    plans: dict[Any, tuple[Run, Tally]] = field(default_factory=dict)
    never: Tally | None = None
    tf32: Known | None = None

    @property
    def now(self) -> Known:
        """What counts under torch's settings of this moment."""
        return self if self.tf32 is None or not torch_allows_tf32() else self.tf32

    def shapes(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The shapes that decide."""
        return tuple([inputs[i].shape for i in self.sized])

    @property
    def title(self) -> str:
        """A few words that tell it: its matmuls, and how much there is beside them."""
        return title_of(self.definition)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return tuple(n.results[0] for n in self.definition.inputs)


_NO_MATMUL = Known("no linear or matmul")


def known_of(fd: Any) -> Known:
    """What is known of a live definition.

    Raises:
        UnfinishedError: it cannot be read yet.
    """
    refuse_unfinished(fd)  # before nvFuser prints it, which would end the process
    try:
        text = repr(fd)
        if not any(f"fd.ops.{op}(" in text for op in PRODUCTS):
            return _NO_MATMUL
        definition = definition_of(fd)
    except (RuntimeError, InternalError, UnsupportedError, TypeError) as e:
        return Known((str(e) or type(e).__name__).splitlines()[0])
    with _reading:
        found = _known.get(definition)
        if found is None:
            found = _read(definition)
            if names := tf32_inputs(definition):
                found.tf32 = _read(as_tf32(definition, names))
            bounded(_known, definition, found, _DEFINITIONS)
    return found


def _read(definition: Definition) -> Known:
    try:
        cutter = Cutter(definition)
        cutter.all(Take.NONE)
    except UnsupportedError as e:
        return Known(str(e), definition)
    operands = {name for form in cutter.forms for name in _operands(form.graph)}
    names = [n.results[0] for n in definition.inputs]
    return Known("", definition, cutter, tuple(i for i, n in enumerate(names) if n in operands))


def _operands(graph: Graph) -> set[str]:
    """What matmuls multiply that needs nobody else, and what it is made of."""
    found = graph.reached(
        j for i in graph.matmuls for j in graph.operands(i) if j in graph.free or graph.is_given(j)
    )
    return {name for i in found for name in graph.nodes[i].results}


def decision_of(fd: Any, inputs: Sequence[Any]) -> Decision:
    """Which part of a call wsched would take, and what is predicted; nothing is run.

    Args:
        fd: a ``nvfuser_direct.FusionDefinition`` whose ``with`` block has ended.
        inputs: of ``fd.execute``.

    Raises:
        UnfinishedError: the ``with`` block has not ended.
        InputError: the inputs do not fit the definition.
    """
    return decide(known_of(fd).now, inputs)


def decide(known: Known, inputs: Sequence[Any], constants: Sequence[int] = ()) -> Decision:
    """Which part of a call wsched takes.

    Args:
        known: of the definition.
        inputs: of the call.
        constants: positions of the inputs that stay as they are from call to call.

    Raises:
        InputError: the inputs do not fit the definition.
    """
    if known.reason or known.cutter is None:
        return Decision(known.reason, shares=_left(known.definition, inputs, known.reason))
    for variable, words in zip(("NVFUSER_ENABLE", "NVFUSER_DISABLE"), _OWN_MATMULS, strict=True):
        asked = os.environ.get(variable, "")
        if any(word in asked for word in words):
            return Decision(f"{variable}={asked} asks for nvFuser's own matmuls")
    cutter, tensors = known.cutter, known.cutter.graph.types
    try:
        sizes = bind_extents(known.definition, tensors, inputs)
        if 0 in sizes.values():
            return Decision("a dimension of size 0")
        inputs = given_numbers(cutter.definition, inputs)
        given = dict(zip(known.names, inputs, strict=True))
        steady = frozenset(known.names[at] for at in constants)
        device = _device(inputs)
        call = Call(tensors, sizes, constants=steady, given=given, device=device)
        found = verdict(cutter, call)
    except UnsupportedError as e:
        return Decision(str(e), shares=_left(known.definition, inputs, str(e)))
    chosen, reason = found.chosen, found.reason
    plain = translated(chosen.call, chosen.cutter, chosen.plain)
    told = cut_shares(chosen.plain, chosen.cut, plain.sizes, reason)
    if reason:
        return Decision(reason, (), chosen.cost, found.nvfuser, told)
    return Decision("", chosen.cut.segments, chosen.cost, found.nvfuser, told, chosen.cutter)


def _left(definition: Definition, inputs: Sequence[Any], reason: str) -> tuple[Share, ...]:
    """The matmuls of a call that nvFuser runs; none where their sizes are not known."""
    try:
        tensors = infer(definition)
        sizes = bind_extents(definition, tensors, inputs, runs=False)
        return shares(definition, tensors, sizes, reason)
    except (UnsupportedError, InputError):
        return ()


def _device(inputs: Sequence[Any]) -> torch.device:
    """The device of all tensors, which wsched has kernels for."""
    import torch

    tensors = [t for t in inputs if not isinstance(t, bool | int | float)]
    if not all(type(t) in (torch.Tensor, torch.nn.Parameter) for t in tensors):
        raise UnsupportedError("an input of another type", "torch.Tensor and numbers")
    device: torch.device = tensors[0].device
    if not runs_on(device):
        raise UnsupportedError(f"running on {device}", DEFAULT.gpu)
    return device


def runs_on(device: torch.device) -> bool:
    """Whether a device's calls are taken unasked; those of a GPU on which no kernel has run are not
    (design/0039-tensor-memory.md).
    """
    import torch

    return target_of_device(torch, device) is DEFAULT
