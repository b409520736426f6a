"""Where a grid reads and writes global memory: no coordinate is negative, each result is written
once.

TMA and the guards of threads' accesses leave out what is behind a tensor's end, of each dimension
by itself, so a box that begins within a matrix ends in it: only a coordinate in front of the first
one, or the place of another box, can reach what is somebody else's, in a batch or a group as well.
Every element of a result being written by one box, and one only, says both for all stores; of
groups every element of each, or of what is a kernel's part of it, and none beside these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod

from lowering.ground.dtypes import DType
from lowering.ground.expr import ZERO, Expr, Var, as_expr, evaluate
from lowering.kernel.compute import FragLoadGlobal
from lowering.kernel.copy_tile import CopyTile
from lowering.kernel.cp_async import CpAsync
from lowering.kernel.kernel import GlobalTensor, Kernel, TensorMap
from lowering.kernel.memory import FragStoreGlobal, TmaLoad, TmaStore
from lowering.kernel.operands import GmemRef, Stmt
from lowering.kernel.reduction import FragRedGlobal, FragStoreReduced
from lowering.kernel.scalar_memory import LdGlobalScalar, StGlobalScalar
from lowering.kernel.tensors import Ragged
from lowering.kernel.traits import Threads
from lowering.kernel.visit import walk
from lowering.proof.board import Board, Env, Event, Region, Walker
from lowering.proof.events import EVENTS
from lowering.proof.obligation import UnknownError

__all__ = ["STEPS", "misplaced"]

_Load = FragLoadGlobal | CopyTile | CpAsync
_Store = TmaStore | FragStoreGlobal | FragStoreReduced


def misplaced(kernel: Kernel, board: Board, sizes: Env) -> str:
    """What is wrong with the accesses of a grid that has come to its end; empty if nothing is.

    Raises:
        UnknownError: the kernel has a share of groups whose ends are not in one table.
    """
    if board.wrong:
        return min(board.wrong)
    added = _rows_added(kernel)
    several, mine = _several(kernel) - {*added}, board.memory.parts()
    if kernel.share and mine is None:
        raise UnknownError("where groups end that kernels share out is not known")
    whole_rows = mine is not None or _ends_reach(kernel, board, sizes)
    for name, entry in sorted({*board.writes, *_results(kernel, sizes)}):
        if name in several:
            continue
        dims = _sizes(kernel, name, added)
        extents = _extents(dims, entry, sizes)
        regions = board.writes.get((name, entry), ())
        for d in range(len(extents)):
            board.flow.reach(dims[d], max((region[d][1] for region in regions), default=0))
        boxes = {r: _clipped(r, extents) for r in regions}
        boxes = {r: inside for r, inside in boxes.items() if _count(inside)}
        inside = sorted(boxes[r] for r in regions if r in boxes)
        for one, other in _overlapping(inside) if _several_grids(boxes, inside) else ():
            return f"{name}{_text(one)} and {name}{_text(other)} are both written"
        written, whole = sum(map(_count, inside)), prod(extents)
        at = _along(dims, board.memory.bounds)
        if mine is not None and at is not None:
            for region in inside:
                first, last = region[at]
                if not any(p.start <= first and last <= p.stop for p in mine):
                    return f"{name}{_text(region)} is written, which is no part of its own"
            whole = whole // max(extents[at], 1) * sum(map(len, mine))
        if written != whole and whole_rows:
            return f"{written} of {whole} elements of {name} are written"
    return ""


def _along(dims: Sequence[Expr], bounds: frozenset[str]) -> int | None:
    """The dimension of a result that groups are of; None of what is summed over groups, and of
    what has one number for each.
    """
    sizes = enumerate(dims)
    return next((d for d, e in sizes if isinstance(e, Var) and e.name in bounds), None)


def _numbers(kernel: Kernel) -> dict[str, GlobalTensor]:
    """Of indices that are loaded the tensors that have them, by the fragments' names."""
    loads = (s for s in walk(kernel.body) if isinstance(s, FragLoadGlobal))
    plain = (s for s in loads if not s.trans and s.index is None and len(s.src.coords) > 1)
    return {s.out.name: kernel.global_tensor(s.src.map) for s in plain}


