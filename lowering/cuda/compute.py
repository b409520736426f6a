"""Rules for fragments and wgmma."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

from lowering.cuda import elements
from lowering.cuda.elements import pack
from lowering.cuda.emitter import Emitter, Rule
from lowering.cuda.literals import literal
from lowering.cuda.narrow import HALVES_OF, PAIRS, SMALLER_PAIRS, rounded
from lowering.cuda.wgmma import PIN_WORDS
from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.ground.expr import ZERO, Const, Expr
from lowering.kernel.descriptor import MatrixDescriptor, block_bytes
from lowering.kernel.kernel import SharedBuffer
from lowering.kernel.nodes import (
    Frag,
    FragCast,
    FragColumns,
    FragFill,
    FragRows,
    SmemRef,
    Stmt,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from lowering.target.wgmma import A_REGISTERS, WgmmaForm

__all__ = ["RULES", "descriptor_words", "operand_descriptor"]


def _fill(e: Emitter, s: FragFill) -> None:
    name, dtype = e.declare(s.out), s.out.type.dtype
    value = str(int(s.value)) if dtype is DType.S32 else literal(s.value)
    if dtype.register_bits < 32:
        value = f"{pack(dtype)}({value}, {value})"
    e.out.line("#pragma unroll")
    e.out.line(f"for (int r = 0; r < {s.out.type.registers}; ++r) {name}[r] = {value};")
    if any(dtype in form.accumulators for form in e.kernel.target.mma.forms):
        # Keeps the fill ahead of the wgmma.fence that orders it before the first wgmma.
        _pin(e, s.out)


def _cast(e: Emitter, s: FragCast) -> None:
    if s.out.type.dtype is s.value.type.dtype:
        return
    out, narrow = e.view(s.out), rounded(s.out.type.dtype)
    e.declare(s.out)
    if narrow is not None:
        _narrow(e, s, *narrow)
        return
    if s.out.type.group == (1, 1):
        _convert_singles(e, s)
        return
    if s.value.type.dtype in PAIRS:
        _widen(e, s)
        return
    words = out.per_block // (2 if s.out.type.dtype is DType.F32 else 1)
    for block in range(out.blocks):
        e.out.line("#pragma unroll")
        with e.out.block(f"for (int r = 0; r < {words}; ++r)"):
            _convert(e, s, block)


def _widen(e: Emitter, s: FragCast) -> None:
    """Elements of 8 bits, two neighbours of a row at a time."""
    source = s.value.type
    pairs = SMALLER_PAIRS[source.dtype, s.exponent] if s.exponent else PAIRS[source.dtype]
    name, e.functions[name] = pairs.function(source.dtype, s.exponent)
    if source.group != (2, 2):
        raise InternalError("emit_cuda", f"{s.OP} of {source}: whole tiles are widened")
    for block in range(source.blocks):
        with e.groups(source.groups):
            four = e.register(s.value, block, "r")
            if not e.is_apart(s.value):
                e.functions["halves_of"] = HALVES_OF
                four = f"halves_of({four})"
            for half in (0, 1):
                _widen_pair(e, s, block, half, f"{name}<{half}>({four})")


def _narrow(e: Emitter, s: FragCast, name: str, text: str) -> None:
    """Elements of 8 bits, four of a register at a time; where a group has fewer, zeros."""
    source, e.functions[name] = s.value.type, text
    rows, cols = source.group
    places = [(row, col) for row in range(rows) for col in range(cols)]
    for block in range(source.blocks):
        with e.groups(source.groups):
            for first in range(0, len(places), 4):
                found = (e.element(s.value, block, *at) for at in places[first : first + 4])
                four = [elements.value(source.dtype, register, part) for register, part in found]
                four += ["0.0f"] * (4 - len(four))
                register, _ = e.element(s.out, block, *places[first])
                e.out.line(f"{register} = {name}({', '.join(four)});")


def _widen_pair(e: Emitter, s: FragCast, block: int, half: int, pair: str) -> None:
    """Two neighbours, which ``pair`` has as 16 bits, as what they become."""
    natural, result = PAIRS[s.value.type.dtype].dtype, s.out.type.dtype
    if result is natural:
        e.out.line(f"{e.register(s.out, block, f'2 * r + {half}')} = {pair};")
        return
    word = e.names.fresh("pair")
    e.out.line(f"const unsigned {word} = {pair};")
    low, high = (elements.value(natural, word, part) for part in (0, 1))
    if result is not DType.F32:
        packed = f"{pack(result)}({low}, {high})"
        e.out.line(f"{e.register(s.out, block, f'2 * r + {half}')} = {packed};")
        return
    for part, value in enumerate((low, high)):
        e.out.line(f"{e.register(s.out, block, f'4 * r + {2 * half + part}')} = {value};")


def _convert(e: Emitter, s: FragCast, block: int) -> None:
    """Two columns: register ``r`` of a packed fragment, ``2 r`` and ``2 r + 1`` of a wide one."""

    def pair(value: Frag) -> tuple[str, str]:
        return e.register(value, block, "2 * r"), e.register(value, block, "2 * r + 1")

    source, result = s.value.type.dtype, s.out.type.dtype
    if source.register_bits == 32:
        low, high = (elements.value(source, register) for register in pair(s.value))
    else:
        word = e.register(s.value, block, "r")
        low, high = (elements.value(source, word, half) for half in (0, 1))
    if result is DType.F32:
        for register, value in zip(pair(s.out), (low, high), strict=True):
            e.out.line(f"{register} = {value};")
    else:
        e.out.line(f"{e.register(s.out, block, 'r')} = {pack(result)}({low}, {high});")


def _convert_singles(e: Emitter, s: FragCast) -> None:
    """Groups of one value, each in a register; one of 16 bits lies in the lower half of its own."""
    source, result, groups = s.value.type.dtype, s.out.type.dtype, s.out.type.groups
    with e.groups(groups) if groups > 1 else nullcontext():
        index = "r" if groups > 1 else "0"
        value = elements.value(source, e.register(s.value, 0, index))
        word = value if result is DType.F32 else f"{pack(result)}({value}, 0.0f)"
        e.out.line(f"{e.register(s.out, 0, index)} = {word};")


def _columns(e: Emitter, s: FragColumns) -> None:
    """No code: the plan made ``out`` a view of ``value``'s registers."""
    cols = s.out.type.cols
    start = s.start.value if isinstance(s.start, Const) else 0
    if start % s.value.type.layout.columns or start + cols > s.value.type.cols:
        raise InternalError("emit_cuda", f"columns {s.start} of {s.value.type} as {s.out.type}")


