"""Where a leaf of the nest stands: what a rule is given to make statements of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.expr import ZERO, Expr, Var
from lowering.ground.frozen import replaced
from lowering.ground.types import FragmentType
from lowering.kernel.nodes import Consume, Frag, FragBelow, GmemRef, Produce, Stmt
from lowering.nest.domains import repeats
from lowering.nest.element import element_type
from lowering.nest.entries import axis_of, entry_at
from lowering.nest.refusal import refused
from lowering.nest.registers import Registers
from lowering.nest.scope import Namer, Scopes
from lowering.nest.tile import Tile
from lowering.nest.views import thread_views
from lowering.nest.work_loops import BEGIN, END, FIRST, WorkLoops
from wsched.fusion import Fusion, FusionExpr, IterDomain, ParallelType, TensorView
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.plan import Plan
from wsched.schedule.proof.nest import BOX
from wsched.schedule.proof.relation import LoadRelation

__all__ = ["Place", "is_fragment"]


def is_fragment(plan: Plan, tile: Tile) -> bool:
    """Whether a tile in registers has whole rows and columns of instructions."""
    mma, sizes = plan.target.mma, tile.sizes[-2:]
    reduced = plan.fusion.reduction(tile.tensor.name) is not None  # to a row, or to a column
    if len(sizes) != 2:
        return False
    units = zip(sizes, (mma.m, mma.layout.columns), strict=True)
    return all(size % unit == 0 or (reduced and size == 1) for size, unit in units)


@dataclass
class Place:
    """A leaf, with the indices of the loops around it.

    Args:
        plan: the schedule.
        tile: the box of the tensor that the leaf's statement covers.
        found: index of each group that the loops determine, for the first element of the box.
        registers: the tensors that are in registers here.
        rings: name and relation of each ring that the part reads or fills, by its tensors.
        work: says which step of a ring is consumed.
        scopes: the statement lists around.
        again: of a leaf that adds up, whether it has been executed for these elements before.
        group: index of the warpgroup within its part; None where one thread does all.
        body: the statements, so far.
    """

    plan: Plan
    tile: Tile
    found: Mapping[Group, Expr]
    registers: Registers
    rings: Mapping[str, tuple[str, LoadRelation]]
    work: WorkLoops
    scopes: Scopes
    again: Expr
    group: Var | None
    body: list[Stmt] = field(default_factory=list)

    @property
    def fusion(self) -> Fusion:
        """The schedule's tensors and expressions."""
        return self.plan.fusion

    @property
    def graph(self) -> TransformGraph:
        """Its transform graph."""
        return self.plan.graph

    @property
    def tensor(self) -> TensorView:
        """The tensor that is made."""
        return self.tile.tensor

    @property
    def expr(self) -> FusionExpr:
        """The expression that makes it."""
        e = self.fusion.definition(self.tensor.name)
        if e is None:
            raise InternalError("lower", f"{self.tensor.name} is an input, with loops")
        return e

    @property
    def namer(self) -> Namer:
        """Of everything in the kernel."""
        return self.scopes.shared.namer

    @property
    def dtype(self) -> DType:
        """Element type of the tensor."""
        return element_type(self.tensor.dtype)

    def require_box(self, *kinds: ParallelType) -> None:
        """The box of the tensor is one that a statement takes.

        Args:
            kinds: ``Bulk``, the box of a TMA, or ``Mma``, a fragment. With ``Mma`` among them the
                box is to be a whole fragment; of a number that all of a tile is reduced to there
                is none.

        Raises:
            UnsupportedError: it is of another kind, or no whole fragment.
        """
        t = self.tensor
        dims = [d for d in t.loop if d.parallel in BOX]
        mma, whole = self.plan.target.mma, is_fragment(self.plan, self.tile)
        found = {d.parallel for d in dims}
        if len(found) == 1 and found <= {*kinds} and (whole or ParallelType.Mma not in kinds):
            return
        if not dims and whole and ParallelType.Mma in kinds:
            return
        sizes = [n for d, n in zip(self.tile.order, self.tile.sizes, strict=True) if not repeats(d)]
        names = " and ".join(dict.fromkeys(str(d.parallel) for d in dims)) or "no box"
        what = f"{t.name} = {self.expr} of {' x '.join(map(str, sizes))} [{names}]"
        if ParallelType.Mma not in kinds:
            raise self.refuse(what, "boxes [Bulk] of a TMA")
        units = f"a multiple of {mma.m} rows and of {mma.layout.columns} columns"
        raise self.refuse(what, f"fragments [{' or '.join(map(str, kinds))}] of {units}")

    def emit(self, *stmts: Stmt) -> None:
        """Statements of the leaf, behind those that there are."""
        self.body += stmts

    def refuse(self, what: str, supported: str) -> UnsupportedError:
        """The error that says what no rule covers; the caller raises it."""
        return refused(self.tensor, what, supported)

    def index(self, d: IterDomain) -> Expr:
        """Index of a domain."""
        at = self.found.get(self.graph.group(d))
        if at is None:
            what = f"{self.tensor.name} at an index {d.label} that its loops do not determine"
            raise self.refuse(what, "loops that were split and merged from its dimensions")
        return at

    def coordinates(self, dims: Iterable[IterDomain]) -> list[Expr]:
        """Indices of dimensions, 0 along which a tensor is repeated."""
        return [ZERO if repeats(d) else self.index(d) for d in dims]

    def element(self, name: str, dims: Iterable[IterDomain], piece: int = 0) -> GmemRef:
        """The first element of the box in a tensor in global memory, of a list in its entry.

        Args:
            name: of the caller's tensor.
            dims: its dimensions in the order of memory.
            piece: how many elements behind the first one along the axis of a list.
        """
        dims = tuple(dims)
        at, axis = self.coordinates(dims), axis_of(self.fusion, name)
        if self.fusion.ragged(name):
            return GmemRef(name, self._in_group(name, dims, at))
        if not axis:
            return GmemRef(name, tuple(at))
        (along,) = (p for p, d in enumerate(dims) if str(d.extent) == axis)
        at[along] += piece
        entry, begin = entry_at(self.fusion, axis, at[along])
        at[along] -= self.scopes.bind("begin", begin)
        return GmemRef(name, tuple(at), self.scopes.bind("entry", entry))

    def _in_group(
        self, name: str, dims: tuple[IterDomain, ...], at: list[Expr]
    ) -> tuple[Expr, ...]:
        """The coordinates of a ragged map: where the group ends, and the row of a matrix whose rows
        all end there; or likewise where it begins. Else the row or column itself; behind the group
        it is one of another. What is read of that reaches only what nobody stores.
        """
        groups = self.fusion.groups
        names = [str(d.extent) for d in dims]
        threads = name in thread_views(self.fusion)
        by_rows = groups is not None and names[:2] == [groups.axis, groups.along] and len(dims) == 3
        if groups is None or not (by_rows or (threads and not self.fusion.sums_of_groups)):
            what = f"{self.tensor.name} = {self.expr} with dimensions {', '.join(names)} in memory"
            raise self.refuse(what, "rows of groups by rows, of matrices")
        where = BEGIN if self.fusion.sums_of_groups else END
        if not {where, FIRST} <= self.found.keys():
            raise self.refuse(
                "shares of the load steps of groups", "whole tiles, drawn from a counter"
            )
        if threads or (name in self._inputs and not self.fusion.sums_of_groups):
            begin = self.found[FIRST] - Var(groups.along) + self.found[END]  # 32 bits hold each
            known = {groups.axis: ZERO, groups.along: begin + at[names.index(groups.along)]}
            found = tuple(known.get(n, e) for n, e in zip(names, at, strict=True))
            return found if threads else found[1:]
        return self.found[where], self.found[FIRST] + at[1], at[2]

    @property
    def _inputs(self) -> set[str]:
        return {b.tensor for b in self.fusion.inputs}

    def left(self, d: IterDomain) -> Expr | None:
        """How many elements the group has from the box's first one on along a dimension; None where
        groups do not share that out.
        """
        groups = self.fusion.groups
        ragged = groups is not None and self.fusion.ragged(self.tensor.name)
        if groups is None or not ragged or str(d.extent) != groups.along:
            return None
        return Var(groups.along) - self.found[FIRST] - self.index(d)

    def new(self, dtype: DType) -> Frag:
        """A new value for the tensor: one row or column where it is repeated."""
        dims = zip(self.tile.order, self.tile.sizes, strict=True)
        *_, rows, cols = (1 if repeats(d) else n for d, n in dims)
        kind = FragmentType(dtype, rows, cols, layout=self.plan.target.mma.layout)
        return Frag(self.namer.new(self.tensor.name.lower()), kind)

    def below(self, kind: FragmentType, d: IterDomain, *, by_rows: bool) -> Frag:
        """Which rows, or columns, of a tile are in front of the end of a dimension."""
        rows, cols = (kind.rows, 1) if by_rows else (1, kind.cols)
        line = replaced(kind, dtype=DType.PRED, rows=rows, cols=cols)
        found = Frag(self.namer.new("below"), line)
        self.emit(FragBelow(found, d.extent - self.index(d)))
        return found

    def hold(self, value: Frag) -> None:
        """The tensor is in registers from here on."""
        self.registers.hold(self.tile, value)

    def operand(
        self, name: str, sizes: tuple[int, int] | None = None, *, any_order: bool = False
    ) -> Frag:
        """What the statement needs of a tensor in registers, cut out of what is held of it.

        Args:
            name: of the tensor.
            sizes: rows and columns of it; by default those that are made.
            any_order: whether the statement may have its rows as columns.
        """
        made = f"{self.tensor.name} = {self.expr}"
        held = self.registers.held.get(name)
        if held is None:
            supported = f"{name} computed in the loops in which {self.tensor.name} is"
            raise self.refuse(f"{made} where {name} is not in registers", supported)
        at = held.tile.offsets(self.graph, self.found)
        if at is None:
            supported = f"loops of {self.tensor.name} that were split as those of {name}"
            raise self.refuse(f"{made} of an unknown part of {name}", supported)
        kind, wanted = held.value.type, self.tile.size_by_axis
        if sizes is None:
            if not any_order and held.tile.axes != self.tile.axes:
                supported = f"loops of {self.tensor.name} in the order of those of {name}"
                raise self.refuse(f"{made} with rows that are columns of {name}", supported)
            *_, row, col = held.tile.axes
            sizes = wanted[row], wanted[col]
        rows, cols = (min(x) for x in zip((kind.rows, kind.cols), sizes, strict=True))
        value, cut = self.registers.part(name, at, rows, cols)
        self.emit(*cut)
        return value

    def consume(self, *loads: str) -> None:
        """Wait for the steps that have this place's part of tensors that fill rings, unless the
        statement list has waited for them.
        """
        for name in loads:
            self._step(name, Consume)

    def load(self) -> None:
        """Begin to fill the step that a load is a part of, where it is loaded in place; a section
        that loads ahead has begun it.
        """
        if self.tensor.in_place:
            self.produce()

    def produce(self) -> None:
        """Begin to fill the step that has this place's part of the tensor, unless it is begun."""
        self._step(self.tensor.name, Produce)

    def _step(self, name: str, made: type[Consume] | type[Produce]) -> None:
        ring, relation = self.rings[name]
        step = self.work.step(relation, self.found)
        if step is None:
            what = f"{self.tensor.name} of a load step that its loops do not determine"
            raise self.refuse(what, f"loops that count the steps of {', '.join(relation.loads)}")
        self.emit(*self.registers.step(ring, step, made))
