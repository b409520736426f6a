"""Rules for wgmma and its groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.ground.expr import Const, Expr
from lowering.kernel.descriptor import ADDRESS_BITS, MatrixDescriptor, block_bytes
from lowering.kernel.kernel import SharedBuffer
from lowering.kernel.nodes import (
    Frag,
    SmemRef,
    Stmt,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from lowering.kernel.places import placed, tile_offset
from lowering.mlir.emitter import Emitter, Registers, Rule, Word
from lowering.mlir.ssa import I1, I64, Value
from lowering.target.wgmma import A_REGISTERS, WgmmaForm

__all__ = ["RULES", "operand_descriptor", "pinned"]

_UNIT = 16
"""Bytes in which a descriptor counts."""


def operand_descriptor(e: Emitter, ref: SmemRef, trans: bool, block: int) -> Value:
    """The 64-bit descriptor of an operand tile, counted in units of 16 bytes."""
    buffer = placed(e.kernel, ref.buffer)
    inner = e.box_column(ref)[1]
    if trans and inner != Const(0):
        raise InternalError("emit_mlir", f"MN-major operand starts within a box: {ref.col}")
    # Within a span the start address moves by the bytes of K; the hardware applies the swizzle to
    # the address bits it computes from there.
    per_chunk = _UNIT // buffer.dtype.bytes
    extra = block * block_bytes(buffer, trans) // _UNIT
    offset = e.resolved(tile_offset(e.kernel, ref, _UNIT)) + inner // per_chunk + extra
    template = MatrixDescriptor.of(buffer, trans).template(e.kernel.target.mma.version)
    # The lower word's constant goes to where the buffer begins, once for all tiles of it.
    high, low = template >> 32 << 32, template % (1 << 32)
    word = e.expr(_address(e, buffer) + low + offset)
    wide = e.out.op(f"arith.extui {word} : i32 to i64", I64)
    signed = high if high < 1 << 63 else high - (1 << 64)
    return e.out.op(f"arith.ori {wide}, {e.out.constant(signed, I64)} : i64", I64)


def _address(e: Emitter, buffer: SharedBuffer) -> Expr:
    """Where a buffer begins, as a descriptor has it.

    Shared addresses of a cluster's CTAs have the rank above the bits of a descriptor.
    """
    return e.buffer_at(buffer.name) % (1 << ADDRESS_BITS) // _UNIT


def _wgmma(e: Emitter, s: Wgmma) -> None:
    kind, registers = s.acc.type, isinstance(s.a, Frag)
    dtype = s.a.type.dtype if isinstance(s.a, Frag) else placed(e.kernel, s.a.buffer).dtype
    types = dtype, placed(e.kernel, s.b.buffer).dtype, kind.dtype
    family = e.kernel.target.mma
    if problem := family.problem(*types, s.width):
        raise InternalError("emit_mlir", problem)
    form = WgmmaForm(family, s.width, *types, s.trans_a, s.trans_b, registers)
    first = s.col // (kind.layout.columns // kind.group_registers)
    accumulate = e.resolved(s.accumulate)
    found = []
    for block, words in enumerate(e.registers(s.acc)):
        taken = words[first : first + form.words]
        a = _operand(e, s, block)
        b = operand_descriptor(e, s.b, s.trans_b, 0)
        if isinstance(accumulate, Const) and not registers:
            made = _by_nvvm(e, form, taken, a, b, bool(accumulate.value))
        else:
            made = _by_ptx(e, form, taken, a, b, e.expr(accumulate))
        found.append((*words[:first], *made, *words[first + form.words :]))
    e.keep(s.out, tuple(found))


def _operand(e: Emitter, s: Wgmma, block: int) -> list[Value]:
    """A block of A: its descriptor, or its registers, which stay untouched until a wait (see
    :class:`Emitter`).
    """
    if not isinstance(s.a, Frag):
        return [operand_descriptor(e, s.a, s.trans_a, block)]
    words = e.registers(s.a)[block]
    if len(words) != A_REGISTERS:
        raise InternalError("emit_mlir", f"A in registers is {s.a.type}")
    return e.words(words)


def _by_nvvm(
    e: Emitter,
    form: WgmmaForm,
    words: Sequence[Word],
    a: Sequence[Value],
    b: Value,
    accumulate: bool,
) -> tuple[Word, ...]:
    """``nvvm.wgmma.mma_async``, whose scale-d is an attribute and whose A has a descriptor."""
    acc = e.packed(tuple(words))
    scale = "one" if accumulate else "zero"
    shape = f"<m = {form.family.m}, n = {form.cols}, k = {form.family.k(form.a)}>"
    major = ("col" if form.trans_a else "row"), ("row" if form.trans_b else "col")
    overflow = ", <wrapped>" * (form.acc is DType.S32)
    text = (
        f"nvvm.wgmma.mma_async {a[0]}, {b}, {acc}, {shape}, "
        f"D [<{form.acc.ptx}>, <{scale}>{overflow}], "
        f"A [<{form.a.ptx}>, <one>, <{major[0]}>], B [<{form.b.ptx}>, <one>, <{major[1]}>] "
        f": {acc.type} -> {acc.type}"
    )
    return e.unpacked(e.out.op(text, acc.type), len(words))


def _by_ptx(
    e: Emitter,
    form: WgmmaForm,
    words: Sequence[Word],
    a: Sequence[Value],
    b: Value,
    accumulate: Value,
) -> tuple[Word, ...]:
    """Inline PTX where scale-d is known at run time only, or A comes from registers."""
    if accumulate.type != I1:
        raise InternalError("emit_mlir", f"scale-d {accumulate} is no predicate")
    count = len(words)
    names = [f"${2 * count + i}" for i in range(len(a) + 2)]
    sums = ", ".join(f"${i}" for i in range(count))
    first = f"{{{', '.join(names[:-2])}}}" if form.registers else names[0]
    text = f"{form.instruction} {{{sums}}}, {', '.join((first, *names[-2:], *form.immediates))};"
    return e.asm(text, [*a, b, accumulate], tied=e.words(words))


def pinned(e: Emitter, registers: Registers) -> Registers:
    """The same registers, of which nothing is known in front of this point."""
    return tuple(e.asm("", tied=e.words(block)) for block in registers)


def _wait(e: Emitter, s: WgmmaWait) -> None:
    e.out.line(f"nvvm.wgmma.wait.group.sync.aligned {s.pending}")
    registers = e.registers(s.acc)
    # Without it the compiler may read the accumulator ahead of the wait.
    e.keep(s.out, registers if s.out.type.in_flight else pinned(e, registers))


def _fence(e: Emitter, s: WgmmaFence) -> None:
    e.out.line("nvvm.wgmma.fence.aligned")


def _commit(e: Emitter, s: WgmmaCommit) -> None:
    e.out.line("nvvm.wgmma.commit.group.sync.aligned")


RULES: Mapping[type[Stmt], Rule] = {
    Wgmma: _wgmma, WgmmaFence: _fence, WgmmaCommit: _commit, WgmmaWait: _wait,
}  # fmt: skip
