"""Rules for TMA copies, and for fragments to and from shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from lowering.cuda.cluster import bulk_copy, map_line, mapped, pair_function
from lowering.cuda.copies import CopyForm
from lowering.cuda.emitter import Emitter, Rule
from lowering.cuda.narrow import LOAD_PAIRS, LOAD_WORDS, STORE_PAIRS
from lowering.cuda.transposed import store_transposed
from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.ground.expr import Const, Expr
from lowering.ground.layouts import ACCUMULATOR, RegisterLayout
from lowering.ground.poly import divided
from lowering.kernel.nodes import (
    BulkCommit,
    BulkCopy,
    BulkWait,
    Frag,
    LdMatrix,
    LdShared,
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
from lowering.kernel.places import in_boxes

__all__ = ["RULES", "frame"]


def _prefetch(e: Emitter, s: PrefetchTensorMap) -> None:
    e.out.line(f"ptx::prefetch_tensormap({e.tensor_map(s.map)});")


def _tma_load(e: Emitter, s: TmaLoad) -> None:
    bar = e.mbarrier(s.bar)
    if s.cta_group > 1:
        bar = mapped(e, bar, e.kernel.cta_group.leader)
    operands = [e.box_address(s.dst), *e.coordinates(s.src), bar]
    mask = [] if s.multicast is None else [e.arg(s.multicast)]
    form = CopyForm(len(s.src.coords), multicast=s.multicast is not None, group=s.cta_group)
    _copy(e, form, [*operands, *mask], s.cache)


def _tma_prefetch(e: Emitter, s: TmaPrefetch) -> None:
    rank = len(s.src.coords)
    name = f"tma_prefetch_{rank}d"
    at = ", ".join(f"%{d + 1}" for d in range(rank))
    given = ", ".join(f'"r"(c{d})' for d in range(rank))
    e.functions[name] = (
        f"__device__ __forceinline__ void {name}(const TensorMap* map, "
        + ", ".join(f"int c{d}" for d in range(rank))
        + ") {\n"
        f'  asm volatile("cp.async.bulk.prefetch.tensor.{rank}d.L2.global.tile [%0, {{{at}}}];"\n'
        f'      :: "l"(map), {given} : "memory");\n}}'
    )
    e.out.call(name, *e.coordinates(s.src))


def _tma_store(e: Emitter, s: TmaStore) -> None:
    operands = [*e.coordinates(s.dst), e.box_address(s.src)]
    _copy(e, CopyForm(len(s.dst.coords), store=True), operands, s.cache)


def _copy(e: Emitter, form: CopyForm, operands: list[str], cache: str) -> None:
    """The call, with the policy as a further operand where it is not the default."""
    if cache != "evict_normal":
        form, operands = replace(form, hint=True), [*operands, e.policy(cache)]
    if not form.at_hand:
        e.copies.add(form)
    e.out.call(form.function, *operands)


def _bulk_commit(e: Emitter, s: BulkCommit) -> None:
    e.out.line("ptx::bulk_commit_group();")


def _bulk_wait(e: Emitter, s: BulkWait) -> None:
    e.out.line(f"ptx::bulk_wait_group{'_read' if s.read else ''}<{s.pending}>();")


# --- fragments to and from shared memory ---------------------------------------------------------
#
# A thread's address in a swizzled tile is line + (byte ^ mask): ``line`` is the start of its row
# within the box, ``byte`` the offset within the span, ``mask`` the chunk bits that the swizzle
# permutes, taken from the row. A thread's rows of one fragment are multiples of 8 apart, so one
# mask serves them all, and only ``byte`` changes from column to column.


def frame(
    e: Emitter,
    ref: SmemRef,
    thread_row: str,
    thread_byte: str,
    layout: RegisterLayout = ACCUMULATOR,
) -> tuple[str, str]:
    """Define ``line`` and ``byte`` of the executing thread, of a fragment of this layout; their
    identifiers.
    """
    buffer = e.buffer(ref.buffer)
    span = buffer.dtype.size(buffer.box_cols)
    row = f"({e.special('warpgroup.warp')} * {layout.row(1, 0, 0, 0)} + {thread_row})"
    line, byte = e.names.fresh("line"), e.names.fresh("byte")
    e.out.line(f"const unsigned {line} = {e.line_address(ref)} + {row} * {span};")
    flipped = e.swizzled(buffer, line)
    mask = f" ^ ({flipped})" if flipped else ""
    inner, packed = e.box_column(ref)[1], buffer.dtype.packed
    inner = divided(inner, packed) if packed > 1 else inner * buffer.dtype.bytes
    start = f"({e.sum(thread_byte, inner)})" if inner != Const(0) else f"({thread_byte})"
    e.out.line(f"const unsigned {byte} = {start}{mask};")
    return line, byte


def _steps(e: Emitter, ref: SmemRef, value: Frag, cols: int) -> Iterator[tuple[str, str, int]]:
    """Cover ``value`` in steps of ``cols`` columns, one unrolled loop for each 64-row block.

    Yields inside the loop (64-row and box offset, byte offset within the span, first register
    step) as C++ over the loop index ``r``, with the block number.
    """
    buffer, view = e.buffer(ref.buffer), e.view(value)
    span = buffer.dtype.size(buffer.box_cols)
    per_box = max(buffer.box_cols // cols, 1)
    steps = view.type.cols // cols
    several = steps > per_box
    for block in range(view.blocks):
        down = view.type.layout.down(block, 0)
        rows = f" + {down * span}" if block else ""
        e.out.line("#pragma unroll")
        with e.out.block(f"for (int r = 0; r < {steps}; ++r)"):
            box = f" + r / {per_box} * {buffer.lines * span}" if several else ""
            step = f"r % {per_box}" if several else "r"
            yield rows + box, f"{step} * {buffer.dtype.size(cols)}", block


def _check(e: Emitter, op: str, ref: SmemRef, value: Frag, *, wide: bool) -> None:
    """Refuse what the instruction does not move, or what no single mask swizzles."""
    buffer, cols = e.buffer(ref.buffer), value.type.cols
    if buffer.dtype is not value.type.dtype:
        raise InternalError("emit_cuda", f"{op} of {value.type} to {buffer.dtype.value} memory")
    if not in_boxes(buffer, ref.col, cols):
        raise InternalError("emit_cuda", f"{op}: {cols} columns straddle boxes of {buffer.name}")
    if value.type.row_bytes not in ((32, 8, 4) if wide else (16,)):
        raise InternalError("emit_cuda", f"{op} of a {value.type.dtype.register_bits}-bit fragment")


def _matrices(e: Emitter, name: str, ref: SmemRef, value: Frag) -> None:
    """``stmatrix`` or ``ldmatrix``: four 8x8 matrices at a time, or two of narrow values.

    Matrices of an x4: rows 0-7, rows 8-15, then the same rows 8 columns on; lane l gives the
    address of row l % 8 of matrix l / 8.
    """
    lane = e.special("lane")
    with e.out.block(""):
        wide, columns = value.type.groups % 2 == 0, value.type.layout.columns
        half = f"({lane} >> 4) * 16" if wide else "0"
        line, byte = frame(e, ref, f"({lane} & 15)", half, value.type.layout)
        for rows, step, block in _steps(e, ref, value, (2 if wide else 1) * columns):
            count = 4 if wide else 2
            registers = _registers(e, value, block, count)
            e.out.call(f"ptx::{name}_x{count}", f"{line}{rows} + ({byte} ^ ({step}))", *registers)


def _vectors(
    e: Emitter, name: str, ref: SmemRef, value: Frag, cta: Expr | None = None, *last: str
) -> None:
    """``st.shared.v2``, ``st.async.v2`` or ``ld.shared.v2``: the two neighbours that a thread
    holds of a row; ``last`` are the call's last operands.
    """
    lane = e.special("lane")
    buffer = e.buffer(ref.buffer)
    span = buffer.dtype.size(buffer.box_cols)
    function = f"ptx::{name}_v2"
    if buffer.dtype is DType.S32:
        function = f"{name}_v2_s32"
        e.functions[function] = _WORDS[name]
    if cta is not None:
        function = pair_function(e, name, buffer.dtype)
    with e.out.block(""):
        line, byte = frame(e, ref, f"({lane} >> 2)", f"({lane} & 3) * 8", value.type.layout)
        if cta is not None:
            line = map_line(e, line, cta)
        for rows, step, block in _steps(e, ref, value, value.type.layout.columns):
            at = f"{line}{rows} + ({byte} ^ ({step}))"
            r = _registers(e, value, block, 4)
            e.out.call(function, at, r[0], r[1], *last)
            e.out.call(function, f"{at} + {8 * span}", r[2], r[3], *last)


def _pairs(e: Emitter, ref: SmemRef, value: Frag) -> Iterator[tuple[str, str, int]]:
    """Where the neighbours of 8 bits lie that a thread holds of a row, and those of the row 8 below
    (C++ in a loop over groups ``r``), and of which block they are.

    A thread begins in the first 8 of 16 bytes of a line, and a line of a swizzled buffer at a
    multiple of its length: a step flips whole 16 bytes in the address itself, and the other 8 are
    an offset of the instruction.
    """
    lane, span = e.special("lane"), e.buffer(ref.buffer).box_cols
    to = "^" if e.buffer(ref.buffer).swizzle.value else "+"
    with e.out.block(""):
        line, byte = frame(e, ref, f"({lane} >> 2)", f"({lane} & 3) * 2", value.type.layout)
        for rows, step, block in _steps(e, ref, value, value.type.layout.columns):
            at = f"(({line} + {byte}) {to} ({step} & ~15)) + ({step} & 8){rows}"
            yield at, f"{at} + {8 * span}", block


def _in_this_cta(s: LdShared | StShared, value: Frag) -> None:
    if s.cta is not None:
        raise InternalError("emit_cuda", f"{s.OP} of {value.type} in another CTA")


_WORDS = {
    "st_shared": """\