def _rows_added(kernel: Kernel) -> dict[str, GlobalTensor]:
    """The tensors that rows are added to by numbers, which count them: row ``r`` of these is added
    to the row that number ``r`` says. Of such a result it is claimed that each row is added once.
    """
    numbers = _numbers(kernel)
    stores = [s for s in walk(kernel.body) if isinstance(s, FragRedGlobal)]
    found = {
        s.dst.map: numbers[s.index.name]
        for s in stores if s.op == "add" and s.index is not None and s.index.name in numbers
    }  # fmt: skip
    return {
        name: tensor for name, tensor in found.items()
        if all(s.index and numbers.get(s.index.name) == tensor for s in stores if s.dst.map == name)
    }  # fmt: skip


def _ends_reach(kernel: Kernel, board: Board, sizes: Env) -> bool:
    """Whether there are no groups, whose ends memory says, or the last of them ends where that does
    which they are of: then all of it is somebody's.
    """
    tables = {s.src.map for s in walk(kernel.body) if isinstance(s, LdGlobalScalar)}
    for name in tables:
        last = [n - 1 for n in _extents(_sizes(kernel, name, {}), 0, sizes)]
        if min(last) < 0 or board.memory(name, last) < board.memory.largest:
            return False
    return True


def _results(kernel: Kernel, sizes: Env) -> Iterator[tuple[str, int]]:
    """The tensors, and the entries of arrays of them, that are stored to somewhere."""
    stores = _Store | FragRedGlobal
    for name in {s.dst.map for s in walk(kernel.body) if isinstance(s, stores)}:
        tensor = kernel.find(TensorMap, name) or kernel.global_tensor(name)
        count = 1 if tensor.count is None else evaluate(as_expr(tensor.count), sizes)
        yield from ((name, entry) for entry in range(count))


def _several(kernel: Kernel) -> set[str]:
    """Tensors that more than one may write to, or that are written by an index."""
    found = set[str]()
    for stmt in walk(kernel.body):
        match stmt:
            case FragRedGlobal(dst=dst) | StGlobalScalar(dst=dst):
                found.add(dst.map)
            case FragStoreGlobal(dst=dst, index=index) if index is not None:
                found.add(dst.map)
            case TmaStore(dst=dst) if kernel.tensor_map(dst.map).device:
                found.add(dst.map)
    return found


def _extents(dims: Sequence[Expr], entry: int, sizes: Env) -> tuple[int, ...]:
    """Of a tensor, or of an entry of an array of them."""
    return tuple(evaluate(e, sizes | {"entry": entry}) for e in dims)


def _sizes(kernel: Kernel, name: str, added: Mapping[str, GlobalTensor]) -> tuple[Expr, ...]:
    """Extents in words; of what rows are ``added`` to those are as many as there are numbers."""
    tensor = kernel.find(TensorMap, name)
    found = kernel.global_tensor(name).sizes if tensor is None else tensor.behind
    return (*found[:-2], added[name].rows, found[-1]) if name in added else found


def _clipped(region: Region, extents: Sequence[int]) -> Region:
    return tuple((a, min(b, n)) for (a, b), n in zip(region, extents, strict=True))


def _count(region: Region) -> int:
    return prod(max(b - a, 0) for a, b in region)


def _overlapping(regions: Sequence[Region]) -> Iterator[tuple[Region, Region]]:
    """Pairs that share an element; ``regions`` are sorted."""
    for n, one in enumerate(regions):
        for other in regions[n + 1 :]:
            if other[0][0] >= one[0][1]:
                break
            if all(a < d and c < b for (a, b), (c, d) in zip(one, other, strict=True)):
                yield one, other


def _several_grids(boxes: Collection[Region], inside: Collection[Region]) -> bool:
    """Whether boxes are not all different ones of one grid."""
    grids = {tuple((b - a, a % (b - a)) for a, b in region) for region in boxes}
    return len(boxes) < len(inside) or len(grids) > 1


def _text(region: Region) -> str:
    return f"[{', '.join(f'{a}..{b}' for a, b in region)}]"


def _place(ref: GmemRef) -> tuple[Expr, ...]:
    return ref.entry or ZERO, *ref.coords


def _negative(w: Walker, ref: GmemRef, values: Sequence[int]) -> None:
    """Note a coordinate in front of the first one, but for rows in front of a run."""
    source = w.board.maps.get(ref.map)
    free = len(values) - 2 if source is not None and source.ragged is Ragged.BEGIN else -1
    if any(v < 0 for n, v in enumerate(values) if n != free):
        w.board.wrong.add(f"{ref.map}[{', '.join(map(str, values))}] is accessed")


def _loaded(stmt: _Load, w: Walker, threads: int, values: list[int]) -> bool | Env:
    """An access; of a column of numbers of rows, the row of the first one."""
    _negative(w, stmt.src, values[1:])
    if not isinstance(stmt, FragLoadGlobal) or stmt.out.type.dtype is not DType.S32:
        return True
    whole = stmt.limit is None and len(values) > 2 and not any((*values[1:-2], values[-1]))
    return {stmt.out.name: values[-2]} if whole else True


