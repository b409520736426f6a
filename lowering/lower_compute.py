"""The compute section: tile and k loops, the matrix product, and the epilogue by column chunks."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowering.errors import InternalError, UnsupportedError
from lowering.ir.expr import ZERO, Const, Expr, Special, Var, substitute
from lowering.ir.nodes import (
    Body,
    Carry,
    Consume,
    For,
    Frag,
    FragCast,
    FragColumns,
    FragFill,
    GmemRef,
    Let,
    MmaTile,
    Section,
    SmemRef,
    Stmt,
    StoreTile,
)
from lowering.ir.types import DType, FragmentType
from lowering.scope import Indices, Shared
from wsched.fusion import (
    CastOp,
    Fusion,
    IterDomain,
    IterType,
    LoadStoreOp,
    ParallelType,
    TensorView,
)
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.relation import LoadRelation, StepLoop

__all__ = ["ComputeLowering"]


@dataclass
class ComputeLowering:
    """Builds the compute section of one fusion."""

    fusion: Fusion
    relation: LoadRelation
    graph: TransformGraph
    shared: Shared
    ring: str
    known: dict[Group, Expr] = field(default_factory=dict)
    vars: dict[Var, Expr] = field(default_factory=dict)

    def section(self) -> Section:
        """The whole section, for ``relation.roles`` warpgroups."""
        acc = self.fusion.tensor(self.relation.compute)
        group = Var(self.shared.namer.new("group"))
        steps = {s.domain.id: s for s in self.relation.steps}
        tiles: list[StepLoop] = []
        slices: list[StepLoop] = []
        for d in acc.loop:
            at = self.graph.group(d)
            if d.parallel is ParallelType.BIDx:
                self.known[at] = Special("ctaid.x")
            elif d.parallel is ParallelType.TIDy:
                self.known[at] = group
                self.vars[Var(d.name)] = group
            elif d.id in steps:
                var = Var(self.shared.namer.new(d.label))
                self.known[at] = self.vars[Var(d.name)] = var
                (slices if self._from_reduction(d, acc) else tiles).append(steps[d.id])
            else:
                self.known[at] = ZERO
        if len(slices) != 1:
            raise UnsupportedError(f"{len(slices)} serial loops over K", "one loop over K slices")
        body = self._tile(acc, slices[0])
        for step in reversed(tiles):
            body = (self._loop(step, body),)
        return Section("compute", body, self.relation.roles, group)

    def _loop(self, step: StepLoop, body: Body, carry: tuple[Carry, Frag] | None = None) -> For:
        var = self.vars[step.var]
        tail = self.relation.tail
        stop = step.domain.extent
        if tail is not None and tail.serial == step.var and tail.serial_stop is not None:
            stop = tail.serial_stop
        stop = self.shared.apply(substitute(stop, self.vars))
        if not isinstance(var, Var):
            raise InternalError("lower", f"{step.var} is no loop")
        if carry is None:
            return For(var, ZERO, stop, body)
        return For(var, ZERO, stop, body, carries=(carry[0],), yields=(carry[1],))

    def _tile(self, acc: TensorView, slices: StepLoop) -> Body:
        """One output tile: k loop, then the epilogue."""
        indices = Indices(self.graph, self.known, self.shared)
        kind = self._fragment(acc)
        zero, inside, after, total = (
            Frag(self.shared.namer.new(n), kind) for n in ("zero", "acc", "acc_next", "total")
        )
        k = self.vars[slices.var]
        mma = self.fusion.mma
        a, b = (self._operand(t, indices) for t in (mma.a, mma.b))
        depth = self._product(acc, IterType.Reduction)
        step = self.shared.apply(substitute(self.relation.index, self.vars))
        main = (
            Consume(self.ring, step),
            MmaTile(after, inside, a, b, depth, k > ZERO),
        )
        loop = self._loop(slices, main, (Carry(inside, zero, total), after))
        lets, epilogue = self._epilogue(acc, total)
        return (*lets, FragFill(zero, 0.0), loop, epilogue)

    def _fragment(self, acc: TensorView) -> FragmentType:
        """What one warpgroup holds of the accumulator."""
        rows, cols = (
            self._product(acc, IterType.Iteration, d) for d in acc.stored
        )  # logical M and N
        return FragmentType(DType.F32, rows, cols)

    def _product(self, acc: TensorView, kind: IterType, of: IterDomain | None = None) -> int:
        """Extent, within one tile and warpgroup, of a logical dimension or of all reductions."""
        total = 1
        stepping = {s.domain.id for s in self.relation.steps}
        for d in acc.loop:
            if d.id in stepping or d.parallel in (ParallelType.BIDx, ParallelType.TIDy):
                continue
            roots = self._roots(d, acc)
            if all(r.iter_type is kind for r in roots) and (
                of is None or [r.id for r in roots] == [of.id]
            ):
                if not isinstance(d.extent, Const):
                    raise UnsupportedError(f"a tile of run-time extent {d.extent}", "constants")
                total *= d.extent.value
        return total

    def _roots(self, d: IterDomain, t: TensorView) -> list[IterDomain]:
        """The logical dimensions of ``t`` that a loop domain was made from."""
        for transform in t.transforms:
            if d.id in {o.id for o in transform.outputs}:
                return [r for i in transform.inputs for r in self._roots(i, t)]
        return [d]

    def _from_reduction(self, d: IterDomain, t: TensorView) -> bool:
        return all(r.iter_type is IterType.Reduction for r in self._roots(d, t))

    def _operand(self, name: str, indices: Indices) -> SmemRef:
        """Where this warpgroup's part of a stage begins."""
        t = self.fusion.tensor(name)
        inner = [d for d in t.loop[t.slice_position :] if d.iter_type is not IterType.Broadcast]
        row, col = (self._within(d, indices) for d in inner)
        return SmemRef(name, ZERO, row, col)

    def _within(self, d: IterDomain, indices: Indices) -> Expr:
        found = indices.found.get(self.graph.group(d))
        if found is None:
            raise InternalError("lower", f"no index of {d} within the stage")
        return found

    def _epilogue(self, acc: TensorView, total: Frag) -> tuple[list[Let], Stmt]:
        """The chunk loop: columns of the accumulator, through the pointwise chain, to memory."""
        chain = self._chain(acc)
        out = self.fusion.tensor(chain[-1].output)
        known = dict(self.known)
        chunk: tuple[Var, int] | None = None
        for d in out.loop:
            at = self.graph.group(d)
            if d.parallel is ParallelType.Serial and at not in self.known and chunk is None:
                if not isinstance(d.extent, Const):
                    raise UnsupportedError(f"{d.extent} epilogue chunks", "a constant number")
                chunk = Var(self.shared.namer.new(d.label)), d.extent.value
                known[at] = chunk[0]
            else:
                known.setdefault(at, ZERO)
        for d in acc.loop:  # of the accumulator's inner domains only the chunk's part is known
            if self.graph.group(d) not in {self.graph.group(o) for o in out.loop}:
                known.pop(self.graph.group(d), None)
        indices = Indices(self.graph, known, self.shared)
        row, col = (indices.found[self.graph.group(d)] for d in out.stored)
        columns = total.type.cols // (chunk[1] if chunk else 1)
        start = chunk[0] * columns if chunk else ZERO
        body: list[Stmt] = []
        value = total
        if chunk:
            value = self._value("part", DType.F32, total, columns)
            body.append(FragColumns(value, total, start))
        for e in chain:
            if isinstance(e, CastOp):
                from lowering.lower import element_type

                new = self._value("cast", element_type(self.fusion.tensor(e.output).dtype), value)
                body.append(FragCast(new, value))
                value = new
        body.append(StoreTile(GmemRef(out.name, row, col), value))
        lets = indices.lets([row, col])
        if chunk is None:
            raise UnsupportedError("an epilogue without a chunk loop", "Ni split into chunks")
        loop = For(chunk[0], ZERO, Const(chunk[1]), tuple(body), unroll=True)
        return lets, loop

    def _value(self, name: str, dtype: DType, like: Frag, cols: int | None = None) -> Frag:
        kind = FragmentType(dtype, like.type.rows, cols or like.type.cols)
        return Frag(self.shared.namer.new(name), kind)

    def _chain(self, acc: TensorView) -> list[CastOp | LoadStoreOp]:
        """The expressions from the accumulator to the output, in order."""
        chain: list[CastOp | LoadStoreOp] = []
        name = acc.name
        while uses := self.fusion.uses(name):
            if len(uses) > 1 or not isinstance(uses[0], (CastOp, LoadStoreOp)):
                raise UnsupportedError(
                    f"{name} used by {len(uses)} expressions", "a chain of casts"
                )
            chain.append(uses[0])
            name = uses[0].output
        return chain
