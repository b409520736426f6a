"""The epilogue: the accumulator by chunks of columns, through the pointwise part, to the results.

One unrolled loop over chunks. In it the expressions of the fusion in their order, each a value
named after its tensor; all results of a chunk are stored together at its end, through
shared memory or from registers. Inputs come from a
circular buffer that the load side fills, or from global memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.expr import ZERO, Const, Expr, Var, substitute
from lowering.ground.types import FragmentType
from lowering.kernel.kernel import GlobalTensor
from lowering.kernel.nodes import (
    Consume,
    For,
    Frag,
    FragCast,
    FragColumns,
    FragLoadGlobal,
    FragPointwise,
    FragStoreGlobal,
    GmemRef,
    LdMatrix,
    LdShared,
    Let,
    SmemRef,
    Stmt,
    StoreTile,
)
from lowering.nest.cluster import constant
from lowering.nest.domains import origins
from lowering.nest.element import element_type
from lowering.nest.scope import Indices, Shared
from wsched.fusion import (
    BroadcastOp,
    CastOp,
    DataType,
    Fusion,
    FusionExpr,
    IterDomain,
    IterType,
    LoadStoreOp,
    LoadStoreOpType,
    MemoryType,
    ParallelType,
    PointwiseOp,
    TensorView,
)
from wsched.schedule.proof.graph import Group, TransformGraph
from wsched.schedule.proof.relation import LoadRelation

__all__ = ["EpilogueLowering", "epilogue_globals", "epilogue_inputs", "thread_tensors"]


def epilogue_inputs(fusion: Fusion) -> dict[str, TensorView]:
    """What threads read from global memory: the input's name, and the [M, N] view of it."""
    found = {}
    for e in _exprs(fusion):
        if (
            isinstance(e, LoadStoreOp)
            and e.op is not LoadStoreOpType.CpAsyncBulkTensorTile
            and fusion.tensor(e.input).memory is MemoryType.Global
        ):
            made = fusion.definition(e.input)
            source = made.input if isinstance(made, BroadcastOp) else e.input
            found[source] = fusion.tensor(e.input)
    return found


def thread_tensors(fusion: Fusion) -> dict[str, TensorView]:
    """All that threads read from or write to global memory, as an [M, N] view, by its name."""
    results = {b.tensor: fusion.tensor(b.tensor) for b in fusion.outputs}
    stored = {name: t for name, t in results.items() if not _by_tma(fusion, name)}
    return epilogue_inputs(fusion) | stored


def epilogue_globals(fusion: Fusion, vector: int) -> tuple[GlobalTensor, ...]:
    """Their declarations; a thread accesses ``vector`` columns at once, as the launch sees to."""
    found = []
    for name, view in thread_tensors(fusion).items():
        sizes = tuple(Const(1) if _repeats(d) else d.extent for d in view.stored)
        dtype = element_type(view.dtype)
        align = 1 if vector == 1 or sizes[-1] == Const(1) else vector * dtype.bytes
        found.append(GlobalTensor(name, dtype, sizes, align))
    return tuple(found)


def _by_tma(fusion: Fusion, result: str) -> bool:
    """Whether TMA stores a result."""
    made = fusion.definition(result)
    return isinstance(made, LoadStoreOp) and made.op is LoadStoreOpType.CpAsyncBulkTensorTile


def _repeats(d: IterDomain) -> bool:
    """Whether a dimension has the same value at all indices."""
    return d.iter_type is IterType.Broadcast


def _exprs(fusion: Fusion) -> list[FusionExpr]:
    """The expressions behind the accumulator, in order."""
    exprs = list(fusion.exprs)
    return exprs[exprs.index(fusion.mma) + 1 :]


