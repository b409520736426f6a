"""The route of a definition that is cut: wsched's kernels, and the rest by nvFuser or torch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import UnsupportedError
from lowering.target.targets import DEFAULT, target_of_device
from wsched.choose.gpus import Gpu
from wsched.doors.fallback import interpret, or_torch, unknown_ops
from wsched.front.cut.choose import Chosen, choose
from wsched.front.cut.cpu_numbers import given_numbers
from wsched.front.cut.predict import Call, Planned, Sizes, segment_us
from wsched.front.cut.program import make
from wsched.front.cut.segments import Cutter, Segment
from wsched.front.cut.sizes import bind_extents
from wsched.front.cut.tables import by_nvfuser
from wsched.front.route import CUT, NVFUSER, TORCH, WSCHED, Part, Refusal, Route
from wsched.importer import Definition
from wsched.program.memory import device_of
from wsched.program.prepare import Function
from wsched.run.compiled import CompiledFusion
from wsched.run.sweep import compiled_sweep

if TYPE_CHECKING:
    import torch

__all__ = ["by_torch", "call_of", "chosen_cut", "cut_route", "cutter_of", "part_of", "rest_by"]

_DEFINITIONS = 256
"""Definitions whose ways to be cut are remembered."""


def cutter_of(definition: Definition) -> Cutter:
    """The ways to cut a definition; found once.

    Raises:
        UnsupportedError: it may not be cut, or has no matmul.
    """
    found = _found(definition)
    if isinstance(found, UnsupportedError):
        raise UnsupportedError(found.what, found.supported, found.hint)
    return found


@lru_cache(_DEFINITIONS)
def _found(definition: Definition) -> Cutter | UnsupportedError:
    try:
        return Cutter(definition)
    except UnsupportedError as e:
        return UnsupportedError(e.what, e.supported, e.hint)


def chosen_cut(
    cutter: Cutter,
    inputs: Sequence[Any],
    gpu: Gpu | None = None,
    constants: Collection[int] = (),
) -> Chosen:
    """The cut for inputs that takes least, each matmul in a kernel that has one.

    Args:
        cutter: of the definition.
        inputs: of the call.
        gpu: what to plan for; by default the inputs' device.
        constants: positions of the inputs that stay as they are from call to call.

    Raises:
        InputError: the inputs do not fit the definition.
        UnsupportedError: it may not be cut, or no matmul has a kernel.
    """
    return choose(cutter, call_of(cutter, inputs, gpu, constants), may_leave=False)


def call_of(
    cutter: Cutter,
    inputs: Sequence[Any],
    gpu: Gpu | None = None,
    constants: Collection[int] = (),
) -> Call:
    """A call before it has been made; arguments and errors as :func:`chosen_cut`."""
    definition, tensors = cutter.definition, cutter.graph.types
    if not definition.reads_tensors:
        raise UnsupportedError("a definition that reads no tensor", "one of tensors, to run there")
    inputs = given_numbers(definition, inputs)
    sizes = bind_extents(definition, tensors, inputs, runs=gpu is None)
    if 0 in sizes.values():
        raise UnsupportedError("a dimension of size 0", "at least one element")
    names = [n.results[0] for n in definition.inputs]
    steady = frozenset(names[at] for at in constants)
    given, device = dict(zip(names, inputs, strict=True)), device_of(inputs)
    import torch

    target = target_of_device(torch, device) if gpu is None else gpu.target
    return Call(
        tensors,
        sizes,
        target=target or DEFAULT,
        constants=steady,
        given=given,
        device=device,
        gpu=gpu,
    )


def cut_route(
    definition: Definition,
    inputs: Sequence[Any],
    refusals: tuple[Refusal, ...],
    constants: Collection[int] = (),
) -> Route:
    """The route of a cut definition for inputs of one class; its kernels are compiled.

    Args:
        definition: as recorded.
        inputs: of the class.
        refusals: the routes before this one.
        constants: positions of the inputs that stay as they are from call to call.

    Raises:
        InputError: the inputs do not fit the definition.
        UnsupportedError: it may not be cut, no matmul has a kernel, or nobody
            takes the rest.
    """
    chosen = chosen_cut(cutter_of(definition), inputs, constants=constants)
    cutter, call = chosen.cutter, chosen.call
    runs: dict[tuple[str, ...], str] = {}

    def rest(segment: Segment, device: torch.device) -> Function:
        runs[segment.outputs], function = rest_by(segment, device)
        return function

    segments = chosen.cut.segments
    made = make(cutter.definition, cutter.graph.types, segments, inputs, rest)
    kernels, parts = iter(made.kernels), list[Part]()
    for segment in segments:
        if segment.matmul:
            p = call.planned(segment)
            parts.append(_own(segment, next(kernels), p))
        else:  # a summary that no kernel can take is for others in the end
            runner = runs.get(segment.outputs, WSCHED)
            parts.append(part_of(segment, runner, call, made.stored))
    return Route(
        CUT,
        lambda _, inputs: made.run(inputs, None),
        refusals=refusals,
        parts=tuple(parts),
    )


def part_of(
    segment: Segment, runs: str, call: Sizes, stored: Collection[str] | None = None
) -> Part:
    """A segment without a matmul's kernel.

    Args:
        segment: of a cut.
        runs: who runs it.
        call: what is asked for.
        stored: what kernels store as a part of something else, where they are made; by default what
            they are meant to.
    """
    said = joined = ""
    if segment.join:
        own = {*segment.parts} - {*segment.copied} if stored is None else stored
        told = [f"{n} {'stored' if n in own else 'copied'} there" for n in segment.parts]
        joined = f"nothing is put together: {', '.join(told)}"
    if segment.sweep is not None:
        cost = segment_us(segment, call)
        said = f"{compiled_sweep(segment.sweep).name}, predicted {cost.gpu_us:.1f} us"
    looks, kept = segment.looks, segment.kept
    return Part(runs, segment.definition, looks=looks, kept=kept, sweep=said, joined=joined)


def _own(segment: Segment, kernel: CompiledFusion, planned: Planned) -> Part:
    copied, looks = planned.copied, segment.looks
    return Part(WSCHED, segment.definition, kernel, planned.problem, copied, looks)


def rest_by(segment: Segment, device: torch.device) -> tuple[str, Function]:
    """Who runs a segment that is not wsched's, and how: nvFuser on a GPU, else torch.

    Args:
        segment: of a cut.
        device: where it runs.

    Raises:
        UnsupportedError: neither takes it.
    """
    definition, refused = segment.definition, ""
    if device.type == "cuda" and find_spec("nvfuser_direct") is not None:
        try:
            return NVFUSER, or_torch(definition, by_nvfuser(definition, device), device)
        except UnsupportedError as e:
            refused = f"nvFuser: {e}"
    return TORCH, by_torch(definition, device, refused)


def by_torch(definition: Definition, device: torch.device, refused: str = "") -> Function:
    """How torch runs a rest, on a device; ``refused`` is why nobody else does.

    Raises:
        UnsupportedError: torch does not have an operation.
    """
    if unknown := unknown_ops(definition):
        ops = ", ".join(f"fd.ops.{op}" for op in unknown)
        raise UnsupportedError(f"{ops} by torch", "operations that torch has", refused)
    return lambda values: interpret(definition, values, device)
