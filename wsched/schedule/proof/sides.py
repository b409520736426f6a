"""The two sides of an edge: what fills a circular buffer together, and the tensors that read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Expr, Special
from lowering.target.target import Target
from wsched.fusion import (
    CircularBuffer,
    Fusion,
    IterDomain,
    Merge,
    ParallelType,
    Pipelined,
    PrimitiveCall,
    TensorView,
    WarpSpecialized,
    inputs_of,
    nest_text,
    unmerge_index,
)
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.parts import Filled, Part, find_parts, part_of
from wsched.schedule.primitives.circular_buffer import stepping_loops
from wsched.schedule.proof.digits import load_digits
from wsched.schedule.proof.loading import sharing
from wsched.schedule.warpgroups import ROLES
from wsched.schedule.words import runs, words

__all__ = ["CTA_INDEX", "ROLES", "Readers", "Sides", "find_sides"]

CTA_INDEX = {
    ParallelType.BIDx: Special("ctaid.x"),
    ParallelType.BIDy: Special("ctaid.y"),
    ParallelType.BIDz: Special("ctaid.z"),
}
"""Index of the loops that run on CTAs."""

_LOAD_LOOP = ("merge", "circular_buffer")
_UNCALLED = "no circular_buffer"
_NO_LOADS = "no tensor is loaded by TMA: cache_after the operands of the mma"


IN_PLACE = CircularBuffer(stages=1, prefetch=0, type=Pipelined())
"""How what is in place is buffered: who reads it fills it, in the same trip."""


@dataclass(frozen=True, slots=True)
class Sides:
    """The two sides under examination.

    Args:
        fusion: the complete schedule.
        graph: its transform graph.
        target: the GPU that it is for.
        loads: the tensors of the ring that are read, at least one: loads, or what threads
            store.
        compute: the tensor that reads them.
        buffer: how they are circular-buffered, all alike.
        ring: all tensors that fill a stage together.
        parts: all parts of the fusion.
    """

    fusion: Fusion
    graph: TransformGraph
    target: Target
    loads: tuple[TensorView, ...]
    compute: TensorView
    buffer: CircularBuffer
    ring: tuple[TensorView, ...]
    parts: tuple[Part, ...]

    @property
    def alone(self) -> bool:
        """Whether what computes is one part."""
        return sum(not part.loads for part in self.parts) == 1

    @property
    def load_loops(self) -> tuple[IterDomain, ...]:
        """The serial loops of the first load tensor that step through stages: one of a load."""
        return stepping_loops(self.loads[0])

    def loaded_alike(self, d: IterDomain) -> bool:
        """Whether a loop of what computes is one of the loads' loops, run by the same."""
        mine = self.graph.group(d), d.parallel
        return any((self.graph.group(x), x.parallel) == mine for x in self.loads[0].loop)

    @property
    def load_loop(self) -> str:
        """What they count together: ``tile·k``; where there is none, the one step."""
        return "·".join(d.label for d in self.load_loops) or "step"

    @property
    def on_ctas(self) -> dict[Group, Expr]:
        """Index of the groups of the loads that run on CTAs, and of those merged into them."""
        found: dict[Group, Expr] = {}
        for d in self._ctas:
            found |= self._counted(d)
        return found

    def axis_of(self, group: Group) -> ParallelType | None:
        """The axis of the grid along which the loads count a group, if there is one."""
        return next((d.parallel for d in self._ctas if group in self._counted(d)), None)

    @property
    def _ctas(self) -> tuple[IterDomain, ...]:
        """The loads' loops on CTAs."""
        first = self.loads[0]
        return tuple(d for d in first.loop[: first.slice_position] if d.parallel in CTA_INDEX)

    def _counted(self, d: IterDomain) -> dict[Group, Expr]:
        """Index of the group of a loop on CTAs, and of those merged into it."""
        found: dict[Group, Expr] = {}
        pending: list[tuple[Group, Expr]] = [(self.graph.group(d), CTA_INDEX[d.parallel])]
        while pending:
            g, index = pending.pop()
            found[g] = index
            step = self.graph.producer(g)
            if step is not None and isinstance(step.transform, Merge):
                parts = unmerge_index(step.transform, index)
                pending += zip(step.inputs, parts, strict=True)
        return found

    def refuse(self, rule: str, why: str, legal: tuple[str, ...] = ()) -> ScheduleError:
        """The error, with both loop nests and what made the load loop; the caller raises it."""
        first, *_ = self.loads
        wrote = f"loads {', '.join(t.name for t in self.loads)}, compute {self.compute.name}"
        calls = [c for c in self.fusion.history if c.op in _LOAD_LOOP and c.args[0] == first.name]
        where = (nest_text(first), nest_text(self.compute), *_listed(calls))
        return ScheduleError(rule, wrote, why, legal, "\n".join(where))


@dataclass(frozen=True, slots=True)
class Readers:
    """What reads a ring in one part.

    Args:
        part: its place in the parts.
        sides: one for each tensor that reads, in topological order.
    """

    part: int
    sides: tuple[Sides, ...]

    @property
    def sums(self) -> bool:
        """Whether one of them is a sum."""
        return any(s.compute.sums for s in self.sides)


