"""Data on the way between global memory and stages or registers, as tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product

from lowering.ground.expr import ZERO, Expr
from lowering.kernel.compute import FragLoadGlobal
from lowering.kernel.copy_tile import CopyTile
from lowering.kernel.cp_async import CpAsync
from lowering.kernel.kernel import Kernel
from lowering.kernel.memory import FragStoreGlobal, TmaLoad, TmaStore
from lowering.kernel.operands import Frag, GmemRef, SmemRef, Stmt
from lowering.kernel.reduction import WARP_ROWS, FragRedGlobal, FragStoreReduced
from lowering.kernel.tensors import Ragged
from lowering.proof.board import Event, Walker
from lowering.proof.flow import Result
from lowering.proof.stages import Spot, asks
from lowering.proof.tile import Along, Read, Term, Terms, Tile

__all__ = ["BY_ONE", "BY_THREADS", "row_of_warps"]

_ALONG = (Along.ROWS, Along.COLS)

_ByThreads = FragLoadGlobal | CpAsync | CopyTile
_Store = TmaStore | FragStoreReduced | FragStoreGlobal | FragRedGlobal


def _read(
    w: Walker, name: str, entry: int, at: Sequence[int],
    gone: frozenset[int] = frozenset(), begin: int | None = None,
) -> Terms:  # fmt: skip
    """What is at a place of a tensor, along whose last two dimensions rows and columns lie, and
    the first of a tile's; ``gone`` are those whose coordinate is known to nobody. A run of rows has
    a ``begin``.
    """
    ways = [Along.FIXED] * (len(at) - 2) + [*_ALONG][-len(at) :]
    extents = w.board.flow.sizes(name, entry)
    free = [d in gone or extents[d] == 1 for d in range(len(at))]
    along = tuple(Along.ANY if f else way for f, way in zip(free, ways, strict=True))
    places = tuple(0 if f else x for f, x in zip(free, at, strict=True))
    return _elements(name, entry, places, along, begin)


@lru_cache(maxsize=1 << 14)
def _elements(
    name: str, entry: int, at: tuple[int, ...], along: tuple[Along, ...], begin: int | None
) -> Terms:
    """What is made of one tensor; the same object again, which is compared at once."""
    return frozenset({Term(frozenset({Read(name, entry, at, along, begin)}))})


def _copied(stmt: TmaLoad, w: Walker, threads: int, values: list[int]) -> bool:
    """One box, into a stage of each CTA that it goes to."""
    source = w.board.maps[stmt.src.map]
    given = iter(values)
    spot = Spot.of(w, stmt.dst, given)
    entry, mask, *at = given
    box = source.box_of(w.board.flow.sizes(source.name, entry))
    ranks = range(w.board.kernel.cluster)
    spots = [spot.in_peer(w, r) for r in ranks if mask >> r & 1] if mask else [spot]
    for number, outer in enumerate(product(*map(range, box[:-2]))):
        rows = box[-2] if len(box) > 1 else 1
        place = [x + n for x, n in zip(at, (*outer, 0, 0)[-len(at) :], strict=True)]
        begin = place[0] if source.ragged is Ragged.BEGIN else None
        if begin is not None:
            place = [begin + place[1], place[2]]
        terms = _read(w, source.name, entry, place, begin=begin)
        for each in spots:
            each.below(number * rows).put(w, Tile.of(rows, box[-1], terms))
    return True


def _copy_asks(kernel: Kernel, stmt: TmaLoad) -> tuple[Expr, ...]:
    src = stmt.src
    return (*asks(stmt.dst), src.entry or ZERO, stmt.multicast or ZERO, *src.coords)


def _by_threads(stmt: _ByThreads, w: Walker, threads: int, values: list[int]) -> bool:
    """A tile that threads load, to registers or into a stage."""
    given = iter(values)
    into = None if isinstance(stmt, FragLoadGlobal) else Spot.of(w, stmt.dst, given)
    rows, cols = _shape(stmt)
    limit = rows if _limit(stmt) is None else max(min(next(given), rows), 0)
    entry, *at = given
    trans = isinstance(stmt, FragLoadGlobal) and stmt.trans
    indexed = not isinstance(stmt, CopyTile) and stmt.index is not None
    terms = _read(w, stmt.src.map, entry, at, frozenset({len(at) - 2} if indexed else ()))
    shape = (cols, rows) if trans else (rows, cols)
    tile = Tile.of(*shape, terms)
    tile = tile.transposed() if trans else tile
    if limit < rows:
        tile = tile.put(limit, 0, Tile.of(rows - limit, cols))
    if isinstance(stmt, FragLoadGlobal):
        w.frags[stmt.out.name] = tile
    elif into is not None:
        into.put(w, tile)
    return True


def _shape(stmt: _ByThreads) -> tuple[int, int]:
    found = stmt.out.type if isinstance(stmt, FragLoadGlobal) else stmt
    return found.rows, found.cols


def _limit(stmt: _ByThreads) -> Expr | None:
    return None if isinstance(stmt, CopyTile) else stmt.limit


def _thread_asks(kernel: Kernel, stmt: _ByThreads) -> tuple[Expr, ...]:
    into = () if isinstance(stmt, FragLoadGlobal) else asks(stmt.dst)
    limit = _limit(stmt)
    return (*into, *(() if limit is None else (limit,)), stmt.src.entry or ZERO, *stmt.src.coords)


def _stored(
    w: Walker, ref: GmemRef, entry: int, at: Sequence[int], tile: Tile, indexed: bool = False,
    several: bool = False, counted: int | None = None,
) -> None:  # fmt: skip
    """A tile goes to a tensor, as far as it lies in it. ``indexed`` are its rows by numbers, of
    which the first one is ``counted`` so in the tensor that has them.
    """
    target = w.board.maps.get(ref.map)
    if target is not None and target.device:
        return
    extents, at = w.board.flow.sizes(ref.map, entry), list(at)
    outer, (row, col) = tuple(at[:-2]), (0, *at)[-2:]
    height, width = (1, *extents)[-2:]
    if target is not None and target.ragged:
        row, height, outer = at[0] - height + row, at[0], ()
    if any(not 0 <= x < n for x, n in zip(outer, extents, strict=False)):
        return
    top, left = max(-row, 0), max(-col, 0)
    rows = tile.rows if indexed else min(tile.rows, height - row) - top
    cols = min(tile.cols, width - col) - left
    if rows > 0 and cols > 0:
        array = w.board.flow.array(ref.map)
        first = counted if indexed else row + top
        place = Result(ref.map, entry if array else None, outer, first, col + left)
        w.board.flow.store(place, tile.cut(top, left, rows, cols), several)


def _box_stored(stmt: TmaStore, w: Walker, threads: int, values: list[int]) -> bool:
    entry, at = values[0], values[1 : 1 + len(stmt.dst.coords)]
    box = w.board.maps[stmt.dst.map].box
    spot = Spot.of(w, stmt.src, iter(values[1 + len(at) :]))
    rows = box[-2] if len(box) > 1 else 1
    for number, outer in enumerate(product(*map(range, box[:-2]))):
        place = [x + n for x, n in zip(at, (*outer, 0, 0)[-len(at) :], strict=True)]
        _stored(w, stmt.dst, entry, place, spot.below(number * rows).take(w, rows, box[-1]))
    return True


def _tile_stored(
    stmt: FragStoreGlobal | FragRedGlobal, w: Walker, threads: int, values: list[int]
) -> bool:
    adds = isinstance(stmt, FragRedGlobal)
    rank = len(stmt.dst.coords)
    limits, tile = iter(values[1 + rank :]), w.frags[stmt.value.name]
    rows = tile.rows if stmt.limit is None else min(tile.rows, next(limits))
    narrow = None if isinstance(stmt, FragRedGlobal) else stmt.limit_cols
    cols = tile.cols if narrow is None else min(tile.cols, next(limits))
    if rows > 0 and cols > 0:
        tile = tile.cut(0, 0, rows, cols)
        tile = tile.transposed() if isinstance(stmt, FragStoreGlobal) and stmt.trans else tile
        numbers, indexed = _counted(w, stmt.index), stmt.index is not None
        several = adds and numbers is None  # rows that are counted are added once, whole
        _stored(w, stmt.dst, values[0], values[1 : 1 + rank], tile, indexed, several, numbers)
    return True


def _counted(w: Walker, index: Frag | None) -> int | None:
    """The row of a tensor of numbers that the first of an index is; None of any other index."""
    tile = None if index is None else w.frags.get(index.name)
    pieces = () if tile is None else tile.pieces
    reads = {r for p in pieces for t in p.terms for r in t.reads}
    if len(reads) != 1:
        return None
    (read,) = reads
    rows = [x for x, way in zip(read.at, read.along, strict=True) if way is Along.ROWS]
    return rows[0] if rows else read.at[-2] if len(read.at) > 1 else None


def row_of_warps(w: Walker, src: SmemRef, rows: int, cols: int, values: Sequence[int]) -> Tile:
    """Rows of shared memory put together to one: those of all warps of warpgroups, since each warp
    has stored one of a part of their tile.
    """
    if rows % WARP_ROWS or values[1] % WARP_ROWS:
        said = f"{rows} rows of {src.buffer} from {values[1]} on"
        w.board.flow.wrong.append(f"{said} are not those of whole warpgroups")
    return Spot.of(w, src, iter(values)).take(w, rows, cols).reduced(1, cols)


def _row_stored(stmt: FragStoreReduced, w: Walker, threads: int, values: list[int]) -> bool:
    rank = 1 + len(stmt.dst.coords)
    row = row_of_warps(w, stmt.src, stmt.rows, stmt.cols, values[rank:])
    _stored(w, stmt.dst, values[0], values[1:rank], row)
    return True


# --- tables ---------------------------------------------------------------------------------------


def _global(stmt: _Store) -> tuple[Expr, ...]:
    return stmt.dst.entry or ZERO, *stmt.dst.coords


def _given(*found: Expr | None) -> tuple[Expr, ...]:
    return tuple(e for e in found if e is not None)


BY_ONE: Mapping[type[Stmt], Event] = {
    TmaLoad: Event(_copy_asks, _copied),
    TmaStore: Event(lambda k, s: (*_global(s), *asks(s.src)), _box_stored),
}
"""Boxes, which one thread copies."""

BY_THREADS: Mapping[type[Stmt], Event] = {
    **dict.fromkeys((CopyTile, CpAsync, FragLoadGlobal), Event(_thread_asks, _by_threads)),
    FragRedGlobal: Event(lambda k, s: (*_global(s), *_given(s.limit)), _tile_stored),
    FragStoreGlobal: Event(
        lambda k, s: (*_global(s), *_given(s.limit, s.limit_cols)), _tile_stored
    ),
    FragStoreReduced: Event(lambda k, s: (*_global(s), *asks(s.src)), _row_stored),
}
"""Tiles that a warpgroup loads and stores."""
