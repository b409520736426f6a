"""Rules for TMA copies, and for fragments to and from shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.expr import Const, Expr, Special, Var
from lowering.ground.layouts import BLOCK_ROWS
from lowering.kernel.kernel import SharedBuffer
from lowering.kernel.memory import CACHE_POLICIES
from lowering.kernel.nodes import (
    BulkCommit,
    BulkCopy,
    BulkWait,
    CpAsyncArrive,
    Frag,
    GmemRef,
    LdMatrix,
    LdShared,
    MapRef,
    PrefetchTensorMap,
    SmemRef,
    StAsync,
    StMatrix,
    Stmt,
    StShared,
    TmaLoad,
    TmaPrefetch,
    TmaStore,
)
from lowering.kernel.places import in_boxes, placed
from lowering.mlir.emitter import Emitter, Rule, Word, register_type
from lowering.mlir.ssa import I16, I32, I64, Value

__all__ = ["RULES", "frame", "mask_of", "tensor_map"]

_LANE, _WARP = Special("lane"), Special("warpgroup.warp")


# --- TMA --------------------------------------------------------------------------------------


def tensor_map(e: Emitter, ref: GmemRef | MapRef) -> Value:
    """Address of a tensor map."""
    base = e.scalars[f"%map.{ref.map}"]
    if ref.entry is None:
        return base
    return e.behind(base, e.expr(ref.entry), "!llvm.array<128 x i8>")


def _prefetch(e: Emitter, s: PrefetchTensorMap) -> None:
    # Of nvvm.prefetch Triton 3.6 makes two: one in the space of parameters, one in the generic.
    e.asm("prefetch.tensormap [$0];", [tensor_map(e, s.map)])


def _hint(e: Emitter, cache: str) -> list[Value]:
    """The cache policy as an operand, where it is not the default."""
    if cache not in CACHE_POLICIES:
        raise InternalError("emit_mlir", f"no cache policy named {cache}")
    if cache == CACHE_POLICIES[0]:
        return []
    text = f"createpolicy.fractional.L2::{cache}.b64 $0, 1.0;"
    return e.words(e.asm(text, outputs=[I64], memory=False, volatile=False))


def _tma_load(e: Emitter, s: TmaLoad) -> None:
    """In the generic form: versions write ``cta_group`` differently in the short one."""
    bar = e.mbarrier(s.bar)
    if s.cta_group > 1:
        bar = _mapped(e, bar, e.kernel.cta_group.leader)
    box = [e.expr(at) for at in reversed(s.src.coords)]
    mask, hint = list[Value](), _hint(e, s.cache)
    if s.multicast is not None:
        mask = [e.out.op(f"arith.trunci {e.expr(s.multicast)} : i32 to i16", I16)]
    groups: tuple[list[Value], ...] = (
        [e.pointer(e.box_address(s.dst), cluster=True)], [tensor_map(e, s.src)], box,
        [e.pointer(bar)], [], mask, hint, [],
    )  # fmt: skip
    counts = ", ".join(str(len(operands)) for operands in groups)
    attributes = f"operandSegmentSizes = array<i32: {counts}>"
    if s.cta_group > 1:
        attributes += f", group = #nvvm.cta_group<cta_{s.cta_group}>"
    given = [v for operands in groups for v in operands]
    names, types = ", ".join(map(str, given)), ", ".join(v.type for v in given)
    name = '"nvvm.cp.async.bulk.tensor.shared.cluster.global"'
    e.out.line(f"{name}({names}) <{{{attributes}}}> : ({types}) -> ()")


def _tma_prefetch(e: Emitter, s: TmaPrefetch) -> None:
    rank, at = len(s.src.coords), [e.expr(c) for c in reversed(s.src.coords)]
    box = ", ".join(f"${d}" for d in range(1, rank + 1))
    form = f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global.tile [$0, {{{box}}}];"
    e.asm(form, [tensor_map(e, s.src), *at])


def _tma_store(e: Emitter, s: TmaStore) -> None:
    src, target = e.pointer(e.box_address(s.src)), tensor_map(e, s.dst)
    hint = "".join(f" l2_cache_hint = {policy}" for policy in _hint(e, s.cache))
    # The innermost coordinate first, as PTX has it.
    box = ", ".join(str(e.expr(at)) for at in reversed(s.dst.coords))
    text = f"{target}, {src}, box[{box}]{hint} : {target.type}, {src.type}"
    e.out.line(f"nvvm.cp.async.bulk.tensor.global.shared.cta {text}")


def _bulk_commit(e: Emitter, s: BulkCommit) -> None:
    e.out.line("nvvm.cp.async.bulk.commit.group")


def _bulk_wait(e: Emitter, s: BulkWait) -> None:
    read = ", read" if s.read else ""
    group = f"<{{group = {s.pending} : i32{read}}}>"
    e.out.line(f'"nvvm.cp.async.bulk.wait_group"() {group} : () -> ()')


# --- fragments to and from shared memory ------------------------------------------------------
#
# A thread's address in a swizzled tile is line + (byte ^ mask): ``line`` is the start of its row
# within the box, ``byte`` the offset within the span, ``mask`` the chunk bits that the swizzle
# permutes, taken from the row. A thread's rows of one fragment are multiples of 8 apart, so one
# mask serves them all, and only ``byte`` changes from column to column.


def _span(buffer: SharedBuffer) -> int:
    """Bytes of a line of a box."""
    return buffer.box_cols * buffer.dtype.bytes


def _named(e: Emitter, value: Expr, wish: str) -> Var:
    """The expression as a value that is computed here, once."""
    found = e.expr(value)
    return e.bound(found, f"{wish}.{found.name}")


def mask_of(buffer: SharedBuffer, line: Expr) -> Expr:
    """The bits that the buffer's swizzle flips at an address."""
    chunks = buffer.swizzle.value // 16
    return line // 128 % chunks * 16 if chunks else Const(0)


