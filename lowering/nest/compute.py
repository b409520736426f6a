"""The compute section: tile and k loops, the matrix product, and the epilogue by column chunks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.expr import ZERO, Expr, Var, ceildiv, maximum, minimum, substitute
from lowering.ground.types import FragmentType
from lowering.kernel.nodes import (
    Body,
    Carry,
    Consume,
    For,
    Frag,
    FragFill,
    Let,
    MmaTile,
    Section,
    SmemRef,
)
from lowering.nest.cluster import constant
from lowering.nest.domains import origins, roots
from lowering.nest.epilogue import EpilogueLowering
from lowering.nest.partials import PartialResults
from lowering.nest.queue import DealtTiles
from lowering.nest.scope import CTA_INDEX, Indices, Shared
from wsched.fusion import (
    Fusion,
    IterDomain,
    IterType,
    ParallelType,
    TensorView,
)
from wsched.schedule.proof.graph import Group, TransformGraph
from wsched.schedule.proof.interval import Interval
from wsched.schedule.proof.relation import LoadRelation, StepLoop

__all__ = ["ComputeLowering", "accumulators"]


def accumulators(fusion: Fusion, relation: LoadRelation) -> FragmentType:
    """What one warpgroup holds of the accumulator."""
    acc = fusion.tensor(relation.compute)
    rows, cols = (
        _inside(relation, acc, [x for x in acc.loop if origins(acc, x) == {d.id}])
        for d in acc.stored
    )
    return FragmentType(DType.F32, rows, cols)


def _inside(relation: LoadRelation, acc: TensorView, domains: list[IterDomain]) -> int:
    """Product of the extents of domains that are neither stepped through nor parallel."""
    stepping = {s.domain.id for s in relation.steps}
    total = 1
    for d in domains:
        outside = d.parallel in CTA_INDEX or d.parallel is ParallelType.TIDy
        if d.id not in stepping and not outside:
            total *= constant(d.extent, f"{acc.name}: {d.label}")
    return total


@dataclass(frozen=True, slots=True)
class _MainLoop:
    """The loop over k slices: its bounds, and what its variable says.

    Args:
        var: the variable.
        start: its first value.
        stop: the value behind the last.
        step: the load step that an iteration consumes.
        lets: what stands in front of it.
    """

    var: Var
    start: Expr
    stop: Expr
    step: Expr
    lets: tuple[Let, ...] = ()


@dataclass
class ComputeLowering:
    """Builds the compute section of one fusion.

    Args:
        fusion: scheduled.
        relations: what ties its two sides, by circular buffer.
        graph: its transform graph.
        shared: names that both sections use.
        ring: name of the operands' circular buffer.
        partials: where parts of tiles go, if there are any.
        dealt: tiles that are dealt out at run time, None where they are in turn.
        known: index of the groups that compute's loops run over.
        vars: the relation's loop variables in terms of the section's.
    """

    fusion: Fusion
    relations: Mapping[str, LoadRelation]
    graph: TransformGraph
    shared: Shared
    ring: str
    partials: PartialResults | None = None
    dealt: DealtTiles | None = None
    known: dict[Group, Expr] = field(default_factory=dict)
    vars: dict[Var, Expr] = field(default_factory=dict)

    @property
    def relation(self) -> LoadRelation:
        """The operands'."""
        return self.relations[self.ring]

    def section(self) -> Section:
        """The whole section, for ``relation.roles`` warpgroups."""
        acc = self.fusion.tensor(self.relation.compute)
        group = Var(self.shared.namer.new("group"))
        tiles, slices = self._loops(acc, group)
        kind = accumulators(self.fusion, self.relation)
        zero, total = (Frag(self.shared.namer.new(n), kind) for n in ("zero", "total"))
        interval = self.relation.interval
        if tiles is None:
            body, _ = self._tile(acc, self._slices(slices), group, ZERO, zero, total)
        else:
            # The first wgmma of a tile overwrites, so one clearing of registers serves K = 0.
            before, last = (Frag(self.shared.namer.new(n), kind) for n in ("before", "last"))
            carry = Carry(before, zero, last)
            if interval is not None:
                loops = tiles, slices
                body = (self._tiles_of_interval(acc, interval, loops, group, carry, before, total),)
            else:
                inner, end = self._tile(
                    acc, self._slices(slices), group, self._ordinal(tiles, group), before, total
                )
                body = (self._loop(tiles, inner, carry, end),)
        return Section(
            "compute",
            (FragFill(zero, 0.0), *body),
            self.relation.roles,
            group,
            self.relation.registers[1],
        )

    def _loops(self, acc: TensorView, group: Var) -> tuple[StepLoop | None, StepLoop]:
        """The loop over tiles, if there is one, and the loop over k slices; notes their indices.

        With stream-K a loop on CTAs is the place in the cluster, a part of the loads' one; what the
        loops over tiles and k say is noted when their bounds are.
        """
        steps = {s.domain.id: s for s in self.relation.steps}
        interval = self.relation.interval
        load = self.fusion.tensor(self.relation.loads[0])
        on_ctas = [d for d in load.loop if d.parallel in CTA_INDEX]
        placed = self.graph.indices({self.graph.group(d): CTA_INDEX[d.parallel] for d in on_ctas})
        tiles: list[StepLoop] = []
        slices: list[StepLoop] = []
        for d in acc.loop:
            at = self.graph.group(d)
            if d.parallel in CTA_INDEX:
                self.known[at] = CTA_INDEX[d.parallel] if interval is None else placed[at]
            elif d.parallel is ParallelType.TIDy:
                self.vars[Var(d.name)] = group
                if interval is None or d.id not in steps:
                    self.known[at] = group
            elif d.id in steps:
                summed, label = _is_reduction(acc, d), d.label
                if interval is not None:
                    label = self.relation.loop.label if summed else "tile"
                self.vars[Var(d.name)] = var = Var(self.shared.namer.new(label))
                if interval is None:
                    self.known[at] = var
                (slices if summed else tiles).append(steps[d.id])
            else:
                self.known[at] = ZERO
        if len(slices) != 1 or len(tiles) > 1:
            found = f"{len(tiles)} serial loops over tiles and {len(slices)} over K"
            raise UnsupportedError(found, "at most one over tiles and one over K slices")
        return (tiles[0] if tiles else None), slices[0]

    def _loop(self, step: StepLoop, body: Body, carry: Carry, following: Frag) -> For:
        """``for step: body; yield following``, cut off by the relation's tail where it applies."""
        tail = self.relation.tail
        stop = step.domain.extent
        if tail is not None and tail.serial == step.var and tail.serial_stop is not None:
            stop = tail.serial_stop if self.dealt is None else self.dealt.stop
        stop = self.shared.apply(substitute(stop, self.vars))
        return For(self._var(step), ZERO, stop, body, carries=(carry,), yields=(following,))

    def _var(self, step: StepLoop) -> Var:
        var = self.vars[step.var]
        if not isinstance(var, Var):
            raise InternalError("lower", f"{step.var} is no loop")
        return var

    def _slices(self, slices: StepLoop) -> _MainLoop:
        """All k slices of a tile, or of its part."""
        stop = substitute(slices.domain.extent, self.vars)
        step = substitute(self.relation.index, self.vars)
        return _MainLoop(self._var(slices), ZERO, stop, step)

    def _ordinal(self, tiles: StepLoop, group: Var) -> Expr:
        """How many tiles this CTA had before."""
        var, roles = self._var(tiles), self.relation.roles
        return var if self.relation.cooperative else var * roles + group

    def _tiles_of_interval(
        self,
        acc: TensorView,
        interval: Interval,
        loops: tuple[StepLoop, StepLoop],
        group: Var,
        carry: Carry,
        before: Frag,
        total: Frag,
    ) -> For:
        """The tiles that a CTA's interval touches; groups of a ping-pong kernel take turns.

        The main loop counts in the merged loop of all tiles, up to the end of the tile or of the
        interval. Where it begins is carried: a group that takes turns skips the next tile, which is
        a whole one whenever this group has another.
        """
        apply, namer = self.shared.apply, self.shared.namer
        tiles, slices = loops
        start, first, count = (apply(e) for e in (interval.start, interval.first, interval.count))
        inner, load_stop = apply(interval.inner), apply(interval.load_stop)
        turns = 1 if self.relation.cooperative else self.relation.roles
        turn: Expr = ZERO if turns == 1 else group
        at, end, begin, after = (Var(namer.new(n)) for n in ("at", "end", "begin", "begin_end"))
        where = first + self._var(tiles) * turns + turn
        lets = (Let(at, where), Let(end, minimum(load_stop, (at + 1) * inner)))
        m = self._var(slices)
        self.known[interval.tile] = at
        loop = _MainLoop(m, begin, end, m - start, lets)
        body, last = self._tile(acc, loop, group, at, before, total)
        opening = start if turns == 1 else maximum(start, (first + turn) * inner)
        rounds = count if turns == 1 else ceildiv(maximum(count - turn, 0), turns)
        return For(
            self._var(tiles), ZERO, rounds, body,
            carries=(carry, Carry(begin, opening, after)),
            yields=(last, end + inner * (turns - 1)),
        )  # fmt: skip

    def _tile(
        self, acc: TensorView, run: _MainLoop, group: Var, tile: Expr, before: Frag, total: Frag
    ) -> tuple[Body, Frag]:
        """One output tile or a part of it: k loop, then the epilogue; the accumulators after it."""
        entry: Body = run.lets
        if self.dealt is not None:
            number, entry = self.dealt.next_of(self.relation.tail, self.vars)
            self.known[self.dealt.group] = number
        indices = Indices(self.graph, self.known, self.shared)
        inside, after = (Frag(self.shared.namer.new(n), total.type) for n in ("acc", "acc_next"))
        mma = self.fusion.mma
        a, b = (self._operand(t, indices) for t in (mma.a, mma.b))
        trans = (self._mn_major(t) for t in (mma.a, mma.b))
        step, stop = self.shared.apply(run.step), self.shared.apply(run.stop)
        main = (
            Consume(self.ring, step),
            MmaTile(after, inside, a, b, self._depth(acc), run.var > run.start, *trans),
        )
        carry = Carry(inside, before, total)
        loop = For(run.var, run.start, stop, main, carries=(carry,), yields=(after,))
        rings = {r.loads[0]: (name, r) for name, r in self.relations.items() if name != self.ring}
        epilogues = EpilogueLowering(self.fusion, self.graph, self.shared, self.known, rings)
        if self.partials is None:
            lets, epilogue = epilogues.loop(acc, total)
            return (*entry, *lets, loop, epilogue), total
        summed = Frag(self.shared.namer.new("sum"), total.type)
        lets, epilogue = epilogues.loop(acc, summed)
        rest = self.partials.combine(self.shared, tile, group, total, summed, (*lets, epilogue))
        return (*entry, loop, *rest), summed

    def _depth(self, acc: TensorView) -> int:
        """Extent of K within one slice."""
        return _inside(self.relation, acc, [d for d in acc.loop if _is_reduction(acc, d)])

    def _operand(self, name: str, indices: Indices) -> SmemRef:
        """Where this warpgroup's part of a stage begins."""
        coords = tuple(indices.found[self.graph.group(d)] for d in self._stage(name))
        return SmemRef(name, ZERO, coords)

    def _mn_major(self, name: str) -> bool:
        """Whether a stage of an operand is stored as ``K x M`` (or N), not ``M x K``."""
        t = self.fusion.tensor(name)
        k = t.logical[-1]
        return k not in roots(t, self._stage(name)[-1])

    def _stage(self, name: str) -> list[IterDomain]:
        """Rows and columns of one stage of an operand."""
        t = self.fusion.tensor(name)
        return [d for d in t.loop[t.slice_position :] if d.iter_type is not IterType.Broadcast]


def _is_reduction(t: TensorView, d: IterDomain) -> bool:
    return all(r.iter_type is IterType.Reduction for r in roots(t, d))
