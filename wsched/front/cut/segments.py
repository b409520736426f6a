"""A definition cut into segments: matmuls with their epilogues for wsched, the rest for others.

The order of execution is rest 0, kernel 1, rest 1, kernel 2, … where rest i is what depends on
kernel i and no later one. So every segment reads only what stands before it.

A value that crosses a cut is rounded to its own type, as nvFuser rounds products, around which it
cuts; a kernel rounds them at the same place (``wsched.importer.epilogue``). No cast is added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

from lowering.ground.errors import UnsupportedError
from wsched.front.cut.along_k import summands_of
from wsched.front.cut.asked import asked_of_inputs
from wsched.front.cut.beside import with_beside
from wsched.front.cut.commute import Commuted, Moves, commuted, moves_of
from wsched.front.cut.cpu_numbers import with_numbers
from wsched.front.cut.epilogues import Kernel, Take, kernel_of_matmul
from wsched.front.cut.flatten import Seen
from wsched.front.cut.graph import Graph
from wsched.front.cut.groups import groups_of
from wsched.front.cut.infer import infer
from wsched.front.cut.lifted import lifted
from wsched.front.cut.order import with_orders
from wsched.front.cut.part import kernel_part, part, views_of
from wsched.front.cut.parted import products_of_parts
from wsched.front.cut.repeats import without_repeats
from wsched.front.cut.squares import with_two_operands
from wsched.front.cut.squeezed import with_selects
from wsched.front.cut.sums import arranged
from wsched.front.cut.tensors import Tensors
from wsched.front.cut.together import Apart, apart
from wsched.front.cut.vectors import with_matrices
from wsched.front.cut.widened import with_casts_last
from wsched.front.look import Look
from wsched.fusion.sweep import Sweep
from wsched.importer import Definition, Node

__all__ = ["Cut", "Cutter", "Segment", "rest_segment"]


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a definition that is a definition itself.

    Args:
        definition: with the names of the whole; what other segments make is declared as an input.
        matmul: whether wsched makes a kernel of it with a matmul.
        looks: its inputs that are views.
        seen: the results that the kernel makes in another shape, with their extents there.
        summary: whether it is a summary, of which wsched makes a kernel. What is neither is for
            others.
        kept: whether it reads constants alone, so that what others make of it stays.
        views: its results, where each is a view of what another segment makes: nobody computes it.
        sweep: what it is as a sweep, of which wsched makes a kernel; the inputs' views and the
            results' shapes as those of a matmul.
        join: of a ``cat`` that nobody computes, for each of its parts whether the kernel that makes
            it stores it there; others are copied.
    """

    definition: Definition
    matmul: bool
    looks: tuple[Look, ...] = ()
    seen: Seen = ()
    summary: bool = False
    kept: bool = False
    views: tuple[Look, ...] = ()
    sweep: Sweep | None = None
    join: tuple[bool, ...] = ()

    @property
    def own(self) -> bool:
        """Whether wsched runs it."""
        made = self.matmul or self.summary or self.sweep is not None
        return made or bool(self.views or self.join)

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of what a ``cat`` puts together, in order."""
        return tuple(n for node in self.definition.nodes if node.op == "cat" for n in node.refs)

    @property
    def copied(self) -> tuple[str, ...]:
        """Of these, what no kernel stores where it belongs."""
        pairs = zip(self.parts, self.join, strict=False)
        return tuple(n for n, stored in pairs if not stored)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of what it reads, in the order of its definition; of views what they are of."""
        sources = {look.name: look.source for look in self.looks}
        return tuple(sources.get(n, n) for n in self.reads)

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of what its definition reads."""
        return tuple(n.results[0] for n in self.definition.inputs)

    def is_plain(self, names: tuple[str, ...]) -> bool:
        """Whether it takes inputs of these names as they are, and makes results as they are."""
        return self.reads == names and not self.looks and not self.seen

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what it makes for others."""
        return self.definition.outputs


@dataclass(frozen=True, slots=True)
class Cut:
    """A way to cut a definition.

    Args:
        segments: in an order in which they can be executed.
        kernels: what became of each matmul, in the order of the definition: the kernel, which may
            be that of one before, or why wsched makes none.
        runs: the kernels, each once, in the order in which they run.
    """

    segments: tuple[Segment, ...]
    kernels: tuple[Kernel | UnsupportedError, ...]
    runs: tuple[Kernel, ...]


Kept = dict[tuple[Segment, frozenset[int], bool], tuple[Segment, ...]]
"""What rests have become where some of them is kept from call to call, by what of each is, and
whether tables are."""

_LEFT = UnsupportedError("a kernel that is predicted to be no faster", "what is")