def frame(e: Emitter, ref: SmemRef, row: Expr, byte: Expr) -> tuple[Expr, Expr]:
    """``line`` and ``byte`` of the executing thread, whose row and byte these are."""
    buffer = placed(e.kernel, ref.buffer)
    line = _named(e, e.line_address(ref) + row * _span(buffer), "line")
    inner = e.box_column(ref)[1] * buffer.dtype.bytes
    return line, _named(e, (byte + inner) ^ mask_of(buffer, line), "byte")


def _steps(
    e: Emitter, ref: SmemRef, value: Frag, cols: int, frame: tuple[Expr, Expr]
) -> Iterator[tuple[Expr, int, int]]:
    """Cover ``value`` in steps of ``cols`` columns: (address, block, step)."""
    buffer = placed(e.kernel, ref.buffer)
    (line, byte), span = frame, _span(buffer)
    per_box = max(buffer.box_cols // cols, 1)
    for block in range(value.type.blocks):
        for step in range(value.type.cols // cols):
            box, within = divmod(step, per_box)
            down = (value.type.layout.down(block, 0) + box * buffer.lines) * span
            yield line + down + (byte ^ within * cols * buffer.dtype.bytes), block, step


def _check(e: Emitter, op: str, ref: SmemRef, value: Frag, *, wide: bool) -> None:
    """Refuse what the instruction does not move, or what no single mask swizzles."""
    buffer, cols = placed(e.kernel, ref.buffer), value.type.cols
    fits = in_boxes(buffer, e.resolved(ref.col), cols)
    if not fits or buffer.dtype is not value.type.dtype:
        raise InternalError("emit_mlir", f"{op} of {value.type} to {buffer.name}")
    narrow = op in (LdShared.OP, StShared.OP) and value.type.row_bytes == 8
    if not narrow and value.type.row_bytes != (32 if wide else 16):
        raise UnsupportedError(f"{op} of {value.type} in MLIR", "16 and 32 bits")


_MATRIX = (
    "layout = #nvvm.mma_layout<{}>, eltType = #nvvm.ld_st_matrix_elt_type<b16>, "
    "shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>"
)
"""Attributes of ``nvvm.ldmatrix`` and ``nvvm.stmatrix``; ``col`` is PTX's ``.trans``."""


def _matrix_address(e: Emitter, ref: SmemRef, value: Frag) -> tuple[int, tuple[Expr, Expr]]:
    """How many 8x8 matrices move at a time, and where.

    Matrices of an x4: rows 0-7, rows 8-15, then the same rows 8 columns on; lane l gives the
    address of row l % 8 of matrix l / 8.
    """
    count = 4 if value.type.groups % 2 == 0 else 2
    half = _LANE // 16 * 16 if count == 4 else Const(0)
    row = value.type.layout.row(_WARP, 0, 0, 0) + _LANE % 16
    return count, frame(e, ref, row, half)


def _stmatrix(e: Emitter, s: StMatrix) -> None:
    if s.trans:
        _store_transposed(e, s)
        return
    _check(e, s.OP, s.dst, s.value, wide=False)
    count, frame = _matrix_address(e, s.dst, s.value)
    columns = count // 2 * s.value.type.layout.columns
    for at, block, step in _steps(e, s.dst, s.value, columns, frame):
        words = e.registers(s.value)[block][count * step : count * (step + 1)]
        _store_matrices(e, at, words, "row")


def _store_matrices(e: Emitter, at: Expr, words: Sequence[Word], layout: str) -> None:
    where, values = e.pointer(at), e.words(words)
    operands = ", ".join(map(str, (where, *values)))
    types = ", ".join(v.type for v in (where, *values))
    attributes = f"<{{{_MATRIX.format(layout)}}}>"
    e.out.line(f'"nvvm.stmatrix"({operands}) {attributes} : ({types}) -> ()')


def _store_transposed(e: Emitter, s: StMatrix) -> None:
    """A line of the tile is a column of the value; the 64 rows of a block are one box of it.

    Matrices of an x4: rows 0-7, rows 8-15, then the same rows 8 columns on. Transposed, the second
    lies to the right of the first and the third below it.
    """
    buffer, kind = placed(e.kernel, s.dst.buffer), s.value.type
    column = e.number(s.dst.col, f"column of {buffer.name}")
    if buffer.dtype is not kind.dtype or kind.dtype.bits != 16 or buffer.box_cols != BLOCK_ROWS:
        raise InternalError("emit_mlir", f"{s.OP} of {kind}, transposed, to {buffer.name}")
    if column % BLOCK_ROWS:
        raise InternalError("emit_mlir", f"{s.OP}: {kind} straddles boxes of {buffer.name}")
    if kind.layout.below != 1:
        raise InternalError(
            "emit_mlir", f"{s.OP} of {kind}, transposed: blocks one below the other"
        )
    span, count = _span(buffer), 4 if kind.groups % 2 == 0 else 2
    row = _LANE % 8 + (_LANE // 16 * 8 if count == 4 else 0)
    line = _named(e, e.line_address(s.dst) + row * span, "line")
    right = _WARP * 32 + _LANE // 8 % 2 * 16
    byte = _named(e, right ^ mask_of(buffer, line), "byte")
    cols = 8 * count // 2
    for block in range(kind.blocks):
        for step in range(kind.cols // cols):
            words = e.registers(s.value)[block][count * step : count * (step + 1)]
            at = line + byte + (block * buffer.lines * span + step * cols * span)
            _store_matrices(e, at, words, "col")


def _ldmatrix(e: Emitter, s: LdMatrix) -> None:
    _check(e, s.OP, s.src, s.out, wide=False)
    count, frame = _matrix_address(e, s.src, s.out)
    columns = count // 2 * s.out.type.layout.columns
    found: list[list[Word]] = [[] for _ in range(s.out.type.blocks)]
    for at, block, _ in _steps(e, s.src, s.out, columns, frame):
        where, kind = e.pointer(at), e.out.struct(I32, count)
        attributes = f"<{{num = {count} : i32, {_MATRIX.format('row')}}}>"
        text = f'"nvvm.ldmatrix"({where}) {attributes} : ({where.type}) -> {kind}'
        found[block] += e.unpacked(e.out.op(text, kind), count)
    e.keep(s.out, tuple(map(tuple, found)))


def _pairs(
    e: Emitter, ref: SmemRef, value: Frag, cta: Expr | None = None
) -> Iterator[tuple[Expr, int, int]]:
    """Where the two neighbours lie that a thread holds of a row: (address, block, register)."""
    layout, size = value.type.layout, value.type.dtype.bytes
    right = _LANE % 4 * (layout.span * size)
    line, byte = frame(e, ref, layout.row(_WARP, _LANE, 0, 0), right)
    if cta is not None:
        line = _mapped(e, line, cta)
    below = 8 * _span(placed(e.kernel, ref.buffer))
    for at, block, step in _steps(e, ref, value, value.type.layout.columns, (line, byte)):
        yield at, block, 4 * step
        yield at + below, block, 4 * step + 2


def _mapped(e: Emitter, address: Expr, cta: Expr) -> Expr:
    """The address of the same place in CTA ``cta`` of the cluster.

    The swizzle permutes bits of the offset only, so a thread computes its offsets as in its own
    memory and adds them to a mapped line.
    """
    text = "mapa.shared::cluster.u32 $0, $1, $2;"
    (word,) = e.asm(text, [e.expr(address), e.expr(cta)], [I32], memory=False)
    return e.bound(word.value, f"mapped.{word.value.name}")


def _st_shared(e: Emitter, s: StShared) -> None:
    _check(e, s.OP, s.dst, s.value, wide=True)
    if s.value.type.dtype.bits == 8:
        _st_pairs(e, s)
        return
    space = "shared" if s.cta is None else "shared::cluster"
    for at, block, register in _pairs(e, s.dst, s.value, s.cta):
        pair = e.words(e.registers(s.value)[block][register : register + 2])
        e.asm(f"st.{space}.v2.{_ptx(s.value)} [$0], {{$1, $2}};", [e.expr(at), *pair])


def _st_async(e: Emitter, s: StAsync) -> None:
    _check(e, s.OP, s.dst, s.value, wide=True)
    bar = e.expr(_mapped(e, e.mbarrier(s.bar), s.cta))
    form = f"st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.{_ptx(s.value)}"
    for at, block, register in _pairs(e, s.dst, s.value, s.cta):
        pair = e.words(e.registers(s.value)[block][register : register + 2])
        e.asm(f"{form} [$0], {{$1, $2}}, [$3];", [e.expr(at), *pair, bar])


def _bulk_copy(e: Emitter, s: BulkCopy) -> None:
    dst, bar = _mapped(e, e.box_address(s.dst), s.cta), _mapped(e, e.mbarrier(s.bar), s.cta)
    size = e.out.constant(placed(e.kernel, s.src.buffer).stage_bytes)
    form = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
    operands = [e.expr(dst), e.expr(e.box_address(s.src)), size, e.expr(bar)]
    e.asm(f"{form} [$0], [$1], $2, [$3];", operands)


def _cp_async_arrive(e: Emitter, s: CpAsyncArrive) -> None:
    text = "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [$0];"
    e.asm(text, [e.expr(e.mbarrier(s.bar))])


def _ld_shared(e: Emitter, s: LdShared) -> None:
    _check(e, s.OP, s.src, s.out, wide=True)
    if s.out.type.dtype.bits == 8:
        _ld_pairs(e, s)
        return
    space = "shared" if s.cta is None else "shared::cluster"
    kind = register_type(s.out.type.dtype)
    found: list[list[Word]] = [[] for _ in range(s.out.type.blocks)]
    for at, block, _ in _pairs(e, s.src, s.out, s.cta):
        text = f"ld.{space}.v2.{_ptx(s.out)} {{$0, $1}}, [$2];"
        found[block] += e.asm(text, [e.expr(at)], [kind, kind])
    e.keep(s.out, tuple(map(tuple, found)))


_STORE_PAIRS_OF_8 = (
    "{ .reg .b16 upper, lower; mov.b32 {upper, lower}, $2; "
    "st.shared.b16 [$0], upper; st.shared.b16 [$1], lower; }"
)


def _st_pairs(e: Emitter, s: StShared) -> None:
    """Four elements of 8 bits of a register, as :func:`_ld_pairs` has them."""
    if s.cta is not None:
        raise InternalError("emit_mlir", f"{s.OP} of {s.value.type} to another CTA")
    places = iter(_pairs(e, s.dst, s.value))
    for (upper, block, register), (lower, _, _) in zip(places, places, strict=True):
        word = e.word(e.registers(s.value)[block][register // 4])
        e.asm(_STORE_PAIRS_OF_8, [e.expr(upper), e.expr(lower), word])


_PAIRS_OF_8 = (
    "{ .reg .b16 upper, lower; ld.shared.u16 upper, [$1]; ld.shared.u16 lower, [$2]; "
    "mov.b32 $0, {upper, lower}; }"
)


def _ld_pairs(e: Emitter, s: LdShared) -> None:
    """Four elements of 8 bits in a register: two neighbours of a row, and of the row 8 below."""
    if s.cta is not None:
        raise InternalError("emit_mlir", f"{s.OP} of {s.out.type} from another CTA")
    found: list[list[Word]] = [[] for _ in range(s.out.type.blocks)]
    places = iter(_pairs(e, s.src, s.out))
    for (upper, block, _), (lower, _, _) in zip(places, places, strict=True):
        found[block] += e.asm(_PAIRS_OF_8, [e.expr(upper), e.expr(lower)], [I32])
    e.keep(s.out, tuple(map(tuple, found)))


def _ptx(value: Frag) -> str:
    return "f32" if value.type.dtype is DType.F32 else "b32"


RULES: Mapping[type[Stmt], Rule] = {
    PrefetchTensorMap: _prefetch, TmaLoad: _tma_load, TmaStore: _tma_store,
    TmaPrefetch: _tma_prefetch, BulkCommit: _bulk_commit, BulkWait: _bulk_wait,
    StMatrix: _stmatrix, StShared: _st_shared, LdMatrix: _ldmatrix, LdShared: _ld_shared,
    StAsync: _st_async, BulkCopy: _bulk_copy, CpAsyncArrive: _cp_async_arrive,
}  # fmt: skip
