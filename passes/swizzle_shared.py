"""Choose the swizzle of operand buffers and cut tile loads into TMA boxes.

A tile that several CTAs of a cluster share is cut into as many slices: of whole boxes where their
number allows it (fewer and larger copies), else of rows. Each CTA loads its slice and multicasts it
to all that share the tile. Rows are whatever the tile is stored by: M or N of a K-major operand, K
of an MN-major one.

A box is of one matrix, so a tile of several (three dimensions and more) is loaded one by one.

An N-major tile of more than one swizzle span is filled up to whole spans (``stored_columns``): the
last box brings columns of the next tile, too, which nothing reads.

Requires: what ``load.tile`` fills, without a swizzle. What threads fill may have one.
Guarantees: operands, and stages of rings that hold tiles, have the widest swizzle their rows allow
(none only where wgmma does not read it), whoever fills them, unless ``options.smem_swizzles``
asks for a narrower one; each tensor map has a box that TMA
accepts (at most 256 elements per dimension, inner bytes equal to the swizzle span), and each
``load.tile`` is one ``tma.load`` per box.

Before ``circular_buffer``, which counts on loads being single copies only when it comes to bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product
from math import gcd
from typing import get_args

from lowering.ground.dtypes import DType
from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.ground.expr import ZERO, Const, Expr, Special
from lowering.ground.frozen import fields_of
from lowering.ground.poly import poly
from lowering.ground.types import Swizzle
from lowering.kernel.kernel import Kernel, SharedBuffer, TensorMap
from lowering.kernel.nodes import (
    Body,
    CopyTile,
    LoadTile,
    MmaTensor,
    MmaTile,
    SmemRef,
    StMatrix,
    Stmt,
    StShared,
    Tcgen05Mma,
    TmaLoad,
    Wgmma,
)
from lowering.kernel.visit import rewrite, walk
from lowering.target import ptx
from passes.options import LoweringOptions

__all__ = ["store_swizzle", "swizzle_shared", "widest_swizzle"]

Product = MmaTile | Wgmma | MmaTensor | Tcgen05Mma

_STORES = StMatrix | StShared | CopyTile
"""By which threads fill tiles."""


def swizzle_shared(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Give operand buffers a swizzle and loads their boxes.

    before::

        tensormap A: bf16[M, K]
        shared A_s: bf16[1][128x128]
        load.tile A_s[0, 0, 0], A[row, k]

    after::

        tensormap A: bf16[M, K] box 128x64 swizzle 128
        shared A_s: bf16[1][128x128] swizzle 128
        tma.load A_s[0, 0, 0], A[row, k]
        tma.load A_s[0, 0, 64], A[row, k + 64]

    Raises:
        ScheduleError: a swizzle is asked for that rows of the tile have no whole spans of, or of
            what no TMA loads for products alone.
        UnsupportedError: rows of the tile are no multiple of 32 bytes, the tile cannot be cut into
            slices for the CTAs that share it, or a warpgroup's part of an MN-major operand begins
            inside a swizzle span.
    """
    products = [s for s in walk(kernel.body) if isinstance(s, Product)]
    loads = [s for s in walk(kernel.body) if isinstance(s, LoadTile)]
    asked = _asked(kernel, loads, dict(options.smem_swizzles))
    buffers = _swizzled(kernel, products, [load.dst.buffer for load in loads], asked)
    maps: dict[str, TensorMap] = {}
    rows: dict[str, int] = {}
    for load in loads:
        buffer, name = buffers[load.dst.buffer], load.src.map
        _require_whole_patterns(buffer.name, load.rows or buffer.rows)
        rows[name] = gcd(rows.get(name, 0), _slice(kernel, buffer, load)[0])
        box = _box_rows(rows[name])
        maps[name] = kernel.tensor_map(name).boxed(box, buffer.box_cols, buffer.swizzle)
    by_columns = [
        ref
        for s in products
        for ref, columns in ((s.a, s.trans_a), (s.b, s.trans_b))
        if columns and isinstance(ref, SmemRef)
    ]
    for ref in by_columns:
        _require_whole_spans(ref, buffers.get(ref.buffer, kernel.buffer(ref.buffer)))
    kernel = kernel.redeclare(*buffers.values(), *maps.values())
    return replace(kernel, body=rewrite(kernel.body, lambda s: _boxes(kernel, s)))


