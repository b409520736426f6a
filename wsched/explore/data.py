"""What a page shows, as plain data: the JSON that its script reads, a :class:`Book`.

``page/src/model.ts`` says the same to the compiler of the script; ``tools/write_page_types.py``
writes it from these classes.

Lines are counted from 0. A text of the kernel IR is a list of numbers of lines in
:attr:`Page.table`, because most lines are the same after each pass.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "Bar", "Barrier", "Book", "Choice", "Code", "Edge", "Film", "Flow", "Graph", "Lane", "Nest",
    "NestLine", "Node", "Otherwise", "Page", "Part", "Program", "Stage", "Step", "TimeLine", "Warp",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """A sub-DAG: what the same warps make.

    Args:
        title: its name with what it fills, as a dump has it.
        loads: whether nothing is computed in it.
    """

    title: str
    loads: bool


@dataclass(frozen=True, slots=True)
class Node:
    """A tensor, at its place in the drawing.

    Args:
        name: of the tensor.
        text: the name with memory and type.
        made: the expression that makes it; ``input`` of one that is given.
        loops: its loops, outermost first, with their parallel types.
        part: number of its sub-DAG.
        memory: ``global``, ``shared`` or ``registers``.
        column: place from the left, over all parts.
        row: place from above; what is made comes below what it is made from.
    """

    name: str
    text: str
    made: str
    loops: tuple[str, ...]
    part: int
    memory: str
    column: int
    row: int


@dataclass(frozen=True, slots=True)
class Edge:
    """A tensor that an expression reads.

    Args:
        source: it.
        target: what the expression makes.
        label: the operation.
        ring: the circular buffer that the edge is cut at; empty where it is not cut.
    """

    source: str
    target: str
    label: str
    ring: str


@dataclass(frozen=True, slots=True)
class Graph:
    """The fusion, cut into sub-DAGs.

    Args:
        parts: producers in front of consumers.
        nodes: in topological order.
        edges: of all expressions.
        relation: why the cut is legal, a line each.
    """

    parts: tuple[Part, ...]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    relation: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NestLine:
    """A loop or an expression of a nest.

    Args:
        depth: loops around it.
        text: as a dump has it.
        loop: its label; empty of an expression.
        tensors: those that it makes, or that are made in it.
        lines: by the text of the kernel (:attr:`Page.texts`) the lines that it became.
    """

    depth: int
    text: str
    loop: str
    tensors: tuple[str, ...]
    lines: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Nest:
    """The loops of a part; ``part`` is its number."""

    part: int
    lines: tuple[NestLine, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """The kernel after a pass.

    Args:
        name: of the pass; ``lower`` of the kernel in front of all.
        about: what the pass does, in a sentence.
        text: which of :attr:`Page.texts` came out.
    """

    name: str
    about: str
    text: int


@dataclass(frozen=True, slots=True)
class Code:
    """A text made of the final kernel.

    Args:
        language: ``CUDA``, ``PTX`` or ``SASS``.
        lines: of the text.
        origins: of each line the line that it was made from: of CUDA in the last text of the
            kernel, of PTX and SASS in CUDA; -1 of none.
        missing: why there is no text; empty where there is.
    """

    language: str
    lines: tuple[str, ...]
    origins: tuple[int, ...]
    missing: str


@dataclass(frozen=True, slots=True)
class Warp:
    """A warp of a film: its CTA, number there, role and warpgroup within the role."""

    cta: int
    warp: int
    role: str
    group: int


@dataclass(frozen=True, slots=True)
class Barrier:
    """A barrier of a film.

    Args:
        cta: where it lies.
        array: its name.
        index: place in the array: the stage, of a ring's.
        named: whether it is one of the hardware's named barriers, not an mbarrier in memory.
        ring: the circular buffer that it belongs to; empty of others.
        end: ``full`` or ``empty`` of a ring's; else empty.
    """

    cta: int
    array: str
    index: int
    named: bool
    ring: str
    end: str


@dataclass(frozen=True, slots=True)
class Film:
    """What the machine did, step by step.

    The state is a list of numbers, all 0 at first: of each warp those of :attr:`warp_fields`, then
    of each barrier those of :attr:`barrier_fields`. A frame is ``(what happened, who, place, value,
    place, value, ...)``: the number of a text, of a warp, and the numbers that are new.

    Args:
        adversary: when copies land and who runs next, as ``lowering.machine`` calls it.
        seed: of its choices.
        grid: CTAs of the run, of which the first cluster is shown.
        warps: of these CTAs.
        barriers: of these CTAs.
        warp_fields: ``line`` (of the last text of the kernel), ``wait`` and ``at`` (texts: what it
            waits for, values of the loops around), ``over`` (1 at its end), ``issued``, ``done``
            and ``seen`` (wgmmas: begun, finished, waited for), ``stores`` (TMA stores of which it
            has not seen the end).
        barrier_fields: ``phase`` (completed ones), ``pending`` (threads to arrive), ``missing``
            (bytes to land), ``announced`` (bytes of the phase), ``what`` (text: loops of what was
            last announced). Of a named barrier ``pending`` are threads that have arrived.
        texts: those that numbers stand for.
        frames: in the order in which they happened.
        cut: whether the film ends before the run does.
    """

    adversary: str
    seed: int
    grid: int
    warps: tuple[Warp, ...]
    barriers: tuple[Barrier, ...]
    warp_fields: tuple[str, ...]
    barrier_fields: tuple[str, ...]
    texts: tuple[str, ...]
    frames: tuple[tuple[int, ...], ...]
    cut: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of time: what happens, from when to when, in which tile of the CTA (-1: none)."""

    name: str
    begin: float
    end: float
    tile: int