def _rows(e: Emitter, s: FragRows) -> None:
    """No code: the plan made ``out`` a view of ``value``'s registers."""
    rows = s.out.type.rows
    start = s.start.value if isinstance(s.start, Const) else 0
    if start % s.value.type.layout.rows or start + rows > s.value.type.rows:
        raise InternalError("emit_cuda", f"rows {s.start} of {s.value.type} as {s.out.type}")


# --- wgmma ------------------------------------------------------------------------------------


def descriptor_words(
    buffer: SharedBuffer, trans: bool = False, version: int = 0
) -> tuple[int, int]:
    """Constant (high, low) words of an operand's descriptor, without the address."""
    template = MatrixDescriptor.of(buffer, trans).template(version)
    return template >> 32, template & 0xFFFFFFFF


def operand_descriptor(e: Emitter, ref: SmemRef, trans: bool, block: int) -> str:
    """The 64-bit descriptor of an operand tile, counted in units of 16 bytes."""
    buffer = e.buffer(ref.buffer)
    if ref.buffer not in e.descriptors:
        identifier = e.names.of("buffer", ref.buffer)
        e.descriptors[ref.buffer] = e.names.fresh(f"{identifier}_desc"), trans
    word, known = e.descriptors[ref.buffer]
    inner: Expr = e.box_column(ref)[1]
    if trans is not known:
        raise InternalError("emit_cuda", f"{ref.buffer} is read as K-major and as MN-major")
    if trans and inner != Const(0):
        raise InternalError("emit_cuda", f"MN-major operand starts within a box: {ref.col}")
    high, _ = descriptor_words(buffer, trans, e.kernel.target.mma.version)
    # Within a span the start address moves by the bytes of K; the hardware applies the swizzle to
    # the address bits it computes from there.
    per_chunk = 16 // buffer.dtype.bytes
    extra = block * block_bytes(buffer, trans) // 16
    offset = e.tile_offset(ref, 16) + inner // per_chunk + extra
    return f"ptx::descriptor({high:#x}, {e.sum(word, offset)})"


