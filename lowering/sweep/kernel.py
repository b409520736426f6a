"""The kernel of a sweep: each CTA loads a tile of every tensor, computes, and stores.

Fragments are dealt out in a layout of wide rows: a thread has eight neighbouring columns, which are
16 bytes of 16-bit elements, or as many as it can access at once of every matrix. All loads stand in
front, so that they are on their way together; many CTAs to a multiprocessor hide what is left of
the memory's latency.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce

from lowering.ground.dtypes import DType
from lowering.ground.expr import ONE, ZERO, Const, Expr, ScalarType, Special, Var, ceildiv
from lowering.kernel.kernel import GlobalTensor, Kernel, Storage
from lowering.kernel.nodes import (
    Frag,
    FragLoadGlobal,
    FragPointwise,
    FragRandom,
    FragReduce,
    FragStoreGlobal,
    GmemRef,
    LdGlobalScalar,
    Let,
    Role,
    Roles,
)
from lowering.kernel.reduction import NEUTRAL
from lowering.sweep.statements import Statements
from lowering.sweep.tile import Tile
from lowering.target import ptx
from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from wsched.fusion import DataType
from wsched.fusion.sweep import ROW_REDUCTIONS, Place, Sweep, Term

__all__ = ["Access", "place_of", "rows_of", "size_of", "sweep_kernel", "tensor_names"]


@dataclass(frozen=True, slots=True)
class Access:
    """How a tensor lies where a kernel reads or writes it.

    Args:
        align: bytes that its address, its strides and its rows are multiples of.
        turned: whether it is contiguous along the rows of the index space, not along the columns.
    """

    align: int
    turned: bool = False


def size_of(dim: int) -> Var:
    """The parameter that is the size of a dimension of the index space."""
    return Var(f"n{dim}")


def place_of(dim: int) -> Var:
    """The parameter that is how far neighbours along a dimension of the index space are apart in
    it, row by row: of a sweep that draws numbers.
    """
    return Var(f"l{dim}", ScalarType.I64)


def rows_of(term: str) -> Var:
    """The parameter that is how many rows a table has, by the term that is read from it."""
    return Var(f"{term}_rows")


def tensor_names(sweep: Sweep) -> tuple[str, ...]:
    """What a kernel calls the tensor of each input, then of each result."""
    results = (f"out{at}" for at in range(len(sweep.results)))
    return (*(p.term for p in sweep.inputs), *results)


def sweep_kernel(
    sweep: Sweep,
    name: str,
    tile: Tile,
    accesses: Sequence[Access],
    target: Target = DEFAULT,
) -> Kernel:
    """The kernel before the passes of ``passes.summary``.

    Parameters are ``n0``, ``n1`` and so on, the sizes of the index space, of one that draws
    numbers ``l0``, ``l1``, and the rows of tables, ``v0_rows``. A tensor has all of its
    dimensions, of size 1 where it does not differ; a turned one with the last two exchanged. An
    index is of s32, one of 64 bits as every other word.

    Args:
        sweep: what is computed, of rank 2 or more, the dimensions of every tensor in order; an
            index is along the last but one.
        name: of the kernel, a C identifier.
        tile: of a CTA; of :func:`~lowering.sweep.tile.row_tile` where rows are reduced.
        accesses: of each input, then of each result.
        target: the GPU.
    """
    sizes = tuple(size_of(d) for d in range(sweep.rank))
    b = Statements(tile.layout)
    at, grid = _coordinates(b, sizes, tile)
    reads, writes = accesses[: len(sweep.inputs)], accesses[len(sweep.inputs) :]
    _load(b, sweep, at, tile, reads)
    below = None
    if tile.row and tile.row < tile.columns:
        below = b.below(sizes[-1], 1, tile.columns)
    for term in sweep.terms:
        if term.op in ROW_REDUCTIONS:
            _reduce(b, term, tile, below)
        elif term.op == "random":
            _draw(b, term, at, tile)
        elif term.op == "first":
            b.held[term.name] = _is_first(b, term, at, tile)
        elif term.op not in ("input", "index_select"):
            b.compute(term)
    names = tensor_names(sweep)
    for out, place, access in zip(names[-len(writes) :], sweep.results, writes, strict=True):
        has = frozenset(d for d in place.dims if d is not None)
        value = _repeated(b, b.held[place.term], _shape(has, sweep.rank, tile))
        b.emit(FragStoreGlobal(_ref(out, has, at, access), value, trans=access.turned))
    storage: list[Storage] = [
        _declared(n, sweep.term(p.term), p, _sizes_of(p, sizes), access)
        for n, p, access in zip(names, sweep.places(), accesses, strict=True)
    ]
    role = Role("compute", 0, ptx.WARPS, tuple(b.body))
    params = (*sizes, *map(place_of, range(sweep.rank))) if sweep.is_random else sizes
    params += tuple(rows_of(p.term) for p in sweep.inputs if p.table)
    return Kernel(
        name, ptx.WARPGROUP, grid, params, tuple(storage), (Roles((role,)),), target=target
    )


def _single(name: str) -> Var:
    """The number that an input of a single one is."""
    return Var(f"{name}_value", ScalarType.I64)


def _element(term: Term) -> DType:
    """The type of what is read of a term's elements."""
    return DType.S32 if term.dtype is DataType.Int and term.dims else term.dtype.element


