"""Rules for tensor memory and ``tcgen05``, and the functions that wrap the instructions."""

from __future__ import annotations

from collections.abc import Mapping

from lowering.cuda.compute import operand_descriptor
from lowering.cuda.emitter import Emitter, Rule
from lowering.cuda.queue import word_address
from lowering.ground.errors import InternalError
from lowering.ground.expr import ZERO, Expr
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
from lowering.target.tensor_memory import LANES

__all__ = ["RULES"]

BASE = "tensor_memory"
"""C++ variable with the address of what the CTA has allocated."""

BLOCK_LANES = 16
"""Lanes that one ``tcgen05.ld.16x256b`` reads; a warp has twice as many."""

WIDEST_LOAD = 32
"""Groups of 8 columns that one of them reads at most: 128 registers (PTX ISA, tcgen05.ld)."""

_MMA = """\
__device__ __forceinline__ void tcgen05_mma_$kind(
    unsigned d, u64 a, u64 b, unsigned instruction, int accumulate) {
  asm volatile(
      "{\\n .reg .pred p;\\n setp.ne.b32 p, %4, 0;\\n"
      " tcgen05.mma.cta_group::$group.kind::$kind [%0], %1, %2, %3, p;\\n}"
      :: "r"(d), "l"(a), "l"(b), "r"(instruction), "r"(accumulate) : "memory");
}"""


def _function(e: Emitter, name: str, taken: str, instruction: str, operands: str = "") -> str:
    """Have a function of one instruction written; its name."""
    e.functions[name] = "\n".join([
        f"__device__ __forceinline__ void {name}({taken}) {{",
        f'  asm volatile("{instruction}" :: {operands} : "memory");',
        "}",
    ])  # fmt: skip
    return name


def _group(e: Emitter) -> str:
    """The modifier that all of a kernel's instructions have."""
    return f"cta_group::{e.kernel.cta_group.size}"


def _cells(e: Emitter, ref: TmemRef) -> str:
    """Address of an element; its row is the first one of all lanes."""
    buffer = e.kernel.tensor(ref.buffer)
    if buffer.column is None:
        raise InternalError("emit_cuda", f"tensor memory {ref.buffer} has no column")
    block, lane = split_multiple(ref.row, LANES)
    if lane != ZERO:
        raise InternalError("emit_cuda", f"row {ref.row} of {ref.buffer} is not in lane 0")
    column: Expr = ref.stage * buffer.stage_columns if buffer.stages > 1 else ZERO
    return e.sum(BASE, column + block * buffer.cols + ref.col + buffer.column)


def _mma(e: Emitter, s: Tcgen05Mma) -> None:
    a, b, d = e.buffer(s.a.buffer), e.buffer(s.b.buffer), e.kernel.tensor(s.d.buffer)
    family, types = e.kernel.target.mma, (a.dtype, b.dtype, d.dtype)
    form = family.form(*types)
    if form is None or s.cols not in form.n:
        raise InternalError("emit_cuda", family.problem(*types, s.cols) or "")
    rows, group = family.m * family.ctas, str(family.ctas)
    told = instruction_descriptor(form.kind, types, rows, s.cols, s.trans_a, s.trans_b)
    name = f"tcgen05_mma_{form.kind}"
    e.functions[name] = _MMA.replace("$kind", form.kind).replace("$group", group)
    e.out.call(
        name,
        _cells(e, s.d),
        operand_descriptor(e, s.a, s.trans_a, 0),
        operand_descriptor(e, s.b, s.trans_b, 0),
        f"{told:#x}",
        e.arg(s.accumulate),
    )


def _commit(e: Emitter, s: Tcgen05Commit) -> None:
    instruction = f"tcgen05.commit.{_group(e)}.mbarrier::arrive::one.shared::cluster"
    name, bar = "tcgen05_commit", e.mbarrier(s.bar)
    if s.multicast is None:
        e.out.call(_function(e, name, "unsigned bar", f"{instruction}.b64 [%0];", '"r"(bar)'), bar)
        return
    instruction += ".multicast::cluster.b64 [%0], %1;"
    operands = '"r"(bar), "h"((unsigned short)mask)'
    _function(e, f"{name}_multicast", "unsigned bar, int mask", instruction, operands)
    e.out.call(f"{name}_multicast", bar, e.arg(s.multicast))


