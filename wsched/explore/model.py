"""The model of a page: everything that it shows of a definition's kernels, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from lowering.ground.errors import UnsupportedError
from lowering.ground.progress import doing
from lowering.machine.adversary import Order
from lowering.target.target import Target
from lowering.target.targets import DEFAULT as TARGET
from wsched.choose.otherwise import Priced, alternatives
from wsched.choose.problem import Problem
from wsched.explore.code import codes_of
from wsched.explore.data import Book, Choice, Film, Otherwise, Page, TimeLine
from wsched.explore.film import film_grid, film_of
from wsched.explore.graph import graph_of
from wsched.explore.program import program_of
from wsched.explore.texts import texts_of
from wsched.explore.times import measured, predicted
from wsched.front.choices import choices_of
from wsched.front.cut.sizes import OPEN
from wsched.front.drawn import drawn_inputs, machine_arrays
from wsched.front.explain import explain_definition, planned_cut
from wsched.front.explain_kernel import explain_kernel
from wsched.front.explanation import Explanation, KernelFacts
from wsched.front.known import import_fusion
from wsched.front.route import WSCHED, Part, Refusal
from wsched.front.schedule import Schedule
from wsched.front.sizes import Extents, extents_for, kernel_for
from wsched.fusion import Fusion
from wsched.importer.definition import definition_text
from wsched.importer.input_error import InputError
from wsched.run.compiled import CompiledFusion
from wsched.run.grid import Grid
from wsched.run.on_device import TRACED, OnDevice
from wsched.schedule.entries import with_sums
from wsched.schedule.loops import extent_lines
from wsched.schedule.matmul.params import MatmulParams
from wsched.trace.timeline import Trace
from wsched.version import __version__

__all__ = ["FILMS", "Asked", "book_of", "pages_of"]

FILMS: tuple[Order, ...] = ("random", "fair", "lazy")
"""Orders that are filmed: copies land at any time, at once, and as late as can be."""

MOST_ELEMENTS = 3 << 26
"""Of all tensors of a film: a GB of random numbers, those of 8192 x 8192 x 8192."""

SEED = 0
"""Of random inputs, and of the machine's choices."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a page is of.

    Args:
        definition: as nvFuser prints it, or a schedule.
        text: of the file that it is from.
        extents: the problem; None for what the definition says.
        sms: multiprocessors to plan for.
        device: how to call the GPU.
        params: a schedule in place of the heuristic's.
        target: of the GPU.
    """

    definition: str | Schedule
    text: str
    extents: Extents | None
    sms: int
    device: str
    params: MatmulParams | None = None
    target: Target = TARGET


def book_of(asked: Asked, trace: Trace | None = None) -> Book:
    """The model of a page; runs the passes, the machine and, where it is there, NVRTC.

    Args:
        asked: of what.
        trace: a recorded run of a kernel of it, to be shown beside what is predicted.

    Raises:
        UnsupportedError: no matmul of the definition has a kernel.
        ScheduleError: parameters that make an illegal schedule.
        InputError: extents that the definition excludes, parameters beside a schedule, or the trace
            of another kernel.
    """
    try:
        _fusion_of(asked.definition)
    except UnsupportedError as e:
        if asked.params is not None:
            raise
        return _cut_book(asked, trace, Refusal("one kernel", str(e)))
    pages = pages_of(asked, trace)
    return Book(pages[0].title, None, pages, __version__)


def pages_of(asked: Asked, trace: Trace | None = None) -> tuple[Page, ...]:
    """The models of what a page shows of a definition that is one kernel, as :func:`book_of`; of
    each one where several share the groups of a matmul out.

    Raises:
        UnsupportedError: there is no single kernel for the definition.
    """
    definition = asked.definition
    extents = extents_for(_fusion_of(definition), asked.extents)
    target = None if isinstance(definition, Schedule) else asked.target
    compiled = kernel_for(definition, extents, asked.sms, asked.params, target)
    _require_one_of([compiled], trace)
    found = explain_definition(
        definition,
        asked.device,
        lambda fusion: extents.problem(fusion, asked.sms, asked.target),
        asked.params,
        asked.sms,
        asked.target,
    )
    if found.kernel is None:
        why = next(r.reason for r in found.refusals if r.what == WSCHED)
        raise UnsupportedError(f"a page of {extents}", "sizes that have a kernel", why)
    problem = extents.problem(compiled.fusion, asked.sms, asked.target)
    return _pages(compiled, found, problem, extents, asked.text, trace)


def _fusion_of(definition: str | Schedule) -> Fusion:
    return definition.fusion if isinstance(definition, Schedule) else import_fusion(definition)


def _cut_book(asked: Asked, trace: Trace | None, why: Refusal) -> Book:
    """The pages of all kernels of a cut, each once, and the cut."""
    cut = planned_cut(asked.definition, asked.sms, asked.target)
    if asked.extents is not None:
        text = (
            f"a shape of {asked.extents} for a definition of several kernels: sizes are those that "
            f"it says, {OPEN} where it leaves them open"
        )
        raise InputError(text, "shape", str(asked.extents), "")
    _require_one_of([part.kernel for part in cut.parts if part.kernel is not None], trace)
    pages, numbers, kernels = list[Page](), dict[tuple[str, Problem], int](), list[int]()
    for part in cut.parts:
        if part.kernel is None or part.problem is None:
            kernels.append(-1)
            continue
        key = part.kernel.kernel.name, part.problem
        if key not in numbers:
            numbers[key] = len(pages)
            pages += _part_pages(part, part.kernel, part.problem, asked.device, trace)
        kernels.append(numbers[key])
    found = cut.explain(asked.device, (why,))
    program = program_of(cut.parts, found, kernels, asked.text)
    count = f"{len(pages)} kernel{'s' * (len(pages) > 1)}"
    return Book(f"{count} on {asked.device}", program, tuple(pages), __version__)


def _part_pages(
    part: Part, compiled: CompiledFusion, problem: Problem, device: str, trace: Trace | None
) -> tuple[Page, ...]:
    found = explain_kernel(compiled, problem, device, part.copied)
    extents = Extents.of_problem(problem, compiled.fusion)
    text = definition_text(part.definition)
    mine = trace if trace is not None and _is_of(compiled, trace) else None
    return _pages(compiled, found, problem, extents, text, mine)


def _pages(
    compiled: CompiledFusion,
    found: Explanation,
    problem: Problem,
    extents: Extents,
    definition: str,
    trace: Trace | None,
) -> tuple[Page, ...]:
    """A page for each kernel that is launched; what is said of all of them is on each."""
    facts, fusion, kernels = found.kernel, compiled.fusion, compiled.launched
    assert facts is not None  # there is a kernel
    pages = []
    for number, kernel in enumerate(kernels, 1):
        which = f"kernel {number} of {len(kernels)}" if len(kernels) > 1 else ""
        texts, (films, unfilmed) = texts_of(kernel), _films(kernel, extents)
        pages.append(
            Page(
                title=f"{facts.problem} on {found.device}{which and f', {which}'}",
                facts=_facts(compiled, kernel, facts, found, which),
                definition=definition,
                graph=graph_of(kernel.plan),
                nests=texts.nests,
                extents=tuple(s.strip() for s in extent_lines(fusion, kernel.plan.graph)),
                stages=texts.stages,
                table=texts.table,
                texts=texts.texts,
                codes=codes_of(kernel),
                films=films,
                unfilmed=unfilmed,
                times=_times(compiled, facts, trace),
                choices=_choices(compiled, problem, facts, found)
                if kernel is compiled
                else _of_sibling(kernel, problem),
                us=facts.predicted_us,
                ways=tuple(facts.others.items()),
            )
        )
    return tuple(pages)


def _is_of(compiled: CompiledFusion, trace: Trace) -> bool:
    return _names(trace) == [k.kernel.name for k in compiled.launched]


def _names(trace: Trace) -> list[str]:
    return [name.removesuffix(TRACED) for name in trace.kernels]


def _require_one_of(kernels: list[CompiledFusion], trace: Trace | None) -> None:
    """Refuse the trace of another kernel."""
    if trace is not None and not any(_is_of(kernel, trace) for kernel in kernels):
        its, mine = " and ".join(_names(trace)), ", ".join(k.kernel.name for k in kernels)
        text = f"the trace is of {its}, the page of {mine}: was it made with other options?"
        raise InputError(text, "trace", its, mine)


def _facts(
    compiled: CompiledFusion, kernel: OnDevice, facts: KernelFacts, found: Explanation, which: str
) -> tuple[tuple[str, str], ...]:
    """Names and values for the head of the page of one of the kernels."""
    rows = [
        ("problem", facts.problem),
        ("kernel", facts.kernel),
        ("planned for", found.device),
        ("grid", f"{facts.grid} CTAs of {facts.threads} threads"),
        ("shared memory", f"{facts.shared_bytes} bytes of a CTA"),
    ]
    if which:
        shown = f"{kernel.kernel.name}, {which} that share groups out"
        rows.append(("shown here", shown))
    rows += [("registers", _registers(grid)) for grid in compiled.grids]
    if facts.cost is not None:
        rows.append(("predicted", str(facts.cost)))
    if found.nvfuser is not None:
        rows.append(("nvFuser's route", f"predicted {found.nvfuser}"))
    return tuple(rows)


def _registers(grid: Grid) -> str:
    """What a thread of what is launched has."""
    try:
        resources = grid.resources
    except UnsupportedError as e:
        return str(e)
    return f"{resources.registers} a thread at entry, {resources.spilled} spilled"


def _films(compiled: OnDevice, extents: Extents) -> tuple[tuple[Film, ...], str]:
    """A film in each order; none of a problem that the machine does not take, and why."""
    rings = [ring.name for ring in compiled.tile_level.rings]
    found = []
    try:
        _require_room(compiled, extents)
        inputs = drawn_inputs(compiled.fusion, extents, SEED)
        for number, adversary in enumerate(FILMS, 1):
            bound = machine_arrays(compiled, inputs)
            with doing(f"film {number} of {len(FILMS)} ({adversary})"):
                found.append(
                    film_of(compiled.kernel, bound.arrays, bound.extents, rings, adversary, SEED)
                )
    except (UnsupportedError, InputError) as e:
        return (), str(e)
    return tuple(found), ""


def _require_room(compiled: OnDevice, extents: Extents) -> None:
    """Refuse a film before its tensors take memory.

    Raises:
        UnsupportedError: the problem is too large for the machine, or its tensors for a film.
    """
    fusion = compiled.fusion
    sizes = with_sums(fusion, extents.named(fusion))
    film_grid(compiled.kernel, sizes)
    bound = (*fusion.inputs, *fusion.outputs)
    elements = sum(prod(sizes.get(name, 1) for name in b.extents) for b in bound)
    if elements > MOST_ELEMENTS:
        what = f"a film of {extents}, whose tensors have {elements} elements,"
        raise UnsupportedError(what, f"at most {MOST_ELEMENTS}")


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


def _of_sibling(kernel: OnDevice, problem: Problem) -> tuple[Choice, ...]:
    """What a kernel that has a share of the groups is; nobody prices it alone."""
    fusion = kernel.fusion
    ctas = kernel.grid(with_sums(fusion, problem.extents(fusion)), problem.sms)
    told = choices_of(kernel, problem, "that it has a share of", ctas)
    return tuple(Choice(c.name, c.value, c.reason, ()) for c in told)


def _otherwise(priced: Priced | None) -> tuple[Otherwise, ...]:
    others = () if priced is None else priced.others
    return tuple(Otherwise(a.value, a.us, a.why) for a in others)