def _copied(stmt: TmaLoad, w: Walker, threads: int, values: list[int]) -> bool:
    rank = len(stmt.src.coords)
    _negative(w, stmt.src, values[-rank:])
    return bool(EVENTS[TmaLoad].does(stmt, w, threads, values[:-rank]))


def _stored(stmt: _Store, w: Walker, threads: int, values: list[int]) -> bool:
    ref, rank = stmt.dst, len(stmt.dst.coords)
    entry, at = values[0], values[1 : 1 + rank]
    _negative(w, ref, at)
    box = _box(w.board, stmt, values[1 + rank :])
    region = tuple((a, a + n) for a, n in zip(at, box[len(box) - rank :], strict=True))
    target = w.board.maps.get(ref.map)
    if target is not None and target.ragged:
        (end, _), (first, last), cols = region
        rows = w.board.rows_of(target)
        region = (end - rows + first, end - rows + min(last, rows)), cols
    times = w.groups if stmt.TRAITS.threads is Threads.WARPGROUP else threads
    w.board.writes.setdefault((ref.map, entry), []).extend([region] * times)
    return True


def _red(stmt: FragRedGlobal, w: Walker, threads: int, values: list[int]) -> bool:
    """Rows onto those that numbers say, as the numbers count them."""
    rank = len(stmt.dst.coords)
    entry, at, given = values[0], values[1 : 1 + rank], values[1 + rank :]
    _negative(w, stmt.dst, at)
    if len(given) > (stmt.limit is not None):  # the first number's row is known
        if at[-2]:
            w.board.wrong.add(f"numbers of rows of {stmt.dst.map} count from {at[-2]} on")
        first, kind = given[0], stmt.value.type
        rows = kind.rows if stmt.limit is None else max(min(kind.rows, given[1]), 0)
        spans = ((first, first + rows), (at[-1], at[-1] + kind.cols))
        region = (*((x, x + 1) for x in at[:-2]), *spans)
        w.board.writes.setdefault((stmt.dst.map, entry), []).extend([region] * w.groups)
    return True


def _red_asks(kernel: Kernel, stmt: FragRedGlobal) -> tuple[Expr, ...]:
    index = "" if stmt.index is None else stmt.index.name
    rows = (Var(index),) if index in _numbers(kernel) else ()
    limit = () if stmt.limit is None else (stmt.limit,)
    return *_place(stmt.dst), *rows, *limit


def _box(board: Board, stmt: _Store, limits: Sequence[int]) -> tuple[int, ...]:
    """Elements that are stored along each dimension."""
    if isinstance(stmt, TmaStore):
        return board.maps[stmt.dst.map].box
    outer = (1,) * (len(stmt.dst.coords) - 2)
    if isinstance(stmt, FragStoreReduced):
        return *outer, 1, stmt.cols
    given = iter(limits)
    rows, cols = stmt.value.type.rows, stmt.value.type.cols
    rows = rows if stmt.limit is None else max(min(rows, next(given)), 0)
    cols = cols if stmt.limit_cols is None else max(min(cols, next(given)), 0)
    return (*outer, cols, rows) if stmt.trans else (*outer, rows, cols)


def _limited(kernel: Kernel, stmt: FragStoreGlobal) -> tuple[Expr, ...]:
    limits = (e for e in (stmt.limit, stmt.limit_cols) if e is not None)
    return *_place(stmt.dst), *limits


def _source(kernel: Kernel, stmt: _Load) -> tuple[Expr, ...]:
    return _place(stmt.src)


def _target(kernel: Kernel, stmt: TmaStore | FragStoreReduced) -> tuple[Expr, ...]:
    return _place(stmt.dst)


STEPS: Mapping[type[Stmt], Event] = {
    **EVENTS,
    CopyTile: Event(_source, _loaded),
    CpAsync: Event(_source, _loaded),
    FragLoadGlobal: Event(_source, _loaded),
    FragRedGlobal: Event(_red_asks, _red),
    FragStoreGlobal: Event(_limited, _stored),
    FragStoreReduced: Event(_target, _stored),
    TmaLoad: Event(lambda k, s: (*EVENTS[TmaLoad].asks(k, s), *s.src.coords), _copied),
    TmaStore: Event(_target, _stored),
}
"""What happens in a grid, with where its accesses to global memory are."""
