"""Products of tiles: which slices of K of which rows are multiplied, and added up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from lowering.kernel.compute import Wgmma
from lowering.kernel.operands import Frag, Stmt
from lowering.kernel.tensor_memory import Tcgen05Mma
from lowering.proof.board import Event, Walker
from lowering.proof.flow import Flow
from lowering.proof.stages import Ref, Spot, asks
from lowering.proof.tile import NOTHING, Along, Piece, Term, Terms, Tile, repeated

__all__ = ["BY_ONE", "BY_WARPGROUP", "added"]

SLICE_BYTES = 32
"""Of each row of both operands that one instruction multiplies (PTX ISA, "Matrix shape" of wgmma
and of tcgen05.mma: K is 8 of 32 bits, 16 of 16, 32 of 8)."""

_ROWS_OF_TENSOR = 128
"""Of a ``tcgen05.mma``."""


def _operand(w: Walker, ref: Ref | Frag, trans: bool, rows: int, k: int, at: Iterator[int]) -> Tile:
    """The rows of an operand, with the slice of K that is multiplied as columns."""
    if isinstance(ref, Frag):
        return w.frags[ref.name]
    return _rows(w, Spot.of(w, ref, at), trans, rows, k)


def _rows(w: Walker, spot: Spot, trans: bool, rows: int, k: int) -> Tile:
    """Rows of an operand from a place on."""
    return spot.take(w, k, rows).transposed() if trans else spot.take(w, rows, k)


@lru_cache(maxsize=1 << 12)
def _product(a: Terms, b: Terms, k: int) -> Terms | str:
    """What a product of two operands is of; a string says what is wrong."""
    reads = [r for t in a for r in t.reads], [r for t in b for r in t.reads]
    begins = {r.summed(Along.COLS): r.tensor for side in reads for r in side}
    begins.pop(None, None)
    if len(begins) > 1:
        said = " by ".join(f"{name} from {at} on" for at, name in begins.items())
        return f"{said} along K"
    runs = {r.begin for side in reads for r in side if r.summed(Along.COLS) is not None}
    if len(runs) > 1:
        return "rows of different runs"
    over = {Along.SUMMED: Along.ANY, Along.COLS: Along.SUMMED}
    mine = (r.turned(over) for r in reads[0])
    its = (r.turned({**over, Along.ROWS: Along.COLS}) for r in reads[1])
    front = next((begin for begin in runs if begin is not None), None)
    slices = tuple(
        (at if front is None else max(at, front), at + k)
        for at in begins
        if at is not None and (front is None or at + k > front)
    )
    return frozenset({Term(frozenset((*mine, *its)), slices)})


def _multiplied(w: Walker, a: Tile, b: Tile, k: int) -> Tile:
    """A product; what nobody has loaded makes nothing."""
    flow, pieces = w.board.flow, []
    for p in a.pieces:
        for q in b.pieces:
            if (p.left, p.right, q.left, q.right) != (0, k, 0, k):
                flow.wrong.append("a part of a slice of K is multiplied")
                continue
            key = p.terms, q.terms, k
            if key not in flow.products:
                flow.products[key] = _checked(flow, *key)
            terms, wrong = flow.products[key]
            if wrong:
                flow.wrong += (f"CTA {w.cta} multiplies {why}" for why in wrong)
            pieces.append(Piece(p.top, p.bottom, q.top, q.bottom, terms))
    return Tile(a.rows, b.rows, tuple(pieces))


def _checked(flow: Flow, a: Terms, b: Terms, k: int) -> tuple[Terms, tuple[str, ...]]:
    """What a product is of, and what is wrong with it."""
    wrong = [x for t in (*a, *b) for x in flow.partial(t)]
    terms = _product(a, b, k)
    if isinstance(terms, str):
        return NOTHING, (*wrong, terms)
    return terms, tuple(wrong)


def added(w: Walker, before: Tile, more: Tile) -> Tile:
    """A sum, in which no slice is twice."""
    for p in before.pieces:
        for q in more.pieces:
            if (twice := repeated(p.terms, q.terms)) and p.within(*q.place) is not None:
                names = " and ".join(sorted({r.tensor for r in twice.reads}))
                w.board.flow.wrong.append(f"a slice of K of {names} is added twice")
    return before.with_(more)


def _wgmma(stmt: Wgmma, w: Walker, threads: int, values: list[int]) -> bool:
    rows, width, given = stmt.acc.type.rows, stmt.width, iter(values)
    k = SLICE_BYTES // w.board.buffers[stmt.b.buffer].dtype.bytes
    a = _operand(w, stmt.a, stmt.trans_a, rows, k, given)
    b = _operand(w, stmt.b, stmt.trans_b, width, k, given)
    made, acc = _multiplied(w, a, b, k), w.frags[stmt.acc.name]
    if next(given):
        made = added(w, acc.cut(0, stmt.col, rows, width), made)
    w.frags[stmt.out.name] = acc.put(0, stmt.col, made)
    return True


def _tcgen05(stmt: Tcgen05Mma, w: Walker, threads: int, values: list[int]) -> bool:
    """Each CTA of the group, of which the first one issues, has its rows of A, as many of B as the
    others, and sums of its own.
    """
    given, rows, group = iter(values), _ROWS_OF_TENSOR, range(w.board.kernel.target.mma.ctas)
    k = SLICE_BYTES // w.board.buffers[stmt.b.buffer].dtype.bytes
    a, b, sums = (Spot.of(w, ref, given) for ref in (stmt.a, stmt.b, stmt.d))
    keeps, cols, columns = next(given), stmt.cols // len(group), Tile(stmt.cols, k)
    for n in group:
        part = _rows(w, b.beside(n), stmt.trans_b, cols, k)
        columns = columns.put(n * cols, 0, part)
    for n in group:
        mine, own = sums.beside(n), _rows(w, a.beside(n), stmt.trans_a, rows, k)
        made = _multiplied(w, own, columns, k)
        mine.put(w, added(w, mine.take(w, rows, stmt.cols), made) if keeps else made)
    return True


BY_ONE: Mapping[type[Stmt], Event] = {
    Tcgen05Mma: Event(lambda k, s: (*asks(s.a, s.b, s.d), s.accumulate), _tcgen05),
}
BY_WARPGROUP: Mapping[type[Stmt], Event] = {
    Wgmma: Event(lambda k, s: (*asks(s.a, s.b), s.accumulate), _wgmma),
}
