"""Where what a statement names lies: in shared memory by address, among the threads by register.

The emitters write these expressions into the text of a kernel, each in its own language.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from lowering.ground.errors import InternalError
from lowering.ground.expr import ONE, ZERO, Const, Expr, Special
from lowering.ground.poly import poly, split_multiple
from lowering.ground.types import FragmentType, Swizzle
from lowering.kernel.kernel import Kernel, MBarrierArray, SharedBuffer
from lowering.kernel.nodes import NamedBarrierRef, SmemRef

__all__ = [
    "box_column", "cta_number", "in_boxes", "named_barrier", "placed", "shared_bytes", "thread_col",
    "thread_row", "tile_offset",
]  # fmt: skip


def placed(kernel: Kernel, name: str) -> SharedBuffer:
    """The shared buffer of that name.

    Raises:
        InternalError: there is none, or it has no offset, or one that its swizzle does not allow.
    """
    buffer = kernel.find(SharedBuffer, name)
    if buffer is None:
        raise InternalError("emit", f"no shared buffer {name}")
    if buffer.offset is None:
        raise InternalError("emit", f"shared buffer {name} has no offset")
    if buffer.swizzle is not Swizzle.NONE and buffer.offset % (8 * buffer.swizzle.value):
        raise InternalError("emit", f"shared buffer {name} is not aligned to its swizzle")
    return buffer


def box_column(kernel: Kernel, ref: SmemRef) -> tuple[Expr, Expr]:
    """Box that holds column ``ref.col``, and the column within the box."""
    return split_multiple(ref.col, placed(kernel, ref.buffer).box_cols)


def in_boxes(buffer: SharedBuffer, column: Expr, cols: int) -> bool:
    """Whether so many columns from this one on are in one box, or are whole boxes."""
    _, inner = split_multiple(column, buffer.box_cols)
    if isinstance(inner, Const):
        within = inner.value + cols <= buffer.box_cols
        return within or (inner.value == 0 and cols % buffer.box_cols == 0)
    # Of a warpgroup or an unrolled loop: it starts at one of the equal pieces of a box.
    whole = all(factor % cols == 0 for _, factor in poly(column).terms)
    return whole and buffer.box_cols % cols == 0 and cols.bit_count() == 1


def tile_offset(kernel: Kernel, ref: SmemRef, unit: int) -> Expr:
    """Offset of the box line of ``ref`` from its buffer, in units of ``unit`` bytes.

    The column within the box is left out, so the offset is a multiple of the swizzle span.

    Raises:
        InternalError: a line or a stage is no multiple of ``unit``.
    """
    b = placed(kernel, ref.buffer)
    line = b.dtype.size(b.box_cols)
    if line % unit or b.stage_bytes % unit:
        raise InternalError("emit", f"{ref.buffer}: a line is no multiple of {unit} bytes")
    box, _ = box_column(kernel, ref)
    offset = ref.stage * (b.stage_bytes // unit) if b.stages > 1 else ZERO
    offset = offset + box * (b.lines * line // unit) + b.line(ref.coords) * (line // unit)
    return poly(offset).expr()


def named_barrier(kernel: Kernel, ref: NamedBarrierRef) -> tuple[Expr, int]:
    """Hardware id of a named barrier, and the threads that meet there.

    Raises:
        InternalError: it has no id yet.
    """
    array = kernel.named_barrier(ref.array)
    if array.base is None:
        raise InternalError("emit", f"named barrier {ref.array} has no id")
    return ref.index + array.base, array.threads


def cta_number(kernel: Kernel) -> Expr:
    """The number of the CTA in the grid, x fastest."""
    rows: Expr = ZERO
    if kernel.splits > 1:
        rows = Special("ctaid.z") * (ONE if kernel.grid_y == ONE else Special("nctaid.y"))
    if kernel.grid_y != ONE:
        rows = rows + Special("ctaid.y")
    return rows * Special("nctaid.x") + Special("ctaid.x")


def thread_row(kind: FragmentType, start: Expr = ZERO) -> Expr:
    """The executing thread's first row of a tile, from ``start`` on."""
    if kind.rows == 1:
        return start
    found: Expr = kind.layout.row(Special("warpgroup.warp"), Special("lane"), 0, 0, start)
    return found


def thread_col(kind: FragmentType, start: Expr = ZERO) -> Expr:
    """Its first column, likewise."""
    if kind.cols == 1:
        return start
    found: Expr = kind.layout.column(Special("lane"), 0, 0, start)
    return found


def shared_bytes(kernel: Kernel) -> Iterator[tuple[int, int, str, str]]:
    """Bytes of shared memory that two buffers or mbarriers have, of which neither says that it lies
    over the other: (first, end, the one that begins in front, the other), by their begin.
    """
    storage: tuple[SharedBuffer | MBarrierArray, ...] = (*kernel.shared, *kernel.mbarriers)
    placed = sorted(
        (
            s.offset,
            s.offset + s.stages * s.stage_bytes,
            s.name,
            s.over if isinstance(s, SharedBuffer) else (),
        )
        for s in storage
        if s.offset is not None
    )
    for (_, end, a, over_a), (begin, end_b, b, over_b) in combinations(placed, 2):
        if begin < min(end, end_b) and a not in over_b and b not in over_a:
            yield begin, min(end, end_b), a, b