@dataclass(frozen=True, slots=True)
class Lane:
    """Bars of one warpgroup; inner ones behind those around them."""

    title: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class TimeLine:
    """Who does what when; ``unit`` is that of all times, ``about`` says where they are from."""

    title: str
    unit: str
    about: str
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class Otherwise:
    """Another value of a parameter.

    Args:
        value: it.
        us: predicted microseconds of the kernel that has it; None where it is illegal.
        why: what costs more, or why it is illegal.
    """

    value: str
    us: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A parameter under nvFuser's name, its value, why, and what others would cost."""

    name: str
    value: str
    reason: str
    others: tuple[Otherwise, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """All that there is to see of one kernel.

    Args:
        title: the kernel in a line.
        facts: names and values: problem, kernel, device, resources.
        definition: what it is of, a text.
        graph: the fusion, cut.
        nests: loops of each part that has some.
        extents: of the loops, a line each.
        stages: the kernel after each pass.
        table: the lines of all texts of the kernel.
        texts: the kernel's, as numbers of lines.
        codes: CUDA, PTX and SASS.
        films: runs of the machine; empty where the problem is too large for it.
        unfilmed: why there is none; empty where there is one.
        times: predicted and measured.
        choices: the parameters.
        us: predicted microseconds of the kernel; None where the cost model does not describe it.
        ways: schedules that were not taken with predicted microseconds, best first.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    definition: str
    graph: Graph
    nests: tuple[Nest, ...]
    extents: tuple[str, ...]
    stages: tuple[Stage, ...]
    table: tuple[str, ...]
    texts: tuple[tuple[int, ...], ...]
    codes: tuple[Code, ...]
    films: tuple[Film, ...]
    unfilmed: str
    times: tuple[TimeLine, ...]
    choices: tuple[Choice, ...]
    us: float | None
    ways: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a definition that was cut, at its place in the drawing.

    Args:
        runs: who runs it: ``wsched``, ``nvfuser`` or ``torch``.
        title: its kernel, else its operations.
        lines: what else an explanation says of it.
        reads: names of tensors of the definition.
        writes: names of those that it makes for others.
        kernel: which of :attr:`Book.kernels`; -1 where there is none to look at.
        column: place from the left within the row.
        row: place from above; what reads a part's results comes below it.
    """

    runs: str
    title: str
    lines: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    kernel: int
    column: int
    row: int


@dataclass(frozen=True, slots=True)
class Flow:
    """A tensor that one step, by its number, makes and another reads."""

    source: int
    target: int
    tensor: str


@dataclass(frozen=True, slots=True)
class Program:
    """What a definition is cut into.

    Args:
        steps: in the order in which they run.
        flows: between them; what a caller gives and gets is in none.
        facts: names and values: how many kernels, why they are several, predicted times.
        definition: the text of the whole.
    """

    steps: tuple[Step, ...]
    flows: tuple[Flow, ...]
    facts: tuple[tuple[str, str], ...]
    definition: str


@dataclass(frozen=True, slots=True)
class Book:
    """All of it.

    Args:
        title: the definition in a line.
        program: how it is cut; None of a definition that is one kernel.
        kernels: those of the program, in the order in which they run, or the one.
        version: of wsched.
    """

    title: str
    program: Program | None
    kernels: tuple[Page, ...]
    version: str
