"""Rules for tensor memory and ``tcgen05``.

Products and loads are inline PTX: the MLIR of Triton 3.6 has no ``nvvm.tcgen05.mma``, and what
``nvvm.tcgen05.ld`` gives is a vector, whose elements LLVM may move ahead of the wait.
"""

from __future__ import annotations

from collections.abc import Mapping

from lowering.ground.errors import InternalError
from lowering.ground.expr import ZERO, Expr, Special, Var
from lowering.ground.poly import split_multiple
from lowering.kernel.descriptor import instruction_descriptor
from lowering.kernel.nodes import (
    Stmt,
    Tcgen05Alloc,
    Tcgen05Base,
    Tcgen05Commit,
    Tcgen05Dealloc,
    Tcgen05Fence,
    Tcgen05Load,
    Tcgen05Mma,
    Tcgen05Relinquish,
    Tcgen05WaitLoad,
    TmemRef,
)
from lowering.kernel.places import placed
from lowering.mlir.emitter import Emitter, Rule, Word
from lowering.mlir.ssa import F32, I1, I16, Value
from lowering.mlir.wgmma import operand_descriptor, pinned
from lowering.mlir.words import word_address
from lowering.target.tensor_memory import LANES

__all__ = ["RULES"]

_BASE = Var("%tensor_memory")
"""Address of what the CTA has allocated."""

_BLOCK_LANES, _WIDEST_LOAD = 16, 32
"""Lanes that one ``tcgen05.ld.16x256b`` reads; the most groups of 8 columns (PTX ISA)."""

_POINTER = "!llvm.ptr<6>"
"""Into tensor memory."""


def _grouped(e: Emitter) -> str:
    """``cta_group`` as nvvm has it, in the generic form, which all versions read."""
    return f"<{{group = #nvvm.cta_group<cta_{e.kernel.cta_group.size}>}}>"


def _cells(e: Emitter, ref: TmemRef) -> Expr:
    """Address of an element; its row is the first one of all lanes."""
    buffer = e.kernel.tensor(ref.buffer)
    if buffer.column is None:
        raise InternalError("emit_mlir", f"tensor memory {ref.buffer} has no column")
    block, lane = split_multiple(ref.row, LANES)
    if lane != ZERO:
        raise InternalError("emit_mlir", f"row {ref.row} of {ref.buffer} is not in lane 0")
    column = ref.stage * buffer.stage_columns if buffer.stages > 1 else ZERO
    return _BASE + column + block * buffer.cols + ref.col + buffer.column


def _mma(e: Emitter, s: Tcgen05Mma) -> None:
    family, d = e.kernel.target.mma, e.kernel.tensor(s.d.buffer)
    types = placed(e.kernel, s.a.buffer).dtype, placed(e.kernel, s.b.buffer).dtype, d.dtype
    form = family.form(*types)
    if form is None or s.cols not in form.n:
        raise InternalError("emit_mlir", family.problem(*types, s.cols) or "")
    size = e.kernel.cta_group.size
    told = instruction_descriptor(form.kind, types, family.m * size, s.cols, s.trans_a, s.trans_b)
    operands = [
        e.expr(_cells(e, s.d)),
        operand_descriptor(e, s.a, s.trans_a, 0),
        operand_descriptor(e, s.b, s.trans_b, 0),
        e.out.constant(told),
        e.expr(s.accumulate),
    ]
    if operands[-1].type != I1:
        raise InternalError("emit_mlir", f"enable-input-d {s.accumulate} is no predicate")
    name = f"tcgen05.mma.cta_group::{size}.kind::{form.kind}"
    e.asm(f"{name} [$0], $1, $2, $3, $4;", operands)


def _commit(e: Emitter, s: Tcgen05Commit) -> None:
    given = [e.pointer(e.mbarrier(s.bar))]
    if s.multicast is not None:
        given.append(e.out.op(f"arith.trunci {e.expr(s.multicast)} : i32 to i16", I16))
    names, types = ", ".join(map(str, given)), ", ".join(v.type for v in given)
    e.out.line(f'"nvvm.tcgen05.commit"({names}) {_grouped(e)} : ({types}) -> ()')


def _load(e: Emitter, s: Tcgen05Load) -> None:
    """Of each 16 lanes of the warp a load, or several where the columns are no power of two."""
    kind = s.out.type
    if kind.layout != e.kernel.target.mma.layout or kind.rows != LANES:
        raise InternalError("emit_mlir", f"{s.OP} of {kind}")
    # The lane is in the upper half of an address.
    first = _cells(e, s.src) + Special("warpgroup.warp") * (LANES // 4 << 16)
    found: list[list[Word]] = [[] for _ in range(kind.blocks)]
    for block, words in enumerate(found):
        done = 0
        while done < kind.groups:
            groups = min(1 << ((kind.groups - done).bit_length() - 1), _WIDEST_LOAD)
            at = e.expr(first + ((block * _BLOCK_LANES << 16) + done * kind.layout.columns))
            count = groups * kind.group_registers
            registers = ", ".join(f"${i}" for i in range(count))
            text = f"tcgen05.ld.sync.aligned.16x256b.x{groups}.b32 {{{registers}}}, [${count}];"
            words += e.asm(text, [at], [F32] * count)
            done += groups
    e.keep(s.out, tuple(map(tuple, found)))


def _wait_load(e: Emitter, s: Tcgen05WaitLoad) -> None:
    e.out.line("nvvm.tcgen05.wait <load>")
    # Without it the compiler may read the registers ahead of the wait.
    e.keep(s.out, pinned(e, e.registers(s.acc)))


def _fence(e: Emitter, s: Tcgen05Fence) -> None:
    kind = f"<{{kind = #nvvm.tcgen05_fence<{s.when}>}}>"
    e.out.line(f'"nvvm.tcgen05.fence"() {kind} : () -> ()')


def _alloc(e: Emitter, s: Tcgen05Alloc) -> None:
    at, columns = e.pointer(word_address(e, s.dst)), e.out.constant(s.columns)
    e.out.line(f'"nvvm.tcgen05.alloc"({at}, {columns}) {_grouped(e)} : ({at.type}, i32) -> ()')


def _relinquish(e: Emitter, s: Tcgen05Relinquish) -> None:
    e.out.line(f'"nvvm.tcgen05.relinquish_alloc_permit"() {_grouped(e)} : () -> ()')


def _base(e: Emitter, s: Tcgen05Base) -> None:
    e.define(_BASE, e.expr(s.address))


def _dealloc(e: Emitter, s: Tcgen05Dealloc) -> None:
    base: Value = e.expr(_BASE)
    at = e.out.op(f"llvm.inttoptr {base} : i32 to {_POINTER}", _POINTER)
    operands = f"({at}, {e.out.constant(s.columns)})"
    e.out.line(f'"nvvm.tcgen05.dealloc"{operands} {_grouped(e)} : ({at.type}, i32) -> ()')


RULES: Mapping[type[Stmt], Rule] = {
    Tcgen05Mma: _mma, Tcgen05Commit: _commit, Tcgen05Load: _load, Tcgen05WaitLoad: _wait_load,
    Tcgen05Fence: _fence, Tcgen05Alloc: _alloc, Tcgen05Relinquish: _relinquish,
    Tcgen05Base: _base, Tcgen05Dealloc: _dealloc,
}  # fmt: skip
