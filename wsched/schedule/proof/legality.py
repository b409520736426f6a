"""The proposal's restriction, decided: when may the compute side have a loop nest of its own?

A schedule is legal if the load index is a function of the compute side's serial and role-parallel
indices, provable from the transform graph, strictly increasing for a fixed role, and over all
roles covering each load step exactly once.

The proof is a mixed radix. The load index m, derived along the transform graph, must be
``sum(c[i] * x[i])`` over compute loops x with extents n and, sorted by coefficient, ``c[0] = 1``
and ``c[i + 1] = c[i] * n[i]`` as polynomials in M, N, K and the grid. Then every m is met by one
combination of indices; it increases if the serial coefficients fall from the outermost loop to the
innermost. Compute loops without a part in m must lie inside one stage, or run on CTAs as on the
load side. Where shares are rounded up, one predicate must cut off the end of m for all sides.

There is one load loop for the operands, which the mma consumes, and one for each matrix that the
epilogue reads, consumed by its copy in registers. Each has a relation of its own; the predicate
that ends them is the same.

With stream-K the load loop is a CTA's interval of the loop that compute's indices count, which is
then m; see ``interval`` and ``check_interval``. With split-K a part of K runs on BIDz, on both
sides alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Const, Expr, Special, Var, free_vars, substitute
from lowering.ground.poly import linear_in, poly
from lowering.target.hopper import WARPGROUP, register_pair_problem, register_pairs
from wsched.fusion import (
    CircularBuffer,
    Fusion,
    IterDomain,
    ParallelType,
    Pipelined,
    Record,
    Split,
    TensorView,
    inputs_of,
    nest_text,
)
from wsched.schedule.primitives.circular_buffer import serial_left_of_slice
from wsched.schedule.proof.check_interval import check_interval
from wsched.schedule.proof.graph import Group, TransformGraph
from wsched.schedule.proof.interval import find_interval
from wsched.schedule.proof.relation import LoadRelation, StepLoop
from wsched.schedule.proof.tail import find_tail

__all__ = ["load_relation", "load_relations"]

# A load warpgroup needs few registers: 24 is the least that setmaxnreg takes, 40 does not spill.

_LOAD_LOOP = ("merge", "circular_buffer")
_ON_CTAS = (ParallelType.BIDx, ParallelType.BIDy, ParallelType.BIDz)
_CTA_INDEX = {
    ParallelType.BIDx: Special("ctaid.x"),
    ParallelType.BIDy: Special("ctaid.y"),
    ParallelType.BIDz: Special("ctaid.z"),
}


@dataclass(frozen=True, slots=True)
class _Sides:
    """The two sides under examination: what fills a circular buffer, and who consumes it."""

    fusion: Fusion
    graph: TransformGraph
    loads: tuple[TensorView, ...]
    compute: TensorView
    buffer: CircularBuffer

    @property
    def load_loop(self) -> IterDomain:
        """The serial loop of the first load tensor that steps through stages."""
        first = self.loads[0]
        return first.loop[serial_left_of_slice(first)[0]]

    @property
    def role_type(self) -> ParallelType:
        """The parallel type over which compute warpgroups are counted."""
        kind = self.buffer.type
        return ParallelType.TIDy if isinstance(kind, Pipelined) else kind.on

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


def load_relation(fusion: Fusion) -> LoadRelation:
    """The relation between the operands' loads and the mma; errors as for all relations."""
    return load_relations(fusion)[0]


def load_relations(fusion: Fusion, graph: TransformGraph | None = None) -> tuple[LoadRelation, ...]:
    """The relations between load and compute side of a complete schedule, the operands' first.

    Raises:
        ScheduleError: the schedule is illegal; ``rule`` is one of ``circular-buffer``,
            ``load-loop``, ``load-index``, ``load-cover``, ``load-order``, ``load-bound``,
            ``role``, ``registers``.
    """
    graph = graph or TransformGraph(fusion)
    sides = (_operands(fusion, graph), *_matrices(fusion, graph))
    relations = tuple(_relation(s) for s in sides)
    _check_dealt(sides[0], relations[0])
    for s, relation in zip(sides[1:], relations[1:], strict=True):
        if _end(graph, s, relation) != _end(graph, sides[0], relations[0]):
            raise s.refuse(
                "load-bound",
                f"the load steps of {relation.loads[0]} and of {', '.join(relations[0].loads)} do "
                "not end with the same tile",
                (f"tile {s.compute.name} as {sides[0].compute.name}",),
            )
    return relations


