"""What is lost between the roofline and the time that is predicted, effect by effect.

The cost model is evaluated with no effect at all, then with one after the other: each loss is the
difference of two evaluations, and all of them are the gap. An effect that hides behind another one
costs what it adds to those in front of it, so the order counts; it is that in which work comes
about: how tiles are cut and dealt out, what a step takes, what stands beside the k loops, then what
all SMs share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from lowering.ground.frozen import replaced
from wsched.choose.cost_model import STREAM_K, Terms, cost, priced, terms_of
from wsched.choose.problem import ALIGNED, Problem
from wsched.choose.step import FLOPS_PER_CYCLE, Step
from wsched.losses.roofline import Roofline, roofline_of
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["EFFECTS", "Loss", "losses_of"]

EFFECTS = {
    "at a time": "tensor cores and memory work at a time, but not without waiting for each other",
    "edges": "tiles reach beyond the edges of the matrices, and multiply zeros there",
    "idle SMs": "tiles are no multiple of what SMs do in a round: in the last one some have none",
    "narrow products": "a wgmma of few columns takes as long as one of more",
    "barriers": "of a step, waited for while no wgmma runs",
    "shared memory": "wgmmas wait for what they read of shared memory",
    "computed operands": "threads compute an operand in front of the tensor cores",
    "promotion": "sums of few bits are added to those of all steps, while no wgmma runs",
    "copies": "the copy engine fills a stage more slowly than wgmmas use it up, or the first one",
    "row alignment": "rows begin within lines of the L2, so that more of these are fetched",
    "latency": "too few stages are on their way to hide how far the L2 is",
    "clusters": "CTAs of a cluster wait for each other",
    "loads by threads": "threads load operands where TMA cannot",
    "other steps": "CTAs are at other steps of their tiles, and meet at fewer operands in the L2",
    "hand-over": "one warpgroup's main loop begins behind the other's",
    "epilogue": "results are computed and stored while no wgmma of their CTA runs",
    "stores": "the copy engine stores results between the lines that it loads",
    "start": "until the kernel runs, and its prologue",
    "adding parts": "CTAs that share a tile add up what they have of it",
    "memory": "CTAs ask for bytes at other times than memory has them, or again",
    "power": "the power limit takes clock from the SMs",
    "siblings": "other kernels take of the groups what tiles of this one would pad more",
}
"""What costs time, in the order in which it is added, and what it is."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Time that an effect costs.

    Args:
        effect: a key of :data:`EFFECTS`.
        us: microseconds of the model with it, beyond those without it and all behind it.
    """

    effect: str
    us: float

    @property
    def about(self) -> str:
        """What the effect is."""
        return EFFECTS[self.effect]


def losses_of(problem: Problem, params: MatmulParams) -> tuple[Roofline, tuple[Loss, ...]]:
    """The roofline, and all losses in the order of :data:`EFFECTS`, those of nothing too; together
    they are what the cost model predicts. Of kernels that share groups out they are those of the
    first if it took all, and what the others save.

    Args:
        problem: which.
        params: a schedule that the cost model describes, persistent and warp-specialized.
    """
    real = terms_of(problem, params)
    roofline = roofline_of(problem, params, real)
    found, before = [], roofline.us
    for effect, terms in _levels(problem, params, real, roofline):
        us = priced(terms).us
        found.append(Loss(effect, us - before))
        before = us
    if params.siblings:
        found.append(Loss("siblings", cost(problem, params).us - before))
    return roofline, tuple(found)


def _levels(
    problem: Problem, params: MatmulParams, real: Terms, roofline: Roofline
) -> Iterator[tuple[str, Terms]]:
    """What the time is made of, with one effect more each time; the last is all of it."""
    terms = _without(problem, params, real, roofline)
    step = real.step
    aligned = terms_of(replaced(problem, align_a=ALIGNED, align_b=ALIGNED), params).step.fill
    whole = roofline.flop.amount / roofline.flop.least * terms.rounds
    effects: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
        ("at a time", {}, {}),
        ("edges", {"rounds": whole}, {}),
        ("idle SMs", {"rounds": real.rounds}, {}),
        ("narrow products", {}, {"products": step.products}),
        ("barriers", {}, {"barriers": step.barriers}),
        ("shared memory", {}, {"smem": step.smem}),
        ("computed operands", {}, {"computing": step.computing}),
        ("promotion", {}, {"promoted": step.promoted}),
        ("copies", {}, {"fill": min(aligned, step.fill)}),
        ("row alignment", {}, {"fill": step.fill}),
        ("latency", {}, {"latency": step.latency, "held": step.held}),
        ("clusters", {"cluster": real.cluster}, {"far": step.far, "meeting": step.meeting}),
        ("loads by threads", {}, {"threads": step.threads}),
        ("other steps", {"steps": real.steps}, {}),
        ("hand-over", {"behind": real.behind}, {}),
        ("epilogue", {"ping_pong": real.ping_pong, "epilogue": real.epilogue}, {}),
        ("stores", {"stores": real.stores}, {}),
        ("start", {"start": real.start, "launch": real.launch}, {}),
        ("adding parts", {"combine": real.combine}, {}),
        ("memory", {"stream": real.stream, "moved": real.moved, "sharp": real.sharp}, {}),
        ("power", {"energy": real.energy, "yields": real.yields}, {}),
    )  # fmt: skip
    for effect, of_all, of_step in effects:
        terms = replace(terms, step=replace(terms.step, **of_step), **of_all)
        yield effect, terms


def _without(problem: Problem, params: MatmulParams, real: Terms, roofline: Roofline) -> Terms:
    """What the time would be made of without any effect: each SM has as many FLOP as the others, of
    which it never waits for anything, and memory is asked for everything once.
    """
    tile = params.output_tile
    flop = 2 * problem.products * tile.m * tile.n * tile.k * problem.operand.bytes / 2
    products = flop / FLOPS_PER_CYCLE
    steps = real.steps / (STREAM_K if params.stream_k else 1)
    cycles = roofline.flop.least / FLOPS_PER_CYCLE / problem.sms
    moved = roofline.memory.least / roofline.memory.rate
    step = Step(
        products=products, barriers=0.0, smem=0.0, computing=0.0, promoted=0.0, fill=0.0,
        latency=0.0, held=0.0, stages=real.step.stages, far=0.0, meeting=0.0, threads=0.0,
    )  # fmt: skip
    return Terms(
        rounds=cycles / (steps * products), steps=steps, step=step, behind=0.0, ping_pong=False,
        epilogue=0.0, stores=0.0, start=0.0, cluster=0.0, launch=0.0, combine=0.0, stream=moved,
        moved=moved, energy=0.0, tiles=real.tiles,
    )  # fmt: skip