def _sizes_of(place: Place, sizes: Sequence[Var]) -> Sequence[Var]:
    """The sizes of the index space, with a table's own rows."""
    return (*sizes[:-2], rows_of(place.term), sizes[-1]) if place.table else sizes


def _load(
    b: Statements, sweep: Sweep, at: Sequence[Expr], tile: Tile, reads: Sequence[Access]
) -> None:
    """What a tile needs of the inputs, all of it in front."""
    halves = _halves(sweep)
    for place, access in zip(sweep.inputs, reads, strict=True):
        term = sweep.term(place.term)
        if term.dtype is DataType.Int and not term.dims:
            b.emit(LdGlobalScalar(_single(term.name), GmemRef(term.name, (ZERO,) * len(at))))
        elif not place.table:
            rows, cols = _shape(term.dims, sweep.rank, tile)
            made = b.new(term.name, _element(term).register, rows, cols)
            ref = _ref(term.name, term.dims, at, access)
            half = None if access.turned else halves.get(term.name)  # turned loads are of all rows
            limit = _limit(sweep, term.dims, half, at, tile) if half else None
            b.emit(FragLoadGlobal(made, ref, limit=limit, trans=access.turned))
            b.held[term.name] = made
    for term in (t for t in sweep.terms if t.op == "index_select"):
        _look_up(b, term, at, tile)


Half = tuple[str, bool]
"""A term that tells two halves apart, and whether the first one is meant."""


def _halves(sweep: Sweep) -> dict[str, Half]:
    """Of the terms that are read in one of two halves alone which that is."""
    found: dict[str, set[Half | None]] = {t.name: set() for t in sweep.terms}
    for place in sweep.results:
        found[place.term].add(None)
    for term in reversed(sweep.terms):
        told = str(term.inputs[0]) if term.op == "where" else ""
        chosen = told in found and sweep.term(told).op == "first"
        for at, name in enumerate(term.inputs):
            if isinstance(name, str):
                found[name] |= {(told, at == 1)} if chosen and at else found[term.name]
    alone = {name: next(iter(halves)) for name, halves in found.items() if len(halves) == 1}
    return {name: half for name, half in alone.items() if half is not None}


def _limit(
    sweep: Sweep, dims: Collection[int], half: Half, at: Sequence[Expr], tile: Tile
) -> Expr | None:
    """How many rows a tile reads of what is read in a half: none in the other one."""
    told, first = half
    (along,) = sweep.term(told).dims
    if along >= sweep.rank - 2 or sweep.rank - 2 not in dims:
        return None
    return (ONE - at[along] if first else at[along]) * tile.rows


def _look_up(b: Statements, term: Term, at: Sequence[Expr], tile: Tile) -> None:
    """Rows of a table: zeros where it does not have them."""
    table, index = map(str, term.inputs)
    out = b.new(term.name, term.dtype.element.register, *_shape(term.dims, len(at), tile))
    begins = [x if d in term.dims else ZERO for d, x in enumerate(at)]
    where = GmemRef(table, (*begins[:-2], ZERO, begins[-1]))
    b.emit(FragLoadGlobal(out, where, index=b.held[index]))
    b.held[term.name] = out