def _check_dealt(sides: _Sides, relation: LoadRelation) -> None:
    """Tiles are dealt out at run time to CTAs, once, and it is their end that ends both sides."""
    dealt = [s for s in sides.graph.steps if isinstance(s.transform, Split) and s.transform.dynamic]
    indices = sides.graph.indices(_known(sides))
    loops = {Var(d.name) for d in sides.compute.loop}
    for step in dealt:
        asking = step.outputs[1]
        index = indices.get(asking)
        on_ctas = index is not None and not free_vars(index) & loops
        if len(dealt) > 1 or not (relation.dynamic and on_ctas):
            raise sides.refuse(
                "load-bound",
                f"{step.inputs[0].label} are dealt out at run time to {asking.label}: that takes "
                "one split of the tiles of all CTAs, whose inner part runs on them",
            )


def _relation(sides: _Sides) -> LoadRelation:
    """The proof for one circular buffer."""
    indices = sides.graph.indices(_known(sides))
    # Compute's loops determine its dimensions, and those are mapped to all that the loads have.
    cta = sides.loads[0].axis_on(ParallelType.BIDx)
    interval = find_interval(sides.graph, sides.load_loop, cta)
    index = indices[sides.graph.group(sides.load_loop) if interval is None else interval.merged]
    steps = _step_loops(sides, index)
    _check_bystanders(sides, steps)
    if interval is None:
        _check_cta_loops(sides, indices)
    radix = _mixed_radix(sides, steps)
    if interval is not None:
        load = sides.loads[0]
        check_interval(sides.graph, interval, load, sides.compute, radix, sides.refuse)
    roles = _roles(sides, steps)
    _check_registers(sides, roles)
    loops = [Var(d.name) for d in sides.compute.loop]
    tail = find_tail(sides.graph, indices, loops, radix, sides.refuse) if interval is None else None
    part = sides.compute.axis_on(ParallelType.BIDz)
    return LoadRelation(
        tuple(t.name for t in sides.loads),
        sides.compute.name,
        sides.load_loop,
        poly(index).expr(),
        steps,
        sides.buffer,
        roles,
        tail,
        interval,
        part.extent.value if part is not None and isinstance(part.extent, Const) else 1,
    )


def _end(
    graph: TransformGraph, sides: _Sides, relation: LoadRelation
) -> tuple[Expr, Expr, Expr | None] | None:
    """What bounds both sides, over groups of loops instead of loops of one tensor."""
    if relation.tail is None:
        return None
    names = {Var(d.name): Var(f"g{graph.group(d).id}") for d in sides.compute.loop}
    index, stop = relation.tail.index, relation.tail.serial_stop
    return (
        poly(substitute(index, names)).expr(),
        relation.tail.extent,
        None if stop is None else substitute(stop, names),
    )


