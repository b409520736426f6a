"""The compute section: tile and k loops, the matrix product, and the epilogue by column chunks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lowering.cluster import constant
from lowering.domains import origins, roots
from lowering.errors import InternalError, UnsupportedError
from lowering.ir.expr import ZERO, Expr, Special, Var, substitute
from lowering.ir.nodes import (
    Body,
    Carry,
    Consume,
    For,
    Frag,
    FragFill,
    MmaTile,
    Section,
    SmemRef,
)
from lowering.ir.types import DType, FragmentType
from lowering.lower_epilogue import EpilogueLowering
from lowering.lower_queue import DealtTiles
from lowering.scope import Indices, Shared
from wsched.fusion import (
    Fusion,
    IterDomain,
    IterType,
    ParallelType,
    TensorView,
)
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.relation import LoadRelation, StepLoop

__all__ = ["ComputeLowering"]


@dataclass
class ComputeLowering:
    """Builds the compute section of one fusion.

    Args:
        fusion: scheduled.
        relations: what ties its two sides, by circular buffer.
        graph: its transform graph.
        shared: names that both sections use.
        ring: name of the operands' circular buffer.
        dealt: tiles that are dealt out at run time, None where they are in turn.
        known: index of the groups that compute's loops run over.
        vars: the relation's loop variables in terms of the section's.
    """

    fusion: Fusion
    relations: Mapping[str, LoadRelation]
    graph: TransformGraph
    shared: Shared
    ring: str
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
        kind = self._fragment(acc)
        zero, total = (Frag(self.shared.namer.new(n), kind) for n in ("zero", "total"))
        if tiles is None:
            body = self._tile(acc, slices, zero, total)
        else:
            # The first wgmma of a tile overwrites, so one clearing of registers serves K = 0.
            before, last = (Frag(self.shared.namer.new(n), kind) for n in ("before", "last"))
            body = self._tile(acc, slices, before, total)
            body = (self._loop(tiles, body, Carry(before, zero, last), total),)
        return Section(
            "compute",
            (FragFill(zero, 0.0), *body),
            self.relation.roles,
            group,
            self.relation.registers[1],
        )

    def _loops(self, acc: TensorView, group: Var) -> tuple[StepLoop | None, StepLoop]:
        """The loop over tiles, if there is one, and the loop over k slices; notes their indices."""
        steps = {s.domain.id: s for s in self.relation.steps}
        tiles: list[StepLoop] = []
        slices: list[StepLoop] = []
        for d in acc.loop:
            at = self.graph.group(d)
            if d.parallel is ParallelType.BIDx:
                self.known[at] = Special("ctaid.x")
            elif d.parallel is ParallelType.TIDy:
                self.known[at] = self.vars[Var(d.name)] = group
            elif d.id in steps:
                self.known[at] = self.vars[Var(d.name)] = Var(self.shared.namer.new(d.label))
                (slices if _is_reduction(acc, d) else tiles).append(steps[d.id])
            else:
                self.known[at] = ZERO
        if len(slices) != 1 or len(tiles) > 1:
            found = f"{len(tiles)} serial loops over tiles and {len(slices)} over K"
            raise UnsupportedError(found, "at most one over tiles and one over K slices")
        return (tiles[0] if tiles else None), slices[0]

    def _loop(self, step: StepLoop, body: Body, carry: Carry, following: Frag) -> For:
        """``for step: body; yield following``, cut off by the relation's tail where it applies."""
        var = self.vars[step.var]
        tail = self.relation.tail
        stop = step.domain.extent
        if tail is not None and tail.serial == step.var and tail.serial_stop is not None:
            stop = tail.serial_stop if self.dealt is None else self.dealt.stop
        stop = self.shared.apply(substitute(stop, self.vars))
        if not isinstance(var, Var):
            raise InternalError("lower", f"{step.var} is no loop")
        return For(var, ZERO, stop, body, carries=(carry,), yields=(following,))

    def _tile(self, acc: TensorView, slices: StepLoop, before: Frag, total: Frag) -> Body:
        """One output tile: k loop, then the epilogue."""
        entry: Body = ()
        if self.dealt is not None:
            tile, entry = self.dealt.next_of(self.relation.tail, self.vars)
            self.known[self.dealt.group] = tile
        indices = Indices(self.graph, self.known, self.shared)
        inside, after = (Frag(self.shared.namer.new(n), total.type) for n in ("acc", "acc_next"))
        mma = self.fusion.mma
        a, b = (self._operand(t, indices) for t in (mma.a, mma.b))
        trans = (self._mn_major(t) for t in (mma.a, mma.b))
        step = self.shared.apply(substitute(self.relation.index, self.vars))
        accumulate = self.vars[slices.var] > ZERO
        main = (
            Consume(self.ring, step),
            MmaTile(after, inside, a, b, self._depth(acc), accumulate, *trans),
        )
        loop = self._loop(slices, main, Carry(inside, before, total), after)
        rings = {r.loads[0]: (name, r) for name, r in self.relations.items() if name != self.ring}
        epilogues = EpilogueLowering(self.fusion, self.graph, self.shared, self.known, rings)
        lets, epilogue = epilogues.loop(acc, total)
        return (*entry, *lets, loop, epilogue)

    def _fragment(self, acc: TensorView) -> FragmentType:
        """What one warpgroup holds of the accumulator."""
        rows, cols = (self._extent(acc, d) for d in acc.stored)
        return FragmentType(DType.F32, rows, cols)

    def _extent(self, acc: TensorView, dimension: IterDomain) -> int:
        """Extent of a logical dimension within one warpgroup's tile."""
        return self._product(acc, [d for d in acc.loop if origins(acc, d) == {dimension.id}])

    def _depth(self, acc: TensorView) -> int:
        """Extent of K within one slice."""
        return self._product(acc, [d for d in acc.loop if _is_reduction(acc, d)])

    def _product(self, acc: TensorView, domains: list[IterDomain]) -> int:
        """Product of the extents of domains that are neither stepped through nor parallel."""
        stepping = {s.domain.id for s in self.relation.steps}
        total = 1
        for d in domains:
            if d.id not in stepping and d.parallel not in (ParallelType.BIDx, ParallelType.TIDy):
                total *= constant(d.extent, f"{acc.name}: {d.label}")
        return total

    def _operand(self, name: str, indices: Indices) -> SmemRef:
        """Where this warpgroup's part of a stage begins."""
        row, col = (indices.found[self.graph.group(d)] for d in self._stage(name))
        return SmemRef(name, ZERO, row, col)

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
