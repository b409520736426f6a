"""The two sides of an edge: what fills a circular buffer together, and the tensor that reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Expr, Special
from lowering.target.target import Target
from wsched.fusion import (
    CircularBuffer,
    Fusion,
    IterDomain,
    IterType,
    Merge,
    ParallelType,
    Record,
    TensorView,
    nest_text,
    unmerge_index,
)
from wsched.schedule.primitives.circular_buffer import serial_left_of_slice
from wsched.schedule.proof.digits import load_digits
from wsched.schedule.proof.graph import Group, TransformGraph
from wsched.schedule.proof.words import runs, words

__all__ = ["CTA_INDEX", "ROLES", "Sides", "find_sides"]

CTA_INDEX = {
    ParallelType.BIDx: Special("ctaid.x"),
    ParallelType.BIDy: Special("ctaid.y"),
    ParallelType.BIDz: Special("ctaid.z"),
}
"""Index of the loops that run on CTAs."""

ROLES = (ParallelType.TIDy, ParallelType.TIDz)
"""What counts warpgroups, fastest first as CUDA numbers threads; TIDx counts those of one."""

_LOAD_LOOP = ("merge", "circular_buffer")
_NO_LOADS = "no tensor is loaded by TMA: cache_after the operands of the mma"


@dataclass(frozen=True, slots=True)
class Sides:
    """The two sides under examination.

    Args:
        fusion: the complete schedule.
        graph: its transform graph.
        target: the GPU that it is for.
        loads: the tensors that fill a stage together, at least one.
        compute: the one tensor that reads them.
        buffer: how they are circular-buffered, all alike.
    """

    fusion: Fusion
    graph: TransformGraph
    target: Target
    loads: tuple[TensorView, ...]
    compute: TensorView
    buffer: CircularBuffer

    @property
    def load_loop(self) -> IterDomain:
        """The serial loop of the first load tensor that steps through stages."""
        first = self.loads[0]
        return first.loop[serial_left_of_slice(first)[0]]

    @property
    def on_ctas(self) -> dict[Group, Expr]:
        """Index of the groups of the loads that run on CTAs, and of those merged into them."""
        first = self.loads[0]
        found: dict[Group, Expr] = {}
        pending: list[tuple[Group, Expr]] = [
            (self.graph.group(d), CTA_INDEX[d.parallel])
            for d in first.loop[: first.slice_position]
            if d.parallel in CTA_INDEX
        ]
        while pending:
            g, index = pending.pop()
            found[g] = index
            step = self.graph.producer(g)
            if step is not None and isinstance(step.transform, Merge):
                parts = unmerge_index(step.transform, index)
                pending += zip(step.inputs, parts, strict=True)
        return found

    def refuse(self, rule: str, why: str, legal: tuple[str, ...] = ()) -> ScheduleError:
        """The error, with both loop nests; the caller raises it."""
        where = "\n".join(nest_text(t) for t in (self.loads[0], self.compute))
        return ScheduleError(rule, self.wrote, why, legal, where)

    @property
    def wrote(self) -> str:
        """The primitives that made the load loop what it is, those of the first load tensor."""
        name = self.loads[0].name
        made = (r for r in self.fusion.history if r.op in _LOAD_LOOP and r.args[0] == name)
        return "; ".join(map(str, made))


def find_sides(fusion: Fusion, graph: TransformGraph, target: Target) -> tuple[Sides, ...]:
    """The edges that circular-buffered tensors cross, those into a sum (an mma) first.

    Raises:
        ScheduleError: ``circular-buffer``, where a tensor that TMA loads is not buffered, buffered
            otherwise than what fills a stage with it, or read by several tensors; ``load-loop``,
            where such tensors are not filled in the same loops.
    """
    readers: dict[str, list[TensorView]] = {}
    for t in fusion.loads:
        reading = [c.name for c in fusion.consumers(t.name)]
        if len(reading) != 1:
            raise ScheduleError(
                "circular-buffer",
                str(fusion.definition(t.name)),
                "a stage is released by one copy to registers, "
                f"{t.name} is read by {', '.join(reading)}",
                (),
                nest_text(t),
            )
        readers.setdefault(reading[0], []).append(t)
    found = list(_sides(fusion, graph, target, readers))
    if not any(_sums(s.compute) for s in found):
        wrote = _calls(fusion) or "no circular_buffer"
        raise ScheduleError("circular-buffer", wrote, _NO_LOADS)
    return tuple(sorted(found, key=lambda s: not _sums(s.compute)))


def _sums(t: TensorView) -> bool:
    return any(d.iter_type is IterType.Reduction for d in t.logical)


def _calls(fusion: Fusion) -> str:
    return ", ".join(str(r) for r in fusion.history if r.op == "circular_buffer")


def _sides(
    fusion: Fusion, graph: TransformGraph, target: Target, readers: dict[str, list[TensorView]]
) -> Iterator[Sides]:
    for name, loads in readers.items():
        bare = [t.name for t in loads if t.circular_buffer is None]
        buffers = [t.circular_buffer for t in loads if t.circular_buffer is not None]
        where = "\n".join(map(nest_text, loads))
        if bare:
            why = (
                f"{bare[0]} is not circular-buffered"
                if len(loads) == 1
                else f"every TMA cacheAfter tensor is circular-buffered; {', '.join(bare)} "
                f"{'is' if len(bare) == 1 else 'are'} not"
            )
            wrote = str(fusion.definition(bare[0])) if len(loads) == 1 else _calls(fusion)
            raise ScheduleError("circular-buffer", wrote or "no circular_buffer", why, (), where)
        if len(set(buffers)) != 1:
            why = "the operands of one mma are circular-buffered alike, these are not"
            b = buffers[0]
            call = Record("circular_buffer", (loads[-1].name, b.stages, b.prefetch, b.type))
            raise ScheduleError("circular-buffer", _calls(fusion), why, (str(call),), where)
        sides = Sides(fusion, graph, target, tuple(loads), fusion.tensor(name), buffers[0])
        _check_alike(sides)
        yield sides


def _check_alike(sides: Sides) -> None:
    """What fills a stage together does so in the same loops, on the same CTAs."""
    first, *others = sides.loads
    for t in others:
        if _filled(sides, t) != _filled(sides, first):
            left = (runs(sides.graph, x.loop[: x.slice_position]) for x in (first, t))
            mine, theirs = map(", ".join, words(sides.graph, *left))
            raise sides.refuse(
                "load-loop",
                f"{first.name} and {t.name} fill one stage together, but their loops left of the "
                f"stage differ: {mine} and {theirs}",
            )


def _filled(sides: Sides, t: TensorView) -> tuple[object, object]:
    """What the loops left of the stage count, slowest first, and those that are not serial."""
    graph = sides.graph
    left = t.loop[: t.slice_position]
    loop = graph.group(t.loop[serial_left_of_slice(t)[0]])
    counted, _ = load_digits(graph, loop, graph.known(sides.compute))
    beside = {(graph.group(d), d.parallel) for d in left if d.parallel is not ParallelType.Serial}
    return counted, beside