def _operands(fusion: Fusion, graph: TransformGraph) -> _Sides:
    """The mma and its loads; every one must be buffered, all by one loop and in one way."""
    compute = fusion.tensor(fusion.mma.output)
    loads = tuple(t for t in fusion.loads if t.name in _sources(fusion, compute.name))
    bare = [t.name for t in loads if t.circular_buffer is None]
    buffers = [t.circular_buffer for t in loads if t.circular_buffer is not None]
    wrote = (
        ", ".join(str(r) for r in fusion.history if r.op == "circular_buffer")
        or "no circular_buffer"
    )
    where = "\n".join(map(nest_text, loads))
    if bare or not buffers:
        names = ", ".join(bare) or "no tensor"
        why = f"every TMA cacheAfter tensor is circular-buffered; {names} is not"
        raise ScheduleError("circular-buffer", wrote, why if loads else _NO_LOADS, (), where)
    if len(set(buffers)) != 1:
        why = "the operands of one mma are circular-buffered alike, these are not"
        legal = (str(Record("circular_buffer", (loads[-1].name, *_arguments(buffers[0])))),)
        raise ScheduleError("circular-buffer", wrote, why, legal, where)
    sides = _Sides(fusion, graph, loads, compute, buffers[0])
    outer = [[(graph.group(d), d.parallel) for d in t.loop[: t.slice_position]] for t in loads]
    for t, loops in zip(loads, outer, strict=True):
        if loops != outer[0]:
            raise sides.refuse(
                "load-loop",
                f"{loads[0].name} and {t.name} fill one stage together, but their loops left of "
                f"the stage differ: {_names(loads[0])} and {_names(t)}",
            )
    return sides


def _matrices(fusion: Fusion, graph: TransformGraph) -> Iterator[_Sides]:
    """Each other TMA load, buffered as it must be, and the one tensor that reads it."""
    operands = _sources(fusion, fusion.mma.output)
    for t in fusion.loads:
        if t.name in operands:
            continue
        readers = fusion.consumers(t.name)
        if t.circular_buffer is None or len(readers) != 1:
            names = ", ".join(r.name for r in readers)
            raise ScheduleError(
                "circular-buffer",
                str(fusion.definition(t.name)),
                f"{t.name} is not circular-buffered"
                if t.circular_buffer is None
                else f"a stage is released by one copy to registers, {t.name} is read by {names}",
                (),
                nest_text(t),
            )
        yield _Sides(fusion, graph, (t,), readers[0], t.circular_buffer)


def _sources(fusion: Fusion, name: str) -> frozenset[str]:
    """Names of all tensors that a tensor is made from."""
    found: set[str] = {name}
    for e in reversed(fusion.exprs):
        if e.output in found:
            found.update(inputs_of(e))
    return frozenset(found)


_NO_LOADS = "no tensor is loaded by TMA: cache_after the operands of the mma"


def _arguments(b: CircularBuffer) -> tuple[object, ...]:
    return (b.stages, b.prefetch, b.type)


def _names(t: TensorView) -> str:
    return ", ".join(f"{d.label} [{d.parallel}]" for d in t.loop[: t.slice_position])


def _known(sides: _Sides) -> dict[Group, Expr]:
    """Indices of compute's loops: a variable each, the CTA's number for those on CTAs."""
    return {
        sides.graph.group(d): _CTA_INDEX.get(d.parallel, Var(d.name)) for d in sides.compute.loop
    }


def _step_loops(sides: _Sides, index: Expr) -> tuple[StepLoop, ...]:
    """Compute's loops with a part in the load index."""
    load, loops = sides.load_loop, sides.compute.loop
    linear = linear_in(index, [Var(d.name) for d in loops])
    if linear is None:
        raise sides.refuse(
            "load-index",
            f"the load index {load.label} = {index} is no sum of multiples of the loops of "
            f"{sides.compute.name}",
            ("split both sides by the same factors",),
        )
    if linear[1].terms:
        raise sides.refuse(
            "load-index",
            f"the load index {load.label} = {index} starts at {linear[1].expr()}, not at 0",
            ("parallelize the loop over CTAs on both sides, leave it out of the merge",),
        )
    return tuple(
        StepLoop(d, Var(d.name), c.expr(), d.parallel is sides.role_type)
        for d in loops
        if (c := linear[0][Var(d.name)]).terms
    )