def _draw(b: Statements, term: Term, at: Sequence[Expr], tile: Tile) -> None:
    """Random numbers of the elements of a tile, by their places."""
    out = b.new(term.name, DType.F32, tile.rows, tile.columns)
    seed, offset = (_single(str(name)) for name in term.inputs)
    places = [place_of(d) for d in range(len(at))]
    first = at[-1]
    for where, step in zip(at[:-1], places, strict=False):
        first = first + where * step
    b.emit(FragRandom(out, seed, offset, first, places[-2]))
    b.held[term.name] = out


def _reduce(b: Statements, term: Term, tile: Tile, below: Frag | None) -> None:
    """A reduction over whole rows, which the lanes of a row find together."""
    value = b.wide(str(term.inputs[0]))
    op = "sum" if term.op == "mean" else term.op
    start = b.filled(f"{term.name}_start", NEUTRAL[op], value.type.rows, 1)
    total = b.new(f"{term.name}_total", DType.F32, value.type.rows, 1)
    b.emit(FragReduce(total, op, start, value, below))
    if term.op == "mean":
        mean = b.new(f"{term.name}_mean", DType.F32, value.type.rows, 1)
        b.emit(FragPointwise(mean, "div", (total, float(tile.row))))
        total = mean
    b.reduced(term, total)


def _coordinates(b: Statements, sizes: Sequence[Var], tile: Tile) -> tuple[tuple[Expr, ...], Expr]:
    """Where a CTA's tile begins, columns or rows fastest, and how many CTAs there are."""
    *outer, rows, columns = sizes
    counts = (*outer, ceildiv(rows, tile.rows), ceildiv(columns, tile.columns))
    steps = (*(1 for _ in outer), tile.rows, tile.columns)
    order = [*reversed(range(len(sizes)))]
    if tile.rows_first:
        order[:2] = order[1], order[0]
    found: dict[int, Expr] = {}
    left: Expr = Special("ctaid.x")
    for d in order:
        at, rest = Var(b.name(f"at{d}")), Var(b.name(f"left{d}"))
        b.emit(Let(at, (left % counts[d] if d != order[-1] else left) * steps[d]))
        if d != order[-1]:
            b.emit(Let(rest, left // counts[d]))
        found[d] = at
        left = rest
    return tuple(found[d] for d in range(len(sizes))), reduce(lambda x, y: x * y, counts)


def _is_first(b: Statements, term: Term, at: Sequence[Expr], tile: Tile) -> Frag:
    """Whether the place along a dimension is 0: of a whole tile, or of its first row or column."""
    (along,) = term.dims
    limit, behind = ONE - at[along], len(at) - 1 - along
    if behind > 1:
        return b.below(limit * tile.columns, 1, tile.columns)
    return b.below(limit, tile.rows, 1) if behind else b.below(limit, 1, tile.columns)


def _repeated(b: Statements, value: Frag, shape: tuple[int, int]) -> Frag:
    """A value as rows and columns all of which it is."""
    rows, cols = shape
    for mask in ((rows, 1), (1, cols)):
        have = value.type.rows, value.type.cols
        wide = max(have[0], mask[0]), max(have[1], mask[1])
        if wide == have:
            continue
        every, name = b.below(Const(max(mask)), *mask), f"{value.name}_all"
        if value.type.dtype is DType.PRED:
            made = b.new(name, DType.PRED, *wide)
            b.emit(FragPointwise(made, "logical_and", (every, value)))
            value = made
        else:
            made = b.new(name, DType.F32, *wide)
            b.emit(FragPointwise(made, "where", (every, value, value)))
            value = b.narrowed(made, value.type.dtype)
    return value


def _shape(dims: Collection[int], rank: int, tile: Tile) -> tuple[int, int]:
    """Rows and columns of a tile of a tensor that has these dimensions."""
    return tile.rows if rank - 2 in dims else 1, tile.columns if rank - 1 in dims else 1


def _ref(name: str, dims: Collection[int], at: Sequence[Expr], access: Access) -> GmemRef:
    where = [x if d in dims else ZERO for d, x in enumerate(at)]
    if access.turned:
        where[-2:] = where[:-3:-1]
    return GmemRef(name, tuple(where))


def _declared(
    name: str, term: Term, place: Place, sizes: Sequence[Expr], access: Access
) -> GlobalTensor:
    has = [size if d in place.dims else ONE for d, size in enumerate(sizes)]
    if access.turned:
        has[-2:] = has[:-3:-1]
    return GlobalTensor(name, _element(term), tuple(has), access.align)
