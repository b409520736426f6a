"""Why a kernel takes as long as it does: :func:`why`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import UnsupportedError
from lowering.target.target import Target
from lowering.target.targets import DEFAULT as TARGET
from wsched.choose.cost_model import cost as cost_of
from wsched.choose.cost_model import priced, slowed, terms_of
from wsched.choose.gpus import BOARD_WATTS
from wsched.choose.problem import Problem
from wsched.choose.tuned.lookup import lookup
from wsched.front.chosen import chosen_kernel
from wsched.front.explain import planned_cut
from wsched.front.known import import_fusion
from wsched.front.problems import problem_of
from wsched.front.schedule import Schedule
from wsched.front.sizes import Extents, extents_for
from wsched.front.targets import gpu_named, require_target
from wsched.fusion import Fusion
from wsched.losses.effects import losses_of
from wsched.losses.facts import LEAST, Facts, Mended
from wsched.losses.mends import mends_of
from wsched.losses.picture import draw
from wsched.losses.text import plain
from wsched.predict.line import beside, predicted
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.layout import laid_out
from wsched.schedule.matmul.params import MatmulParams
from wsched.trace.timeline import Trace

if TYPE_CHECKING:
    import torch

__all__ = ["LARGEST", "Why", "why", "why_of_parts"]

LARGEST = 3
"""Losses that are named with what would mend them."""

DEFAULT_GPU = "H200"
"""What is planned for where there is no GPU."""

STEPS = 256
"""Steps of k loops of a CTA that the machine runs to tell who waits for what."""


@dataclass(frozen=True, slots=True)
class Why(Facts):
    """Why a kernel takes as long as it does; printed, a text of 80 columns."""

    def draw(self, path: Path | str) -> None:
        """Draw the losses as a waterfall, from the roofline to what is predicted, as a PNG.

        Raises:
            UnsupportedError: matplotlib is not installed.
        """
        draw(self, Path(path))

    def __str__(self) -> str:
        return plain(self)


def why(
    definition: Any,
    problem: Sequence[torch.Tensor] | str | None = None,
    *,
    gpu: str | None = None,
    params: MatmulParams | None = None,
    measured: Trace | None = None,
) -> Why:
    """Why a definition's kernel takes as long as it does, by the cost model.

    On a GPU that the kernel is for it is compiled and launched twice, with clocks.

    Args:
        definition: a ``nvfuser_direct.FusionDefinition``, or the text that nvFuser prints for one.
        problem: tensors in the order of the definition, whose values are not read but on a GPU; or
            sizes, ``"4096x4096x4096"``; by default those that the definition says.
        gpu: the GPU to plan for, ``H200``, ``H200 NVL``, ``H100`` or ``H100 PCIe``; by default the
            one on which the tensors are, else an H200.
        params: a schedule in place of the heuristic's.
        measured: a time line of this kernel and problem, as ``k.trace`` returns it.

    Raises:
        InputError: the tensors do not fit the definition; a GPU that is not known, or that
            ``params`` are not for.
        ValueError: sizes that cannot be read.
        UnsupportedError: the definition is no single kernel (:func:`why_of_parts`), or the cost
            model does not describe its schedule; a target on which nothing was measured; a time
            line of another kernel.
        ScheduleError: ``params`` make an illegal schedule.
    """
    if isinstance(definition, Schedule):
        what = "why of a schedule that was written call by call"
        raise UnsupportedError(what, "definitions, with params or without")
    here = False
    if problem is None or isinstance(problem, str):
        fusion = import_fusion(definition)
        extents = extents_for(fusion, None if problem is None else Extents.parse(problem))
        posed = extents.problem(fusion)
    else:
        fusion = laid_out(import_fusion(definition), problem)
        posed, tensors = problem_of(fusion, problem), list[Any](problem)
        here = any(getattr(t, "is_cuda", False) for t in tensors)
        extents = Extents.of_problem(posed, fusion)
    if gpu is not None or not here:
        asked = gpu_named(gpu or DEFAULT_GPU)
        posed = posed.on(asked)
    if params is not None:
        require_target(params, posed.target)
    if params is None:
        kernel = chosen_kernel(fusion, posed, _of_described)
    else:
        kernel = _of_described(fusion, params)
    if here and gpu is None and measured is None and problem is not None:
        measured = kernel.trace(*problem)
    return _told(kernel, extents, posed, measured)


def why_of_parts(definition: Any, *, gpu: str | None = None) -> tuple[Why, ...]:
    """Why of each kernel of a matmul in a definition that is cut, in the order in which they run.

    Args:
        definition: as for :func:`why`, with the sizes that it says; of those that it leaves open
            :data:`~wsched.front.cut.sizes.OPEN`.
        gpu: as there.

    Raises:
        UnsupportedError: it may not be cut, or no matmul has a kernel.
    """
    asked = gpu_named(gpu or DEFAULT_GPU)
    _require_measured(asked.target)
    found = []
    for part in planned_cut(definition, asked.sms).parts:
        if part.kernel is not None and part.problem is not None:
            posed = part.problem.on(asked)
            _described(part.kernel.params)
            extents = Extents.of_problem(posed, part.kernel.fusion)
            found.append(_told(part.kernel, extents, posed, None))
    return tuple(found)


def _of_described(fusion: Fusion, params: MatmulParams) -> CompiledFusion:
    return compile_fusion(fusion, _described(params))


def _described(params: MatmulParams) -> MatmulParams:
    """The same, if the cost model describes them."""
    _require_measured(params.mma_macro.target)
    if not (params.warp_specialized and params.persistent):
        what = "why of a schedule that is not warp-specialized and persistent"
        raise UnsupportedError(what, "what the cost model describes")
    return params


def _require_measured(target: Target) -> None:
    """Refuse a target on which nothing was measured."""
    if target.arch != TARGET.arch:
        what = f"{TARGET.arch}, whose times were measured"
        raise UnsupportedError(f"why on {target.arch}", what)


def _told(
    kernel: CompiledFusion, extents: Extents, problem: Problem, measured: Trace | None
) -> Why:
    if not problem.batch * problem.m * problem.n * problem.k:
        raise UnsupportedError(f"why of {extents}, which has no element", "M, N, K above 0")
    params = kernel.params
    roofline, losses = losses_of(problem, params)
    terms, cost = terms_of(problem, params), cost_of(problem, params)
    first = priced(terms)
    alone = first.us - terms.launch - first.combine_us - first.memory_us - first.power_us
    slower = slowed(alone, terms.moved, terms.energy, terms.sharp, terms.yields)
    named = (x for x in losses if x.us > LEAST * cost.us)
    largest = sorted(named, key=lambda x: -x.us)[:LARGEST]
    hit = lookup(problem)
    tuned = hit.entry.us if hit is not None and hit.entry.params.matches(params) else None
    waits, unknown = _waits(kernel, extents, problem)
    return Why(
        kernel=kernel.kernel.name,
        problem=str(extents),
        gpu=problem.gpu,
        sms=problem.sms,
        roofline=roofline,
        losses=losses,
        largest=tuple(
            Mended(x, mends_of(problem, params, x.effect))
            for x in largest
            if x.us > LEAST * cost.us
        ),
        cost=cost,
        tensor_share=roofline.flop.us * slower / cost.us,
        watts=BOARD_WATTS.get(problem.gpu),
        tuned_us=tuned,
        waits=waits,
        unknown=unknown,
        measured=None if measured is None else beside(kernel, extents, problem, measured),
    )


def _waits(
    kernel: CompiledFusion, extents: Extents, problem: Problem
) -> tuple[dict[str, dict[str, float]], str]:
    """Who waits for what, or why that is not known."""
    try:
        found = predicted(kernel, extents, problem, STEPS)
    except UnsupportedError as e:
        return {}, str(e)
    return {lane.name: lane.shares(found.cycles) for lane in found.lanes}, ""