@dataclass
class Cutter:
    """The ways to cut a definition. What is found out is kept.

    Args:
        definition: what is cut.
        commuted: what moved in it, if factors of operands have; each matmul that they follow gets a
            kernel with them, or the definition is not cut.
        plain: the ways without, if so.
        apart: what was put together in it, if its matmuls are of the parts.
        kept: what rests of its cuts have become where some of them is kept.
        summed: what they have become with summaries in front.

    Raises:
        UnsupportedError: by the constructor: no live matmul, or a definition that may not be cut.
    """

    definition: Definition
    commuted: Commuted | None = None
    plain: Cutter | None = None
    apart: Apart | None = None
    kept: Kept = field(default_factory=dict)
    summed: dict[Segment, tuple[Segment, ...]] = field(default_factory=dict)
    graph: Graph = field(init=False)
    _tensors: Tensors = field(init=False)
    _cuts: dict[tuple[Take, ...], Cut | UnsupportedError] = field(default_factory=dict)
    _beside: dict[tuple[Take, ...], Cut | None] = field(default_factory=dict)
    _kernels: dict[tuple[int, frozenset[int], Take], Kernel | UnsupportedError] = field(
        default_factory=dict
    )
    _made: dict[tuple[frozenset[int], tuple[str, ...], bool], Segment] = field(default_factory=dict)
    _with_moved: dict[tuple[Moves, ...], Cutter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        definition = self.definition.computed
        tensors = infer(definition)
        for written in (with_numbers, with_selects, without_repeats, asked_of_inputs):
            before, definition = definition, written(definition, tensors)
            tensors = tensors if definition is before else infer(definition)
        self.definition, self._tensors = definition, tensors
        definition = lifted(with_matrices(definition), tensors)
        if self.commuted is None:
            definition = with_casts_last(definition, tensors)
        definition = with_two_operands(definition)
        if self.commuted is None:  # else the one that factors moved in has been, and they stay
            definition = arranged(definition)
        types = tensors if definition is self.definition else infer(definition)
        self.graph = Graph(definition, with_orders(definition, types))
        self.graph.check()
        if not self.graph.matmuls:
            raise UnsupportedError("a definition whose results need no matmul", "linear or matmul")

    @cached_property
    def moves(self) -> tuple[Moves, ...]:
        """Operands whose factors may stand behind the product."""
        return self._moves_and_why[0]

    @cached_property
    def why_first(self) -> Mapping[int, str]:
        """Why factors of a matmul's operand may not, by its position; of some matmuls."""
        return self._moves_and_why[1]

    @cached_property
    def _moves_and_why(self) -> tuple[tuple[Moves, ...], dict[int, str]]:
        return ((), {}) if self.commuted is not None else moves_of(self.graph)

    def with_moved(self, moves: tuple[Moves, ...]) -> Cutter:
        """The ways to cut the definition with these factors behind the products.

        Raises:
            UnsupportedError: there are none.
        """
        if moves not in self._with_moved:
            made = commuted(self.graph, moves)
            self._with_moved[moves] = Cutter(made.definition, made, self, self.apart)
        return self._with_moved[moves]

    @cached_property
    def in_parts(self) -> Cutter | None:
        """The ways to cut the definition with products of which parts alone are read as products of
        parts; None where there is none, or that may not be cut.
        """
        if self.commuted is not None:
            return None
        made = products_of_parts(self.definition, self._tensors)
        with suppress(UnsupportedError):
            return None if made is self.definition else Cutter(made)
        return None

    @cached_property
    def put_apart(self) -> Cutter | None:
        """The ways to cut the definition with what it puts together taken apart around matmuls;
        None where there is no such form, or that may not be cut.
        """
        if self.commuted is not None or self.apart is not None:
            return None
        found = apart(self.definition, self._tensors)
        with suppress(UnsupportedError):
            return None if found is None else Cutter(found.definition, apart=found)
        return None

    @property
    def forms(self) -> tuple[Cutter, ...]:
        """The definition as it is, in parts, with what it puts together apart, and with both."""
        given = [form for form in (self, self.in_parts) if form is not None]
        return (*given, *(form for g in given if (form := g.put_apart) is not None))

    @property
    def matmuls(self) -> tuple[Node, ...]:
        """The matmuls that results depend on."""
        return tuple(self.graph.nodes[i] for i in self.graph.matmuls)

    def alone(self) -> tuple[Kernel | UnsupportedError, ...]:
        """For each matmul a kernel of it alone, or why there is none."""
        return tuple(self._kernel(i, frozenset(), Take.NONE) for i in self.graph.matmuls)

    def all(self, take: Take) -> Cut:
        """The cut in which each matmul takes the same; see :meth:`cut`."""
        return self.cut((take,) * len(self.graph.matmuls))

    def cut(self, takes: Sequence[Take]) -> Cut:
        """The segments where each matmul takes as much as is said.

        A matmul that wsched does not schedule is left; of an epilogue that it does not, as much as
        it does is taken.

        Args:
            takes: for each matmul.

        Raises:
            UnsupportedError: no matmul gets a kernel, or a rest that may not be cut off.
        """
        key = tuple(takes)
        if key not in self._cuts:
            try:
                self._cuts[key] = self._cut(key)
            except UnsupportedError as e:
                self._cuts[key] = UnsupportedError(e.what, e.supported, e.hint)
        found = self._cuts[key]
        if isinstance(found, UnsupportedError):
            raise UnsupportedError(found.what, found.supported, found.hint)
        return found

    def _cut(self, takes: tuple[Take, ...]) -> Cut:
        graph = self.graph
        kernels: list[Kernel | UnsupportedError] = []
        own: list[frozenset[int]] = []
        for matmul, take in zip(graph.matmuls, takes, strict=True):
            with_it = (k for k in kernels if isinstance(k, Kernel) and matmul in k.ops)
            if (with_other := next(with_it, None)) is not None:
                kernels.append(with_other)
                continue
            found = self._kernel(matmul, frozenset().union(*own), take)
            own += [found.ops] if isinstance(found, Kernel) else []
            kernels.append(found)
        self._check_scaled(kernels)
        self._check_summed(kernels)
        if not own:
            (*_, why) = (k for k in kernels if isinstance(k, UnsupportedError))
            raise UnsupportedError(why.what, why.supported, why.hint)
        runs = tuple(dict.fromkeys(k for k in kernels if isinstance(k, Kernel)))
        return Cut(self._segments(list(groups_of(graph, own))), tuple(kernels), runs)

    def beside(self, takes: Sequence[Take]) -> Cut | None:
        """A cut with what kernels can make beside their results; None where that is nothing.

        Args:
            takes: of a cut that there is.
        """
        key = tuple(takes)
        if key not in self._beside:
            self._beside[key] = self._with_beside(self.cut(key))
        return self._beside[key]

    def _with_beside(self, cut: Cut) -> Cut | None:
        more = with_beside(self.graph, [k.ops for k in cut.runs])
        wider = {k: replace(k, ops=ops) for k in cut.runs for ops in more if k.ops <= ops}
        if all(k == w for k, w in wider.items()):
            return None
        kernels = tuple(wider[k] if isinstance(k, Kernel) else k for k in cut.kernels)
        runs = sorted(wider.values(), key=lambda k: more.index(k.ops))
        try:
            segments = self._segments(list(groups_of(self.graph, list(more))))
        except UnsupportedError:  # a rest that may not be cut there
            return None
        return Cut(segments, kernels, tuple(runs))

    def _check_scaled(self, kernels: Sequence[Kernel | UnsupportedError]) -> None:
        """Refuse a product that would leave its kernel without its factors."""
        if self.commuted is None:
            return
        for node, found in zip(self.matmuls, kernels, strict=True):
            scaled = self.commuted.scaled.get(node.results[0])
            if scaled is None:
                continue
            if isinstance(found, UnsupportedError):
                raise UnsupportedError(found.what, found.supported, found.hint)
            if self.graph.home[scaled] not in found.ops:
                raise UnsupportedError(
                    "a product that is rounded before it is scaled",
                    "kernels that have the factors",
                    "" if found.why is None else str(found.why),
                )

    def _check_summed(self, kernels: Sequence[Kernel | UnsupportedError]) -> None:
        """Refuse a product along K whose summands would be rounded."""
        found = [k.ops for k in kernels if isinstance(k, Kernel)]
        for name in sorted(self.apart.summed if self.apart is not None else ()):
            both = {self.graph.home[n] for n in (name, *summands_of(name))}
            if not any(both <= ops for ops in found):
                what = f"{name}, a product along two tensors, in parts that are rounded"
                raise UnsupportedError(what, "one kernel of both")

    def _kernel(self, matmul: int, taken: frozenset[int], take: Take) -> Kernel | UnsupportedError:
        if take is Take.LEFT:
            return _LEFT
        key = matmul, taken, take
        if key not in self._kernels:
            self._kernels[key] = kernel_of_matmul(self.graph, matmul, taken, take)
        return self._kernels[key]

    def _segments(self, groups: list[tuple[frozenset[int], bool]]) -> tuple[Segment, ...]:
        graph, outputs = self.graph, self.definition.outputs
        needed, found = set(outputs), list[Segment]()
        for group, matmul in reversed(groups):
            made = graph.results(group, needed)
            if made:
                found.append(self._segment(group, made, matmul))
                needed |= set(found[-1].inputs)
        if len(found) == 1:  # with outputs in the caller's order
            return (self._segment(groups[0][0], outputs, matmul=True),)
        return tuple(found[::-1])

    def _segment(self, group: frozenset[int], outputs: tuple[str, ...], matmul: bool) -> Segment:
        """A group of operations, made once: cuts differ in a few of their segments only."""
        key = group, outputs, matmul
        if key not in self._made:
            self._made[key] = _segment(self.graph, *key)
        return self._made[key]


def rest_segment(graph: Graph, group: frozenset[int], outputs: tuple[str, ...]) -> Segment:
    """A group of operations that wsched makes no kernel of, with these outputs; raises as ``part``.

    Args:
        graph: what they are of.
        group: positions.
        outputs: names of what others need.
    """
    definition = part(graph, group, outputs, rest=True)
    return Segment(definition, matmul=False, views=views_of(graph, definition))


def _segment(
    graph: Graph, group: frozenset[int], outputs: tuple[str, ...], matmul: bool
) -> Segment:
    if not matmul:
        return rest_segment(graph, group, outputs)
    definition, looks, seen = kernel_part(graph, group, outputs)
    return Segment(definition, True, looks, seen)