def _wgmma(e: Emitter, s: Wgmma) -> None:
    b, view = e.buffer(s.b.buffer), e.view(s.acc)
    dtype = s.a.type.dtype if isinstance(s.a, Frag) else e.buffer(s.a.buffer).dtype
    types = dtype, b.dtype, view.type.dtype
    family = e.kernel.target.mma
    if problem := family.problem(*types, s.width):
        raise InternalError("emit_cuda", problem)
    form = WgmmaForm(family, s.width, *types, s.trans_a, s.trans_b, isinstance(s.a, Frag))
    e.wgmmas.add(form)
    skipped = s.col // (view.type.layout.columns // view.type.group_registers)
    for block in range(view.blocks):
        first = block * view.block + skipped
        e.out.call(
            form.name,
            e.array(s.acc) + (f" + {first}" if first else ""),
            _words(e, s.a, block)
            if isinstance(s.a, Frag)
            else operand_descriptor(e, s.a, s.trans_a, block),
            operand_descriptor(e, s.b, s.trans_b, 0),
            e.arg(s.accumulate),
        )


def _words(e: Emitter, a: Frag, block: int) -> str:
    """Where a block of A begins in registers, which stay untouched until a wait pins them."""
    view, array = e.view(a), e.array(a)
    if view.per_block != A_REGISTERS:
        raise InternalError("emit_cuda", f"A in registers is {a.type}")
    start = view.start + block * view.block
    return array if start == ZERO else f"{array} + {e.addend(start)}"


def _commit(e: Emitter, s: WgmmaCommit) -> None:
    e.out.line("ptx::wgmma_commit_group();")


def _fence(e: Emitter, s: WgmmaFence) -> None:
    e.out.line("ptx::wgmma_fence();")


def _wait(e: Emitter, s: WgmmaWait) -> None:
    e.out.line(f"ptx::wgmma_wait_group<{s.pending}>();")
    if not s.out.type.in_flight:
        # Without it the compiler may read the accumulator ahead of the wait.
        _pin(e, s.acc)
    for array in sorted(e.plan.arrays[a] for a in e.reads.pinned.get(s.out.name, ())):
        _pin_words(e, e.names.of("fragment", array))


def _pin(e: Emitter, value: Frag) -> None:
    """The compiler keeps the array of a value up to here."""
    if value.type.dtype is DType.F32:
        e.out.line(f"ptx::pin({e.array(value)});")
    else:
        _pin_words(e, e.array(value))


def _pin_words(e: Emitter, array: str) -> None:
    e.functions["pin_words"] = PIN_WORDS
    e.out.line(f"pin_words({array});")


RULES: Mapping[type[Stmt], Rule] = {
    FragFill: _fill, FragCast: _cast, FragColumns: _columns, FragRows: _rows, Wgmma: _wgmma,
    WgmmaFence: _fence, WgmmaCommit: _commit, WgmmaWait: _wait,
}  # fmt: skip
