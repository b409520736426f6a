"""What is computed in registers, and what goes between them and memory of the CTA or of the grid,
as tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from itertools import permutations

from lowering.ground.expr import Expr
from lowering.kernel.compute import (
    FragCast,
    FragColumns,
    FragFill,
    FragPointwise,
    FragRows,
    FragUpdate,
    LdMatrix,
    LdShared,
    WgmmaWait,
)
from lowering.kernel.kernel import Kernel
from lowering.kernel.memory import StMatrix, StShared
from lowering.kernel.operands import Frag, SmemRef, Stmt
from lowering.kernel.partial import FragAddPartial, FragStorePartial
from lowering.kernel.random import FragRandom
from lowering.kernel.reduction import (
    WARP_ROWS,
    FragBelow,
    FragReduce,
    FragReduceFromShared,
    FragReduceToShared,
)
from lowering.kernel.shuffle import FragShuffle
from lowering.kernel.tensor_memory import Tcgen05Load, Tcgen05WaitLoad
from lowering.proof.board import Event, Walker
from lowering.proof.multiply import added
from lowering.proof.reductions import Reduction
from lowering.proof.stages import Spot, asks
from lowering.proof.tile import Tile
from lowering.proof.transfers import row_of_warps

__all__ = ["VALUES"]

_Changed = FragCast | FragShuffle
_Same = _Changed | WgmmaWait | Tcgen05WaitLoad


def _filled(stmt: FragFill | FragRandom, w: Walker, n: int, values: list[int]) -> bool:
    w.frags[stmt.out.name] = Tile.of(stmt.out.type.rows, stmt.out.type.cols)
    return True


def _same(stmt: _Same, w: Walker, threads: int, values: list[int]) -> bool:
    value = stmt.value if isinstance(stmt, _Changed) else stmt.acc
    w.frags[stmt.out.name] = w.frags[value.name]
    return True


def _cut(stmt: FragColumns | FragRows, w: Walker, threads: int, values: list[int]) -> bool:
    top, left = (0, values[0]) if isinstance(stmt, FragColumns) else (values[0], 0)
    out = stmt.out.type
    w.frags[stmt.out.name] = w.frags[stmt.value.name].cut(top, left, out.rows, out.cols)
    return True


def _pointwise(stmt: FragPointwise | FragUpdate, w: Walker, n: int, values: list[int]) -> bool:
    part = stmt.out.type if isinstance(stmt, FragPointwise) else stmt.part
    found = _computed(stmt, w, part.rows, part.cols)
    if isinstance(stmt, FragUpdate):
        found = w.frags[stmt.acc.name].put(stmt.row, stmt.col, found)
    w.frags[stmt.out.name] = found
    return True


def _computed(stmt: FragPointwise | FragUpdate, w: Walker, rows: int, cols: int) -> Tile:
    """What an operation makes: a tile of so many rows and columns."""
    flow, found = w.board.flow, Tile.of(rows, cols)
    limits = flow.limits
    read = [x for x in stmt.args if isinstance(x, Frag)]
    read = [x for x in read if x.name not in limits or stmt.out.name in limits]
    tiles = [w.frags[x.name] for x in read]
    if isinstance(stmt, FragUpdate):
        tiles.insert(0, w.frags[stmt.acc.name].cut(stmt.row, stmt.col, rows, cols))
    for one, other in permutations(tiles, 2):
        flow.scale(stmt.op, one, other)
    tiles = [tile.spread(rows, cols) for tile in tiles]
    for tile in _of_groups(w, tiles):
        sums = isinstance(stmt, FragUpdate) and stmt.op == "add"
        found = added(w, found, tile) if sums else found.with_(tile)
    return found


def _of_groups(w: Walker, tiles: list[Tile]) -> Iterator[Tile]:
    """Tiles that are computed with each other; numbers of groups of columns are of no place."""
    for n, tile in enumerate(tiles):
        others = (other for at, other in enumerate(tiles) if at != n)
        yield reduce(w.board.flow.of_groups, others, tile)


def _below(stmt: FragBelow, w: Walker, threads: int, values: list[int]) -> bool:
    """Of rows, or columns, those in front of the limit are known, and no others. A mask by both, or
    by other numbers than these, leaves everything as it is.
    """
    rows, cols = stmt.out.type.rows, stmt.out.type.cols
    if (rows == 1) == (cols == 1) or (stmt.down, stmt.right) != (1, 1):
        w.frags[stmt.out.name] = Tile.of(rows, cols)
        return True
    rows_in = min(rows, max(values[0], 0)) if cols == 1 else rows
    cols_in = cols if cols == 1 else min(cols, max(values[0], 0))
    tile = Tile(rows, cols)
    if rows_in and cols_in:
        tile = tile.put(0, 0, Tile.of(rows_in, cols_in))
    w.frags[stmt.out.name] = tile
    return True


def _counted(stmt: Reduction, w: Walker) -> Tile:
    """What is reduced. Note if it is not what lies in front of the ends of the tensors that it is
    made of; ends of groups are another matter.
    """
    flow, value = w.board.flow, w.frags[stmt.value.name]
    if stmt.factor is not None:
        both = Frag("", stmt.value.type)
        made = FragPointwise(both, "mul", (stmt.value, stmt.factor))
        value = _computed(made, w, value.rows, value.cols)
    below = None if stmt.below is None else w.frags[stmt.below.name]
    for way, size, taken in flow.reductions.taken(stmt, value, below):
        flow.reduced(value, way, size, taken)
    return value


def _reduced(stmt: FragReduce, w: Walker, threads: int, values: list[int]) -> bool:
    out = stmt.out.type
    tile = _counted(stmt, w).reduced(out.rows, out.cols)
    w.frags[stmt.out.name] = w.frags[stmt.acc.name].with_(tile)
    return True


def _to_shared(stmt: StMatrix | StShared, w: Walker, threads: int, values: list[int]) -> bool:
    given, tile = iter(values), w.frags[stmt.value.name]
    tile = tile.transposed() if isinstance(stmt, StMatrix) and stmt.trans else tile
    Spot.of(w, stmt.dst, given).in_peer(w, next(given, None)).put(w, tile)
    return True


def _from_shared(
    stmt: LdMatrix | LdShared | Tcgen05Load, w: Walker, threads: int, values: list[int]
) -> bool:
    given, out = iter(values), stmt.out.type
    spot = Spot.of(w, stmt.src, given).in_peer(w, next(given, None))
    w.frags[stmt.out.name] = spot.take(w, out.rows, out.cols)
    return True


def _rows_to_shared(stmt: FragReduceToShared, w: Walker, n: int, values: list[int]) -> bool:
    cols = stmt.value.type.cols
    row = _counted(stmt, w).reduced(WARP_ROWS, cols)
    Spot.of(w, stmt.dst, iter(values)).put(w, row)
    return True


def _rows_from_shared(stmt: FragReduceFromShared, w: Walker, n: int, values: list[int]) -> bool:
    row = row_of_warps(w, stmt.src, stmt.rows, stmt.out.type.cols, values)
    w.frags[stmt.out.name] = w.frags[stmt.acc.name].with_(row)
    return True


def _kept(stmt: FragStorePartial, w: Walker, threads: int, values: list[int]) -> bool:
    slot = stmt.dst.array, values[0]
    w.board.told.store((w.cta, w.group), slot)
    w.board.flow.slots[slot] = w.frags[stmt.value.name]
    return True


def _fetched(stmt: FragAddPartial, w: Walker, threads: int, values: list[int]) -> bool:
    out = stmt.out.type
    slot = stmt.src.array, values[0]
    if why := w.board.told.add((w.cta, w.group), slot):
        w.board.flow.wrong.append(why)
    part = w.board.flow.slots.get(slot, Tile(out.rows, out.cols))
    w.frags[stmt.out.name] = added(w, w.frags[stmt.acc.name], part)
    return True


def _none(kernel: Kernel, stmt: Stmt) -> tuple[Expr, ...]:
    return ()


def _peer_asks(ref: SmemRef, cta: Expr | None) -> tuple[Expr, ...]:
    return (*asks(ref), *(() if cta is None else (cta,)))


VALUES: Mapping[type[Stmt], Event] = {
    **dict.fromkeys((FragFill, FragRandom), Event(_none, _filled)),
    **dict.fromkeys((FragCast, FragShuffle, Tcgen05WaitLoad, WgmmaWait), Event(_none, _same)),
    **dict.fromkeys((FragColumns, FragRows), Event(lambda k, s: (s.start,), _cut)),
    **dict.fromkeys((FragPointwise, FragUpdate), Event(_none, _pointwise)),
    **dict.fromkeys((LdMatrix, Tcgen05Load), Event(lambda k, s: asks(s.src), _from_shared)),
    FragAddPartial: Event(lambda k, s: (s.src.index,), _fetched),
    FragBelow: Event(lambda k, s: (s.limit,), _below),
    FragReduce: Event(_none, _reduced),
    FragReduceFromShared: Event(lambda k, s: asks(s.src), _rows_from_shared),
    FragReduceToShared: Event(lambda k, s: asks(s.dst), _rows_to_shared),
    FragStorePartial: Event(lambda k, s: (s.dst.index,), _kept),
    LdShared: Event(lambda k, s: _peer_asks(s.src, s.cta), _from_shared),
    StMatrix: Event(lambda k, s: asks(s.dst), _to_shared),
    StShared: Event(lambda k, s: _peer_asks(s.dst, s.cta), _to_shared),
}
"""What a warpgroup does with values."""