def _check_bystanders(sides: _Sides, steps: Sequence[StepLoop]) -> None:
    """Step loops are serial or roles; every other loop is on CTAs or inside one stage."""
    inside = sides.graph.indices(
        {sides.graph.group(d): Var(d.name) for t in sides.loads for d in t.loop[t.slice_position :]}
    )
    stepping = {s.domain.id for s in steps}
    for d in sides.compute.loop:
        if d.id in stepping:
            if d.parallel not in (ParallelType.Serial, sides.role_type):
                raise sides.refuse(
                    "load-index",
                    f"loop {d.label} of {sides.compute.name} steps the load index and runs on "
                    f"{d.parallel}; only serial loops and {sides.role_type} can follow it",
                )
        elif d.parallel not in _ON_CTAS and sides.graph.group(d) not in inside:
            raise sides.refuse(
                "load-cover",
                f"loop {d.label} [{d.parallel}] of {sides.compute.name} is neither in the load "
                f"index {sides.load_loop.label} nor inside a stage: each load step would be "
                f"consumed {d.extent} times",
            )


def _check_cta_loops(sides: _Sides, indices: dict[Group, Expr]) -> None:
    """A CTA loads what it computes: loops on CTAs are the same on both sides."""
    for d in sides.loads[0].loop[: sides.loads[0].slice_position]:
        if d.parallel is ParallelType.Serial:
            continue
        found = indices.get(sides.graph.group(d))
        if d.parallel not in _ON_CTAS or found != _CTA_INDEX[d.parallel]:
            raise sides.refuse(
                "load-cover",
                f"loop {d.label} [{d.parallel}] of {sides.loads[0].name} is no loop of "
                f"{sides.compute.name} on the same CTAs",
            )


def _mixed_radix(sides: _Sides, steps: Sequence[StepLoop]) -> tuple[StepLoop, ...]:
    """The step loops, fastest first, if they count every load step once and in order."""
    rest = list(reversed(steps))
    chain: list[StepLoop] = []
    unit = poly(Const(1))
    while rest:
        following = next((s for s in rest if poly(s.coefficient) == unit), None)
        if following is None:
            terms = ", ".join(f"{s.coefficient} * {s.domain.label}" for s in rest)
            raise sides.refuse(
                "load-cover",
                f"the load steps are not covered exactly once: a loop must step by {unit.expr()}, "
                f"but there is {terms}",
            )
        rest.remove(following)
        chain.append(following)
        unit = unit * poly(following.domain.extent)
    order = [sides.compute.loop.index(s.domain) for s in chain if not s.role]
    if order != sorted(order, reverse=True):
        fast = ", ".join(s.domain.label for s in chain if not s.role)
        want = "·".join(sides.compute.loop[p].label for p in sorted(order))
        raise sides.refuse(
            "load-order",
            f"the load index counts {fast} from fastest to slowest, {sides.compute.name} nests "
            "them otherwise: it would want a stage before it is loaded",
            (f"merge the load loops as {want}",),
        )
    return tuple(chain)


def _roles(sides: _Sides, steps: Sequence[StepLoop]) -> int:
    """Number of compute warpgroups; which loops may be dealt out to them."""
    d = sides.compute.axis_on(sides.role_type)
    if d is None:
        return 1
    if not isinstance(d.extent, Const):
        raise sides.refuse("role", f"the number of warpgroups {d.extent} is not a constant")
    if isinstance(sides.buffer.type, Pipelined) and any(s.role for s in steps):
        raise sides.refuse(
            "role",
            f"{d.label} deals load steps out to warpgroups that also load: without a load "
            "warpgroup all of them take part in every step",
            ("WarpSpecialized(ParallelType.TIDy)",),
        )
    return d.extent.value


def _check_registers(sides: _Sides, roles: int) -> None:
    """The pair after ``setmaxnreg``: down for load, up for compute, no more than the CTA has."""
    kind = sides.buffer.type
    if isinstance(kind, Pipelined) or kind.num_registers is None:
        return
    threads = WARPGROUP * (roles + 1)
    problem = register_pair_problem(threads, *kind.num_registers)
    if problem:
        legal = tuple(f"num_registers={pair}" for pair in register_pairs(threads))
        raise sides.refuse("registers", problem, legal or ("num_registers=None",))