def _swizzled(
    kernel: Kernel, products: Iterable[Product], loaded: Iterable[str], asked: dict[str, Swizzle]
) -> dict[str, SharedBuffer]:
    """What TMA loads, and operands and stages that only threads fill, with their swizzles:
    those that are asked for, else the widest.
    """
    operands = {x.buffer: None for s in products for x in (s.a, s.b) if isinstance(x, SmemRef)}
    n_major = {s.b.buffer for s in products if s.trans_b}
    stored = [s.dst.buffer for s in walk(kernel.body) if isinstance(s, _STORES)]
    stages = [b for ring in kernel.rings for b in ring.buffers if b in stored]
    plain = (n for n in (*operands, *stages) if kernel.buffer(n).swizzle is Swizzle.NONE)
    found: dict[str, SharedBuffer] = {}
    for name in dict.fromkeys((*loaded, *plain)):
        buffer, wanted = kernel.buffer(name), asked.get(name)
        if name in n_major:
            widest = wanted.value if wanted else ptx.WIDEST_SWIZZLE
            cols = ptx.stored_columns(buffer.cols, buffer.dtype.bytes, widest)
            buffer = replace(buffer, shape=(*buffer.shape[:-1], cols))
        find = widest_swizzle if name in operands else store_swizzle
        if wanted:
            _require_spans(buffer, wanted)
        swizzle = wanted or find(name, buffer.dtype, buffer.cols)
        found[name] = replace(buffer, swizzle=swizzle)
    return found


def _require_spans(buffer: SharedBuffer, wanted: Swizzle) -> None:
    """Rows of the buffer have whole spans of what is asked for."""
    row = buffer.dtype.size(buffer.cols)
    if row % wanted.value:
        wrote = f"smem_swizzles: spans of {wanted.value} bytes in {buffer.name}"
        legal = (str(s.value) for s in Swizzle if s.value and row % s.value == 0)
        raise ScheduleError("smem-swizzle", wrote, f"its rows have {row} bytes", tuple(legal))


def _asked(
    kernel: Kernel, loads: Iterable[LoadTile], by_map: Mapping[str, Swizzle]
) -> dict[str, Swizzle]:
    """The swizzles that are asked for, by buffer: of operands, which wgmma alone reads."""
    found = {load.dst.buffer: load.src.map for load in loads if load.src.map in by_map}
    there = tuple(dict.fromkeys(load.src.map for load in loads))
    if missing := [n for n in by_map if n not in found.values()]:
        wrote = f"smem_swizzles: {missing[0]} {by_map[missing[0]].value}"
        raise ScheduleError("smem-swizzle", wrote, f"no TMA loads {missing[0]}", there)
    other = {
        ref.buffer
        for s in walk(kernel.body)
        if not isinstance(s, (*get_args(Product), LoadTile))
        for ref in fields_of(s)
        if isinstance(ref, SmemRef)
    }
    for name, source in found.items():
        if name in other:
            wrote = f"smem_swizzles: {source} {by_map[source].value}"
            why = f"threads access {name} themselves, and do so in the widest swizzle that fits"
            raise ScheduleError("smem-swizzle", wrote, why)
    return {name: by_map[source] for name, source in found.items()}


def widest_swizzle(name: str, dtype: DType, cols: int) -> Swizzle:
    """The widest swizzle whose span divides a row of ``cols`` elements.

    Raises:
        UnsupportedError: no swizzle fits.
    """
    row_bytes = dtype.size(cols)
    for swizzle in (Swizzle.B128, Swizzle.B64, Swizzle.B32):
        if row_bytes % swizzle.value == 0:
            return swizzle
    raise UnsupportedError(
        f"a shared tile {name} of {cols} {dtype.value} columns, rows of {row_bytes} bytes,",
        f"rows of a multiple of 32 bytes, as a swizzle needs: {dtype.count(32)} columns",
    )


