"""Which element types and tiles a matrix product takes: what the target's table says.

Part of ``verify``.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowering.ground.dtypes import DType
from lowering.ground.layouts import operand_layout
from lowering.ground.types import FragmentType
from lowering.kernel.kernel import Kernel, SharedBuffer
from lowering.kernel.nodes import Frag, MmaTile, SmemRef, Wgmma

__all__ = ["operand_rules"]

_SCALES = (DType.F32, DType.BF16, DType.F16)
"""Types of the numbers that a product counts times, in fp32."""


def operand_rules(kernel: Kernel, stmt: MmaTile | Wgmma) -> Iterator[str]:
    """Rules that the operands of a product break.

    An operand's tile is ``[M or N, K]`` of its buffer, an MN-major one's ``[K, M or N]``.
    """
    kind = stmt.acc.type
    yield from _types(kernel, stmt)
    if isinstance(stmt.a, Frag):
        yield from _from_registers(kernel, stmt, stmt.a)
    if stmt.col % kind.layout.columns or not 0 <= stmt.col <= kind.cols - stmt.width:
        yield f"columns {stmt.col} .. {stmt.col + stmt.width} of {kind} are no part of it"
    if isinstance(stmt, MmaTile):
        yield from _scales(stmt)
    for operand, extent, trans in (
        (stmt.a, kind.rows, stmt.trans_a),
        (stmt.b, stmt.width, stmt.trans_b),
    ):
        b = None if isinstance(operand, Frag) else _buffer(kernel, operand)
        if b is not None:
            yield from _tile(kernel, stmt, b, extent, trans)


def _scales(stmt: MmaTile) -> Iterator[str]:
    """What a product counts times is in fp32 or 16 bits: a number for all, for each row, or each
    column; as many by rows as by columns, where it counts times both, each for an equal part of K.
    So are what is taken from A.
    """
    kind, types = stmt.acc.type, ", ".join(d.value for d in _SCALES)
    for scales, rows, cols in ((stmt.by_row, kind.rows, 1), (stmt.by_col, 1, stmt.width)):
        for scale in scales:
            found = (scale.type.rows, scale.type.cols)
            if found not in ((1, 1), (rows, cols)) or scale.type.dtype not in _SCALES:
                yield f"{scale.name} is {scale.type}, scales are {types} of 1x1 or {rows}x{cols}"
    for zero in stmt.zeros:
        found = (zero.type.rows, zero.type.cols)
        if found != (kind.rows, 1) or zero.type.dtype not in _SCALES:
            yield f"{zero.name} is {zero.type}, zero points are {types} of {kind.rows}x1"
    if stmt.zeros and not isinstance(stmt.a, Frag):
        yield f"{stmt.zeros[0].name} is taken from {stmt.a}, which is in shared memory"
    counts = {len(x) for x in (stmt.by_row, stmt.by_col, stmt.zeros) if x}
    if len(counts) > 1 or any(stmt.k % n for n in counts):
        more = f", {len(stmt.zeros)} zero points" if stmt.zeros else ""
        what = f"{len(stmt.by_row)} and {len(stmt.by_col)} scales{more}"
        yield f"{what} are for no parts of {stmt.k} of K"


def _types(kernel: Kernel, stmt: MmaTile | Wgmma) -> Iterator[str]:
    """What an instruction multiplies; of a tile, whose columns a pass refuses, only the types."""
    family, acc = kernel.target.mma, stmt.acc.type
    a, b = _dtype(kernel, stmt.a), _dtype(kernel, stmt.b)
    if a is None or b is None:
        return
    form = family.form(a, b, acc.dtype)
    cols = min(form.n) if form is not None and isinstance(stmt, MmaTile) else stmt.width
    if problem := family.problem(a, b, acc.dtype, cols):
        yield problem


def _tile(
    kernel: Kernel, stmt: MmaTile | Wgmma, b: SharedBuffer, extent: int, trans: bool
) -> Iterator[str]:
    family = kernel.target.mma
    k = stmt.k if isinstance(stmt, MmaTile) else family.k(b.dtype)
    rows, cols = (k, extent) if trans else (extent, k)
    if rows > b.rows or cols > b.cols:
        yield f"a tile of {rows}x{cols} does not fit into {b.name} of {b.rows}x{b.cols}"
    if trans and not family.transposes(b.dtype):
        yield f"{b.name} of {b.dtype.value} is MN-major, which wgmma takes of 16 bits only"


def _from_registers(kernel: Kernel, stmt: MmaTile | Wgmma, a: Frag) -> Iterator[str]:
    """A in registers is K-major, and a whole tile in the layout that wgmma takes."""
    k = stmt.k if isinstance(stmt, MmaTile) else kernel.target.mma.k(a.type.dtype)
    layout = operand_layout(a.type.dtype)
    wanted = FragmentType(a.type.dtype, stmt.acc.type.rows, k, a.type.in_flight, layout)
    if a.type != wanted:
        yield f"{a.name} is {a.type}, A in registers is {wanted}"
    if stmt.trans_a:
        yield f"{a.name} is in registers, only A in shared memory is MN-major"


def _buffer(kernel: Kernel, ref: SmemRef) -> SharedBuffer | None:
    return kernel.find(SharedBuffer, ref.buffer)


def _dtype(kernel: Kernel, operand: SmemRef | Frag) -> DType | None:
    if isinstance(operand, Frag):
        return operand.type.dtype
    buffer = _buffer(kernel, operand)
    return None if buffer is None else buffer.dtype
