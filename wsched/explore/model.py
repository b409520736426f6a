"""The model of a page: everything that it shows of one kernel, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.errors import UnsupportedError
from lowering.machine.scheduler import Adversary
from wsched.choose.otherwise import Priced, alternatives
from wsched.choose.problem import Problem
from wsched.explore.code import codes_of
from wsched.explore.data import Choice, Film, Otherwise, Page, TimeLine
from wsched.explore.film import film_of
from wsched.explore.graph import graph_of
from wsched.explore.texts import texts_of
from wsched.explore.times import measured, predicted
from wsched.front.drawn import drawn_inputs, machine_arrays
from wsched.front.explain import explain_definition
from wsched.front.explanation import Explanation, KernelFacts
from wsched.front.schedule import Schedule
from wsched.front.sizes import Extents, kernel_for
from wsched.run.compiled import TRACED, CompiledFusion
from wsched.run.input_error import InputError
from wsched.schedule.loops import extent_lines
from wsched.schedule.matmul.params import MatmulParams
from wsched.trace.timeline import Trace
from wsched.version import __version__

__all__ = ["FILMS", "Asked", "page_of"]

FILMS: tuple[Adversary, ...] = ("random", "fair", "lazy")
"""Orders that are filmed: copies land at any time, at once, and as late as can be."""

SEED = 0
"""Of random inputs, and of the machine's choices."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a page is of.

    Args:
        definition: as nvFuser prints it, or a schedule.
        text: of the file that it is from.
        extents: the problem.
        sms: multiprocessors to plan for.
        device: how to call the GPU.
        params: a schedule in place of the heuristic's.
    """

    definition: str | Schedule
    text: str
    extents: Extents
    sms: int
    device: str
    params: MatmulParams | None = None


def page_of(asked: Asked, trace: Trace | None = None) -> Page:
    """The model of a page; runs the passes, the machine and, where it is there, NVRTC.

    Args:
        asked: of what.
        trace: a recorded run of this kernel, to be shown beside what is predicted.

    Raises:
        UnsupportedError: there is no single kernel for the definition.
        ScheduleError: parameters that make an illegal schedule.
        InputError: extents that the definition excludes, parameters beside a schedule, or the trace
            of another kernel.
    """
    compiled = kernel_for(asked.definition, asked.extents, asked.sms, asked.params)
    _require_same(compiled, trace)
    found = explain_definition(
        asked.definition,
        asked.device,
        lambda fusion: asked.extents.problem(fusion, asked.sms),
        asked.params,
        asked.sms,
    )
    facts, texts = found.kernel, texts_of(compiled)
    assert facts is not None  # there is a kernel
    problem = asked.extents.problem(compiled.fusion, asked.sms)
    films, unfilmed = _films(compiled, asked.extents)
    return Page(
        title=f"{facts.problem} on {asked.device}",
        facts=_facts(compiled, facts, found),
        definition=asked.text,
        graph=graph_of(compiled.plan),
        nests=texts.nests,
        extents=tuple(line.strip() for line in extent_lines(compiled.fusion)),
        stages=texts.stages,
        table=texts.table,
        texts=texts.texts,
        codes=codes_of(compiled),
        films=films,
        unfilmed=unfilmed,
        times=_times(compiled, facts, trace),
        choices=_choices(compiled, problem, facts, found),
        us=facts.predicted_us,
        ways=tuple(facts.others.items()),
        version=__version__,
    )


def _require_same(compiled: CompiledFusion, trace: Trace | None) -> None:
    """Refuse the trace of another kernel."""
    mine, its = compiled.kernel.name, "" if trace is None else trace.kernel.removesuffix(TRACED)
    if trace is not None and its != mine:
        text = f"the trace is of {its}, the page of {mine}: was it made with other options?"
        raise InputError(text, "trace", its, mine)


def _facts(
    compiled: CompiledFusion, facts: KernelFacts, found: Explanation
) -> tuple[tuple[str, str], ...]:
    """Names and values for the head of the page."""
    rows = [
        ("problem", facts.problem),
        ("kernel", facts.kernel),
        ("planned for", found.device),
        ("grid", f"{facts.grid} CTAs of {facts.threads} threads"),
        ("shared memory", f"{facts.shared_bytes} bytes of a CTA"),
    ]
    try:
        resources = compiled.resources
        spills = resources.spill_stores + resources.spill_loads
        rows.append(("registers", f"{resources.registers} a thread at entry, {spills} spilled"))
    except UnsupportedError as e:
        rows.append(("registers", str(e)))
    if facts.cost is not None:
        rows.append(("predicted", str(facts.cost)))
    if found.nvfuser is not None:
        rows.append(("nvFuser's route", f"predicted {found.nvfuser}"))
    return tuple(rows)


def _films(compiled: CompiledFusion, extents: Extents) -> tuple[tuple[Film, ...], str]:
    """A film in each order; none of a problem that the machine does not take, and why."""
    rings = [ring.name for ring in compiled.tile_level.rings]
    found = []
    try:
        inputs = drawn_inputs(compiled.fusion, extents, SEED)
        for adversary in FILMS:
            bound = machine_arrays(compiled, inputs)
            found.append(
                film_of(compiled.kernel, bound.arrays, bound.extents, rings, adversary, SEED)
            )
    except (UnsupportedError, InputError) as e:
        return (), str(e)
    return tuple(found), ""


def _times(
    compiled: CompiledFusion, facts: KernelFacts, trace: Trace | None
) -> tuple[TimeLine, ...]:
    found = []
    if facts.cost is not None:
        found.append(predicted(facts.cost, compiled.params.ping_pong))
    if trace is not None:
        found.append(measured(trace))
    return tuple(found)


def _choices(
    compiled: CompiledFusion, problem: Problem, facts: KernelFacts, found: Explanation
) -> tuple[Choice, ...]:
    """What was chosen and why, and beside it what other values would cost."""
    priced = {}
    if facts.cost is not None:
        priced = {p.name: p for p in alternatives(problem, compiled.params)}
    said = {c.name for c in found.choices}
    rows = [
        Choice(c.name, c.value, c.reason, _otherwise(priced.get(c.name))) for c in found.choices
    ]
    rows += [Choice(p.name, p.value, "", _otherwise(p)) for p in priced.values()
             if p.name not in said and p.others]  # fmt: skip
    return tuple(rows)


def _otherwise(priced: Priced | None) -> tuple[Otherwise, ...]:
    others = () if priced is None else priced.others
    return tuple(Otherwise(a.value, a.us, a.why) for a in others)