__device__ __forceinline__ void st_shared_v2_s32(unsigned dst, int a, int b) {
  asm volatile("st.shared.v2.s32 [%0], {%1, %2};" ::"r"(dst), "r"(a), "r"(b) : "memory");
}""",
    "ld_shared": """\
__device__ __forceinline__ void ld_shared_v2_s32(unsigned src, int& a, int& b) {
  asm volatile("ld.shared.v2.s32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(src) : "memory");
}""",
}
"""Of s32; ``device.cuh`` has those of f32."""


def _stmatrix(e: Emitter, s: StMatrix) -> None:
    if s.trans:
        store_transposed(e, s)
        return
    _check(e, s.OP, s.dst, s.value, wide=False)
    _matrices(e, "stmatrix", s.dst, s.value)


def _ldmatrix(e: Emitter, s: LdMatrix) -> None:
    _check(e, s.OP, s.src, s.out, wide=False)
    e.declare(s.out)
    _matrices(e, "ldmatrix", s.src, s.out)


def _st_shared(e: Emitter, s: StShared) -> None:
    _check(e, s.OP, s.dst, s.value, wide=True)
    if s.value.type.dtype.register_bits == 8:
        _in_this_cta(s, s.value)
        e.functions["st_shared_u16x2"] = STORE_PAIRS
        for upper, lower, block in _pairs(e, s.dst, s.value):
            e.out.call("st_shared_u16x2", upper, lower, e.register(s.value, block, "r"))
        return
    _vectors(e, "st_shared", s.dst, s.value, s.cta)


def _st_async(e: Emitter, s: StAsync) -> None:
    _check(e, s.OP, s.dst, s.value, wide=True)
    with e.out.block(""):
        bar = map_line(e, e.mbarrier(s.bar), s.cta)
        _vectors(e, "st_async", s.dst, s.value, s.cta, bar)


def _ld_shared(e: Emitter, s: LdShared) -> None:
    _check(e, s.OP, s.src, s.out, wide=True)
    e.declare(s.out)
    if s.out.type.dtype.packed > 1:
        _load_words(e, s)
        return
    if s.out.type.dtype.register_bits == 8:
        _in_this_cta(s, s.out)
        e.functions["ld_shared_u16x2"] = LOAD_PAIRS
        for upper, lower, block in _pairs(e, s.src, s.out):
            e.out.line(f"{e.register(s.out, block, 'r')} = ld_shared_u16x2({upper}, {lower});")
        return
    _vectors(e, "ld_shared", s.src, s.out, s.cta)


def _load_words(e: Emitter, s: LdShared) -> None:
    """Halves of bytes: the four threads of a row load the same words of 8 columns, four at a time,
    and each takes its byte where they are widened.
    """
    _in_this_cta(s, s.out)
    buffer, value = e.buffer(s.src.buffer), s.out
    name, cols = "ld_shared_v4_x2", buffer.dtype.count(16)
    e.functions[name] = LOAD_WORDS
    if value.type.cols % cols:
        raise InternalError("emit_cuda", f"{s.OP} of {value.type} from {buffer.swizzle}")
    span = buffer.dtype.size(buffer.box_cols)
    with e.out.block(""):
        row = f"({e.special('lane')} >> 2)"
        line, byte = frame(e, s.src, row, "0", value.type.layout)
        add = "^" if buffer.swizzle.permutes else "+"
        for rows, step, block in _steps(e, s.src, value, cols):
            at = f"{line}{rows} + ({byte} {add} ({step}))"
            e.out.call(name, f"&{e.register(value, block, '4 * r')}", at, f"{at} + {8 * span}")


def _registers(e: Emitter, value: Frag, block: int, count: int) -> list[str]:
    """The ``count`` registers of step ``r`` of a block."""
    tails = ["", *(f" + {r}" for r in range(1, count))]
    return [e.register(value, block, f"{count} * r{tail}") for tail in tails]


RULES: Mapping[type[Stmt], Rule] = {
    PrefetchTensorMap: _prefetch, TmaLoad: _tma_load, TmaStore: _tma_store,
    TmaPrefetch: _tma_prefetch,
    BulkCommit: _bulk_commit, BulkWait: _bulk_wait, StMatrix: _stmatrix, StShared: _st_shared,
    LdMatrix: _ldmatrix, LdShared: _ld_shared, StAsync: _st_async, BulkCopy: bulk_copy,
}  # fmt: skip