def find_sides(fusion: Fusion, graph: TransformGraph, target: Target) -> tuple[Readers, ...]:
    """What each part reads from each ring, from those that are read by a sum (an mma) first.

    Raises:
        ScheduleError: ``ring``, where a tensor that TMA loads is not buffered, or
            buffered otherwise than what fills a stage with it; ``load-loop``, where such tensors
            are not filled in the same loops; ``role``, where rings are filled by warps on
            different axes.
    """
    parts = find_parts(fusion)
    found = [
        r
        for part in parts
        for ring in part.rings
        for r in _readers(fusion, graph, target, parts, ring)
    ]
    if not any(r.sums for r in found):
        calls = [c for c in fusion.history if c.op == "circular_buffer"]
        wrote = f"circular_buffer of {', '.join(c.args[0] for c in calls)}" if calls else _UNCALLED
        raise ScheduleError("ring", wrote, _NO_LOADS, (), "\n".join(_listed(calls)))
    _check_axes([r.sides[0] for r in found])
    return tuple(sorted(found, key=lambda r: not r.sums))


def _check_axes(rings: Sequence[Sides]) -> None:
    """Warps that fill rings are counted on one axis, behind all that only read."""
    axes = [(s, s.buffer.type.on) for s in rings if isinstance(s.buffer.type, WarpSpecialized)]
    for sides, on in axes:
        first, wanted = axes[0]
        if on is not wanted:
            mine, others = (" and ".join(t.name for t in s.ring) for s in (sides, first))
            raise sides.refuse(
                "role",
                f"the warps that fill {mine} are specialized on {on}, those that fill {others} on "
                f"{wanted}: one axis counts the warps of a CTA",
                (f"WarpSpecialized(ParallelType.{wanted})",),
            )


def _listed(calls: Sequence[PrimitiveCall]) -> Iterator[str]:
    """The calls that a refusal is about, one a line."""
    if calls:
        yield "calls:"
        yield from (f"  {c}" for c in calls)


def _readers(
    fusion: Fusion,
    graph: TransformGraph,
    target: Target,
    parts: tuple[Part, ...],
    filled: Filled,
) -> Iterator[Readers]:
    """The parts that read a ring, with the tensors that do, in topological order."""
    ring = tuple(fusion.tensor(name) for name in filled.tensors)
    buffer = _buffer(fusion, ring)
    by_part: dict[int, list[Sides]] = {}
    for e in fusion.exprs:
        read = tuple(t for t in ring if t.name in inputs_of(e))
        if read:
            reader = fusion.tensor(e.output)
            sides = Sides(fusion, graph, target, read, reader, buffer, ring, parts)
            by_part.setdefault(part_of(parts, e.output), []).append(sides)
    for at, found in by_part.items():
        _check_alike(found[0])
        _check_shared(found[0])
        yield Readers(at, tuple(found))


def _buffer(fusion: Fusion, ring: tuple[TensorView, ...]) -> CircularBuffer:
    """How the tensors of a ring are circular-buffered, all alike."""
    if all(t.in_place for t in ring):
        return IN_PLACE
    bare = [t.name for t in ring if t.circular_buffer is None]
    buffers = [t.circular_buffer for t in ring if t.circular_buffer is not None]
    if bare:
        why = (
            f"{bare[0]} is not circular-buffered"
            if len(ring) == 1
            else f"every TMA cacheAfter tensor is circular-buffered; {', '.join(bare)} "
            f"{'is' if len(bare) == 1 else 'are'} not"
        )
        raise _refused(fusion, ring, why)
    if len(set(buffers)) != 1:
        why = "the operands of one mma are circular-buffered alike, these are not"
        b = buffers[0]
        call = PrimitiveCall("circular_buffer", (ring[-1].name, b.stages, b.prefetch, b.type))
        raise _refused(fusion, ring, why, (str(call),))
    return buffers[0]


def _refused(
    fusion: Fusion, ring: tuple[TensorView, ...], why: str, legal: tuple[str, ...] = ()
) -> ScheduleError:
    names = [t.name for t in ring]
    calls = [c for c in fusion.history if c.op == "circular_buffer" and c.args[0] in names]
    where = (*map(nest_text, ring), *_listed(calls))
    return ScheduleError("ring", f"loads {', '.join(names)}", why, legal, "\n".join(where))


def _check_alike(sides: Sides) -> None:
    """What fills a stage together does so in the same loops, on the same CTAs."""
    first, *others = sides.ring
    for t in others:
        if _filled(sides, t) != _filled(sides, first):
            left = (runs(sides.graph, x.loop[: x.slice_position]) for x in (first, t))
            mine, theirs = map(", ".join, words(sides.graph, *left))
            raise sides.refuse(
                "load-loop",
                f"{first.name} and {t.name} fill one stage together, but their loops left of the "
                f"stage differ: {mine} and {theirs}",
            )


def _check_shared(sides: Sides) -> None:
    """Warpgroups whose threads load fill a stage together: all that they load is shared alike."""
    threads = [t for t in sides.ring if t.name in sides.fusion.loaded_by_threads]
    for t in threads:
        if any(n == 0 for _, n in sharing(t)):
            why = f"the number of warpgroups that load {t.name} is no constant"
            raise sides.refuse("role", why)
        if sharing(t) != sharing(threads[0]):
            said = " and ".join(
                f"{x.name} by {' x '.join(f'{n} [{axis}]' for axis, n in sharing(x)) or '1'}"
                for x in (threads[0], t)
            )
            raise sides.refuse(
                "role",
                f"warpgroups fill a stage together, but load {said}",
                ("share out the rows of all that threads load to the same warpgroups",),
            )


def _filled(sides: Sides, t: TensorView) -> tuple[object, object]:
    """What the loops left of the stage count, slowest first, and those that are not serial.

    Merges are taken apart: in which order they were made makes no difference.
    """
    graph = sides.graph
    left = t.loop[: t.slice_position]
    loops = [graph.group(d) for d in stepping_loops(t)]
    counted, _ = load_digits(graph, loops, frozenset())
    beside = {(graph.group(d), d.parallel) for d in left if d.parallel is not ParallelType.Serial}
    return counted, beside