@dataclass
class EpilogueLowering:
    """Builds the chunk loop of one fusion.

    Args:
        fusion: scheduled.
        graph: its transform graph.
        shared: names that both sections use.
        tile: index of the groups that the loops around the epilogue run over.
        rings: name and relation of the circular buffer that holds an input, by the input's tensor
            in shared memory.
        values: what each tensor of a chunk is at the moment, by its name.
    """

    fusion: Fusion
    graph: TransformGraph
    shared: Shared
    tile: dict[Group, Expr]
    rings: Mapping[str, tuple[str, LoadRelation]]
    values: dict[str, Frag] = field(default_factory=dict)
    _columns: int = 0
    _rows: int = 0

    def loop(self, acc: TensorView, total: Frag) -> tuple[list[Let], For]:
        """The bindings that the loop needs, and the loop."""
        out = self.fusion.tensor(self.fusion.outputs[0].tensor)
        chunk, count, known = self._chunk(acc, out)
        indices = Indices(self.graph, known, self.shared)
        self._rows, self._columns = total.type.rows, total.type.cols // count
        part = Frag(
            self.shared.namer.new("part"), FragmentType(DType.F32, self._rows, self._columns)
        )
        body: list[Stmt] = [FragColumns(part, total, chunk * self._columns)]
        stores: list[Stmt] = []
        direct: list[Stmt] = []
        roots: list[Expr] = []
        self.values[acc.name] = part
        sources = {view.name: name for name, view in epilogue_inputs(self.fusion).items()}
        for e in _exprs(self.fusion):
            t = self.fusion.tensor(e.output)
            if e.output in self.rings:
                continue  # a load section does it
            if isinstance(e, LoadStoreOp) and e.input in self.rings:
                read = self._from_ring(self.fusion.tensor(e.input), t, indices)
                roots += read[-1].src.coords
                body += read
            elif isinstance(e, LoadStoreOp) and e.input in sources:
                at = self._coordinates(self.fusion.tensor(e.input), indices)
                value = self._value(t, element_type(t.dtype))
                roots += at
                body.append(FragLoadGlobal(value, GmemRef(sources[e.input], at)))
                self.values[t.name] = value
            elif isinstance(e, LoadStoreOp) and t.memory is MemoryType.Global:
                at = self._coordinates(t, indices)
                roots += at
                place = GmemRef(t.name, at)
                if e.op is LoadStoreOpType.CpAsyncBulkTensorTile:
                    stores.append(StoreTile(place, self.values[e.input]))
                else:
                    direct.append(FragStoreGlobal(place, self.values[e.input]))
            elif isinstance(e, LoadStoreOp):
                self.values[t.name] = self.values[e.input]
            else:
                body += self._computed(e, t)
        loop = For(chunk, ZERO, Const(count), (*body, *stores, *direct), unroll=True)
        return indices.lets(roots), loop

    def _from_ring(
        self, staged: TensorView, t: TensorView, indices: Indices
    ) -> tuple[Consume, LdMatrix | LdShared]:
        """Wait for the load step of a chunk; this warpgroup's rows of it into registers."""
        ring, relation = self.rings[staged.name]
        loops = self.fusion.tensor(relation.compute).loop
        known = {Var(d.name): indices.found[self.graph.group(d)] for d in loops}
        step = self.shared.apply(substitute(relation.index, known))
        coords = tuple(
            indices.found[self.graph.group(d)] for d in staged.loop[staged.slice_position :]
        )
        value = self._value(t, element_type(t.dtype))
        self.values[t.name] = value
        load = LdMatrix if value.type.dtype.bytes == 2 else LdShared
        return Consume(ring, step), load(value, SmemRef(staged.name, ZERO, coords))

    def _coordinates(self, t: TensorView, indices: Indices) -> tuple[Expr, ...]:
        """Where a chunk begins in a tensor, 0 in dimensions along which it is repeated."""
        return tuple(ZERO if _repeats(d) else indices.found[self.graph.group(d)] for d in t.stored)

    def _computed(self, e: FusionExpr, t: TensorView) -> list[Stmt]:
        """The statements of a cast or a pointwise operation."""
        match e:
            case CastOp(input=name) if self.values[name].type.dtype is not DType.PRED:
                value = self._value(t, element_type(t.dtype))
                self.values[t.name] = value
                return [FragCast(value, self.values[name])]
            case CastOp(input=name):
                return self._pointwise(t, "where", (self.values[name], 1.0, 0.0))
            case PointwiseOp(op=op, inputs=inputs):
                args = tuple(self.values[x] if isinstance(x, str) else x for x in inputs)
                return self._pointwise(t, op, args)
        raise InternalError("lower", f"{e.output} = {e} in an epilogue")

    def _pointwise(self, t: TensorView, op: str, args: tuple[Frag | float, ...]) -> list[Stmt]:
        """An operation in fp32, and its rounding where the tensor has 16 bits."""
        if t.dtype is DataType.Bool:
            self.values[t.name] = value = self._value(t, DType.PRED)
            return [FragPointwise(value, op, args)]
        wide = self._value(t, DType.F32)
        self.values[t.name] = wide
        body: list[Stmt] = [FragPointwise(wide, op, args)]
        if (dtype := element_type(t.dtype)) is not DType.F32:
            self.values[t.name] = self._value(t, dtype)
            body.append(FragCast(self.values[t.name], wide))
        return body

    def _value(self, t: TensorView, dtype: DType) -> Frag:
        """A new value for a tensor: one row or column where it is repeated."""
        sizes = (self._rows, self._columns)
        rows, cols = (1 if _repeats(d) else n for d, n in zip(t.stored, sizes, strict=True))
        return Frag(self.shared.namer.new(t.name.lower()), FragmentType(dtype, rows, cols))

    def _chunk(self, acc: TensorView, out: TensorView) -> tuple[Var, int, dict[Group, Expr]]:
        """The output's loop over column chunks: its index, trip count, and all known indices."""
        inner = [d for d in out.loop if self.graph.group(d) not in self.tile]
        columns = {out.stored[1].id}
        chunks = [
            d for d in inner if d.parallel is ParallelType.Serial and origins(out, d) == columns
        ]
        if len(chunks) != 1:
            raise UnsupportedError(
                f"{len(chunks)} serial loops over columns of {out.name} within a tile",
                "one over column chunks",
            )
        loops = {self.graph.group(d) for d in out.loop}
        tile = {self.graph.group(d) for d in acc.loop} - loops
        known = {g: e for g, e in self.tile.items() if g not in tile}
        known |= {self.graph.group(d): ZERO for d in inner}
        chunk = Var(self.shared.namer.new(chunks[0].label))
        known[self.graph.group(chunks[0])] = chunk
        return chunk, constant(chunks[0].extent, f"{out.name}: {chunks[0].label}"), known