def _load(e: Emitter, s: Tcgen05Load) -> None:
    """Of each 16 lanes of the warp a load, or several where the columns are no power of two."""
    kind, name = s.out.type, e.declare(s.out)
    if kind.layout != e.kernel.target.mma.layout or kind.rows != LANES:
        raise InternalError("emit_cuda", f"{s.OP} of {kind}")
    cells = f"{_cells(e, s.src)} + ({e.special('warpgroup.warp')} << 21)"
    for block in range(kind.blocks):
        done = 0
        while done < kind.groups:
            groups = min(1 << ((kind.groups - done).bit_length() - 1), WIDEST_LOAD)
            at = (block * BLOCK_LANES << 16) + done * kind.layout.columns
            first = block * e.view(s.out).block + done * kind.group_registers
            e.out.call(
                _load_function(e, groups),
                name + (f" + {first}" if first else ""),
                cells + (f" + {at:#x}" if at else ""),
            )
            done += groups


def _load_function(e: Emitter, groups: int) -> str:
    """The load of 16 lanes of so many groups of 8 columns, four registers each."""
    name, count = f"tcgen05_ld_16x256b_x{groups}", 4 * groups
    rows = [range(i, min(i + 8, count)) for i in range(0, count, 8)]
    outputs = [", ".join(f"%{i}" for i in row) for row in rows]
    bound = [", ".join(f'"=f"(d[{i}])' for i in row) for row in rows]
    e.functions[name] = "\n".join([
        f"__device__ __forceinline__ void {name}(float* d, unsigned src) {{",
        f'  asm volatile("tcgen05.ld.sync.aligned.16x256b.x{groups}.b32 {{"',
        *(f'      "{row}{"," if n < len(rows) - 1 else f"}}, [%{count}];"}"'
          for n, row in enumerate(outputs)),
        *(f'      {":" if n == 0 else " "} {row}{"," if n < len(rows) - 1 else ""}'
          for n, row in enumerate(bound)),
        '      : "r"(src) : "memory");',
        "}",
    ])  # fmt: skip
    return name


def _wait_load(e: Emitter, s: Tcgen05WaitLoad) -> None:
    e.out.call(_function(e, "tcgen05_wait_ld", "", "tcgen05.wait::ld.sync.aligned;"))
    # Without it the compiler may read the registers ahead of the wait.
    e.out.line(f"ptx::pin({e.array(s.acc)});")


def _fence(e: Emitter, s: Tcgen05Fence) -> None:
    name = f"tcgen05_fence_{s.when}"
    e.out.call(_function(e, name, "", f"tcgen05.fence::{s.when}_thread_sync;"))


def _alloc(e: Emitter, s: Tcgen05Alloc) -> None:
    instruction = f"tcgen05.alloc.{_group(e)}.sync.aligned.shared::cta.b32 [%0], "
    name = f"tcgen05_alloc_{s.columns}"
    _function(e, name, "unsigned slot", f"{instruction}{s.columns};", '"r"(slot)')
    e.out.call(name, word_address(e, s.dst))


def _relinquish(e: Emitter, s: Tcgen05Relinquish) -> None:
    instruction = f"tcgen05.relinquish_alloc_permit.{_group(e)}.sync.aligned;"
    e.out.call(_function(e, "tcgen05_relinquish", "", instruction))


def _base(e: Emitter, s: Tcgen05Base) -> None:
    e.out.line(f"const unsigned {BASE} = {e.arg(s.address)};")


def _dealloc(e: Emitter, s: Tcgen05Dealloc) -> None:
    instruction = f"tcgen05.dealloc.{_group(e)}.sync.aligned.b32 %0, {s.columns};"
    name = _function(e, f"tcgen05_dealloc_{s.columns}", "unsigned at", instruction, '"r"(at)')
    e.out.call(name, BASE)


RULES: Mapping[type[Stmt], Rule] = {
    Tcgen05Mma: _mma, Tcgen05Commit: _commit, Tcgen05Load: _load, Tcgen05WaitLoad: _wait_load,
    Tcgen05Fence: _fence, Tcgen05Alloc: _alloc, Tcgen05Relinquish: _relinquish,
    Tcgen05Base: _base, Tcgen05Dealloc: _dealloc,
}  # fmt: skip
