"""The time line of a kernel that no GPU has run: the machine with a clock, at the model's costs.

The traced kernel is run, with zeros for data, and its stamps are decoded as a GPU's are, so that
what is predicted and what is measured have the same form. It is a single launch on a GPU that has
rested: what the power limit takes from a kernel that runs again and again is not in it. Beside a
recorded one it is predicted at the clock that the GPU had then. Groups, whose sizes only the device
knows, are all as long as each other here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lowering.ground.errors import UnsupportedError
from lowering.machine.blank import blank_arguments
from lowering.machine.run import run_kernel
from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from wsched.choose.cost_model import GHZ, terms_of
from wsched.choose.memory import L2_KEEPS, least_bytes
from wsched.choose.problem import Problem
from wsched.choose.step import stage_bytes
from wsched.front.sizes import Extents
from wsched.predict.activity import Lane, lanes
from wsched.predict.costs import Hopper, Rates
from wsched.predict.world import World, world_of
from wsched.run.compiled import CompiledFusion
from wsched.trace.overlay import Overlay, overlay
from wsched.trace.stamps import decode
from wsched.trace.timeline import Trace

__all__ = ["Predicted", "beside", "predicted", "rates_of"]


@dataclass(frozen=True, slots=True)
class Predicted:
    """A run that was not.

    Args:
        trace: what the kernel's stamps noted, in ns.
        lanes: what each warpgroup of the first CTA did and waited for, in cycles.
        cycles: until all was over.
        world: which CTAs were run.
    """

    trace: Trace
    lanes: tuple[Lane, ...]
    cycles: float
    world: World


def predicted(
    kernel: CompiledFusion,
    extents: Extents,
    problem: Problem,
    most: int | None = None,
    stamped: bool = False,
    ghz: float = GHZ,
) -> Predicted:
    """The time line of a kernel.

    Args:
        kernel: to be run.
        extents: sizes.
        problem: the same for the heuristics, with the device that it would run on.
        most: steps of k loops that are run of a CTA (:func:`wsched.predict.world.world_of`).
        stamped: whether stamps take their time: as the kernel runs that a GPU traces.
        ghz: clock of the SMs; that of the L2 and of memory is another one.

    Raises:
        UnsupportedError: another target than sm_90a, whose costs were measured; a run that is too
            long for the machine.
    """
    traced = kernel.traced.kernel
    _require(traced.target)
    world = world_of(kernel, extents, problem, most)
    arguments = blank_arguments(traced, world.extents, world.grid)
    if (groups := kernel.fusion.groups) is not None:
        whole, ends = world.extents[groups.along], arguments[groups.ends]
        ends[:] = [whole * n // len(ends) for n in range(1, len(ends) + 1)]
    found = run_kernel(
        traced, arguments, world.extents, world.grid,
        adversary=Hopper(traced, rates_of(kernel, problem, ghz), stamped), first_only=True,
        resident=world.resident,
    )  # fmt: skip
    steps = decode(traced, arguments[traced.traces[-1].name], on_machine=True)
    spans = (replace(s, begin=s.begin / ghz, end=s.end / ghz) for s in steps.spans)
    about = f"predicted at {ghz:.4g} GHz: {world.about}"
    trace = replace(steps, unit="ns", spans=tuple(spans), about=about, ghz=ghz)
    return Predicted(trace, lanes(found.stretches), found.cycles, world)


def beside(kernel: CompiledFusion, extents: Extents, problem: Problem, measured: Trace) -> Overlay:
    """What is predicted of a kernel beside a recorded launch of it, at the clock of that launch.

    Raises:
        UnsupportedError: as :func:`predicted`, or what was recorded is not of this kernel.
    """
    ghz = measured.ghz or GHZ
    return overlay(predicted(kernel, extents, problem, stamped=True, ghz=ghz).trace, measured)


def _require(target: Target) -> None:
    if target.arch != DEFAULT.arch:
        raise UnsupportedError(
            f"a time line for {target.arch}", f"{DEFAULT.arch}, which was measured"
        )


def rates_of(kernel: CompiledFusion, problem: Problem, ghz: float = GHZ) -> Rates:
    """What copies get: what the cost model has for a stage, and no more than this SM's part of what
    memory moves for all of them. It comes as fast at another clock of the SMs: in less cycles.

    What fits into the L2 is there: a kernel is run twice, and the second run is traced.
    """
    kept = least_bytes(problem) < L2_KEEPS * problem.l2_bytes
    rates = Rates.of_l2() if kept else Rates()
    params, faster = kernel.made_from, GHZ / ghz
    if params is None or not (params.warp_specialized and params.persistent):
        return replace(rates, fill=rates.fill * faster)
    computed = problem.exchanged if params.exchange_operands else problem
    terms, size = terms_of(problem, params), stage_bytes(computed, params.output_tile)
    cycles = terms.stream * GHZ * 1e3 / max(terms.rounds * terms.steps, 1)
    return replace(rates, fill=size / max(terms.step.fill, cycles) * faster)