def store_swizzle(name: str, dtype: DType, cols: int) -> Swizzle:
    """The widest swizzle for what threads read and write; none for rows of an odd number of 16
    bytes.

    Of eight such rows the 16 bytes that an 8x8 matrix has begin at eight multiples of 16 bytes that
    differ modulo 128, so no bank holds two words of it.

    Raises:
        UnsupportedError: neither fits.
    """
    if dtype.size(cols) % (2 * ptx.TMA_STRIDE_ALIGN) == ptx.TMA_STRIDE_ALIGN:
        return Swizzle.NONE
    return widest_swizzle(name, dtype, cols)


def _require_whole_spans(ref: SmemRef, buffer: SharedBuffer) -> None:
    """An MN-major operand is read span by span, from the beginning of one."""
    span = buffer.box_cols
    if any(factor % span for _, factor in poly(ref.coords[-1]).terms):
        raise UnsupportedError(
            f"a wgmma that reads {buffer.name} from column {ref.coords[-1]} on, stored by columns "
            f"in swizzle spans of {span},",
            f"operands that begin with a span: parts of a multiple of {span} columns",
        )


def _share(kernel: Kernel, buffer: str) -> tuple[int, int]:
    """(CTAs that load the tile together, distance of their ranks)."""
    for ring in kernel.rings:
        if buffer in ring.buffers:
            return ring.share(buffer)
    return 1, 1


def _slice(kernel: Kernel, buffer: SharedBuffer, load: LoadTile) -> tuple[int, int]:
    """Rows and columns that one CTA loads of a tile, or of a part of it."""
    count, _ = _share(kernel, buffer.name)
    rows, cols = load.rows or buffer.rows, load.cols or buffer.cols
    line = buffer.dtype.size(buffer.box_cols)
    found = ptx.multicast_slice(rows, cols, buffer.box_cols, count, line)
    if found is None:
        raise UnsupportedError(
            f"a shared tile {buffer.name} of {rows} rows, loaded by {count} CTAs together "
            f"({ptx.slice_problem(rows, count)}),",
            f"a multiple of {count * max(ptx.TMA_SMEM_ALIGN // line, 1)} rows",
        )
    return found


def _require_whole_patterns(name: str, rows: int) -> None:
    """A tile fills the pattern of a swizzle a whole number of times."""
    if rows % ptx.SWIZZLE_ROWS:
        raise UnsupportedError(
            f"a shared tile {name} of {rows} rows",
            f"a multiple of {ptx.SWIZZLE_ROWS} rows, after which the pattern of a swizzle repeats",
        )


def _box_rows(rows: int) -> int:
    """Rows of the largest box that fills ``rows`` a whole number of times, of a whole number of
    patterns of a swizzle where those have.

    One tensor map may serve tiles of different height (both operands from one tensor); ``rows`` is
    then their greatest common divisor.
    """
    step = gcd(rows, ptx.SWIZZLE_ROWS)
    largest = min(rows, ptx.TMA_BOX_MAX) // step * step
    return next(r for r in range(largest, 0, -step) if rows % r == 0)


def _boxes(kernel: Kernel, stmt: Stmt) -> Body | None:
    if not isinstance(stmt, LoadTile):
        return None
    buffer = kernel.buffer(stmt.dst.buffer)
    *_, rows, cols = kernel.tensor_map(stmt.src.map).box
    count, stride = _share(kernel, buffer.name)
    slice_rows, slice_cols = _slice(kernel, buffer, stmt)
    row: Expr = ZERO
    col: Expr = ZERO
    mask: Expr | None = None
    if count > 1:
        mine = Special("cluster.ctarank") // stride % count
        if slice_cols < (stmt.cols or buffer.cols):
            col = mine * slice_cols
        else:
            row = mine * slice_rows
        pattern = sum(1 << (stride * peer) for peer in range(count))
        mask = Const(pattern) << (Special("cluster.ctarank") - mine * stride)
    dst, src = stmt.dst.moved(row, col), stmt.src.moved(row, col)
    matrices = product(*map(range, buffer.shape[:-2]))
    return tuple(
        TmaLoad(dst.moved(*matrix, r, c), src.moved(*matrix, r, c), multicast=mask, ctas=count)
        for matrix in matrices
        for r in range(0, slice_rows, rows)
        for c in range(0, slice_cols, cols)
    )
