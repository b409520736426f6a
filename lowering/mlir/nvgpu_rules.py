"""Rules for ``nvgpu``: mbarriers, TMA loads, products, results; see :mod:`lowering.mlir.nvgpu`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.expr import Expr, binary
from lowering.ground.layouts import BLOCK_ROWS
from lowering.kernel.control import Role
from lowering.kernel.kernel import Kernel
from lowering.kernel.memory import CACHE_POLICIES
from lowering.kernel.nodes import (
    Frag,
    FragColumns,
    FragFill,
    FragStoreGlobal,
    MBarrierArrive,
    MBarrierExpectTx,
    MBarrierInit,
    MBarrierInval,
    MBarrierRef,
    MBarrierWait,
    PrefetchTensorMap,
    SmemRef,
    Stmt,
    TmaLoad,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)  # fmt: skip
from lowering.kernel.places import placed
from lowering.kernel.visit import walk
from lowering.mlir import barriers, control
from lowering.mlir.emitter import Emitter, Registers, Word
from lowering.mlir.ssa import I1, Value

__all__ = ["RULES", "SPACE", "NvgpuEmitter", "tile_type"]

SPACE = "#gpu.address_space<workgroup>"
"""Of shared memory."""
_INDEX = "index"
_TICKS = 10_000_000
"""Nanoseconds for which a waiting thread may be suspended; nvgpu's waits have them all."""


class NvgpuEmitter(Emitter):
    """Sums are one opaque value for each block of 64 rows, and shared addresses count from 0.

    Attributes:
        products: those since the last fence, which are one operation of nvgpu.
    """

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel, RULES)
        self.products: list[Wgmma] = []
        self.starts: dict[str, int] = {}

    def role(self, role: Role) -> None:
        """No address of its own: ``gpu.dynamic_shared_memory`` is one for all."""
        outer, self.warps = self.warps, role.span
        self.body(role.body)
        self.warps = outer

    def keep(self, out: Frag, registers: Registers) -> None:
        """Sums, a value for each block."""
        self.fragments[out.name] = registers

    def packed(self, words: Sequence[Word]) -> Value:
        """A block of sums."""
        return words[0].value

    def unpacked(self, value: Value, count: int) -> tuple[Word, ...]:
        """A block of sums."""
        return (Word(value),)

    def index(self, e: Expr) -> Value:
        """An expression as ``index``."""
        value = self.expr(e)
        text = f"arith.index_cast {value} : {value.type} to index"
        return self.once(("index", value.name), lambda: self.out.op(text, _INDEX))

    def view(self, ref: SmemRef, rows: int, cols: int) -> Value:
        """A tile in shared memory as a memref."""
        kind = tile_type(placed(self.kernel, ref.buffer).dtype, rows, cols)
        whole, at = self.scalars["%dynamic"], self.index(self.box_address(ref))
        text = f"memref.view {whole}[{at}][] : {whole.type} to {kind}"
        return self.out.op(text, kind)


def _mlir(dtype: DType) -> str:
    """The name of a type in MLIR."""
    if dtype not in (DType.F16, DType.BF16):
        raise UnsupportedError(f"operands of {dtype.value} in nvgpu", "f16, bf16")
    return str(dtype.value)


def tile_type(dtype: DType, rows: int, cols: int) -> str:
    """A matrix in shared memory as a memref."""
    return f"memref<{rows}x{cols}x{_mlir(dtype)}, {SPACE}>"


# --- mbarriers --------------------------------------------------------------------------------


def _barrier(e: NvgpuEmitter, ref: MBarrierRef | None) -> tuple[str, str]:
    """A barrier of a group, and the group's type."""
    if ref is None:
        raise InternalError("emit_mlir", "a TMA load has no mbarrier")
    group = e.scalars[f"%group.{ref.array}"]
    return f"{group}[{e.index(ref.index)}]", group.type


def _init(e: NvgpuEmitter, s: MBarrierInit) -> None:
    at, kind = _barrier(e, s.bar)
    e.out.line(f"nvgpu.mbarrier.init {at}, {e.out.constant(s.arrivals, _INDEX)} : {kind}")


def _arrive(e: NvgpuEmitter, s: MBarrierArrive) -> None:
    if s.cta is not None:
        raise UnsupportedError(f"{s.OP} of another CTA in nvgpu", "barriers of the CTA itself")
    at, kind = _barrier(e, s.bar)
    e.out.op(f"nvgpu.mbarrier.arrive {at} : {kind} -> !nvgpu.mbarrier.token", "token")


def _expect_tx(e: NvgpuEmitter, s: MBarrierExpectTx) -> None:
    if s.bytes is None:
        raise InternalError("emit_mlir", f"mbarrier.expect_tx on {s.bar.array} has no byte count")
    at, kind = _barrier(e, s.bar)
    e.out.line(f"nvgpu.mbarrier.arrive.expect_tx {at}, {e.index(s.bytes)} : {kind}")


def _wait(e: NvgpuEmitter, s: MBarrierWait) -> None:
    if s.order != "acquire.cta" or e.kernel.watch is not None:
        raise UnsupportedError(f"{s.OP} with {s.order} or a bound in nvgpu", "acquire.cta")
    at, kind = _barrier(e, s.bar)
    parity = e.out.op(f"arith.trunci {e.expr(s.parity)} : i32 to i1", I1)
    ticks = e.out.constant(_TICKS, _INDEX)
    e.out.line(f"nvgpu.mbarrier.try_wait.parity {at}, {parity}, {ticks} : {kind}")


def _inval(e: NvgpuEmitter, s: MBarrierInval) -> None:
    e.out.line("// nvgpu has no such operation")


# --- TMA --------------------------------------------------------------------------------------


def _prefetch(e: NvgpuEmitter, s: PrefetchTensorMap) -> None:
    found = e.scalars[f"%descriptor.{s.map.map}"]
    e.out.line(f"nvgpu.tma.prefetch.descriptor {found} : {found.type}")


def _tma_load(e: NvgpuEmitter, s: TmaLoad) -> None:
    """The innermost coordinate first, as PTX has it."""
    if s.multicast is not None or s.cache != CACHE_POLICIES[0]:
        raise UnsupportedError(f"{s.OP} with multicast or a cache policy in nvgpu", "plain loads")
    rows, cols = e.kernel.tensor_map(s.src.map).box
    found, (bar, group) = e.scalars[f"%descriptor.{s.src.map}"], _barrier(e, s.bar)
    to = e.view(s.dst, rows, cols)
    box = ", ".join(str(e.index(at)) for at in reversed(s.src.coords))
    types = f"{found.type}, {group} -> {to.type}"
    e.out.line(f"nvgpu.tma.async.load {found}[{box}], {bar} to {to} : {types}")


# --- products ---------------------------------------------------------------------------------


def _sums(cols: int) -> str:
    return f"!nvgpu.warpgroup.accumulator<fragmented = vector<{BLOCK_ROWS}x{cols}xf32>>"


def _fill(e: NvgpuEmitter, s: FragFill) -> None:
    kind = s.out.type
    if kind.dtype is not DType.F32 or s.value != 0:
        raise UnsupportedError(f"{s.OP} of {kind} with {s.value} in nvgpu", "fp32 zeros")
    text = f"nvgpu.warpgroup.mma.init.accumulator -> {_sums(kind.cols)}"
    e.keep(s.out, tuple((Word(e.out.op(text, _sums(kind.cols))),) for _ in range(kind.blocks)))


def _fence(e: NvgpuEmitter, s: WgmmaFence) -> None:
    """Part of the product."""
    e.products = []


def _wgmma(e: NvgpuEmitter, s: Wgmma) -> None:
    e.products.append(s)
    e.keep(s.out, e.registers(s.acc))


def _commit(e: NvgpuEmitter, s: WgmmaCommit) -> None:
    """Part of the product."""


def _wgmma_wait(e: NvgpuEmitter, s: WgmmaWait) -> None:
    """All products since the fence and their wait are one operation, for each block of A."""
    found, e.products = e.products, []
    blocks = e.registers(s.acc)
    if not found:
        e.out.line(f"nvvm.wgmma.wait.group.sync.aligned {s.pending}")
    else:
        blocks = tuple(_product(e, found, b, s, words) for b, words in enumerate(blocks))
    e.keep(s.out, blocks)


def _product(
    e: NvgpuEmitter, found: Sequence[Wgmma], block: int, wait: WgmmaWait, words: Sequence[Word]
) -> tuple[Word, ...]:
    first, cols = found[0], wait.acc.type.cols
    if isinstance(first.a, Frag):
        raise InternalError("emit_mlir", "A in registers was not refused")
    a, b = placed(e.kernel, first.a.buffer), placed(e.kernel, first.b.buffer)
    k = e.kernel.target.mma.k(a.dtype)
    if len(found) * k != a.shape[-1]:
        raise UnsupportedError("products of a part of a stage in nvgpu", "all of its K at once")
    rows = first.a.moved(block * BLOCK_ROWS, 0)
    given = [
        _operand(e, rows, (BLOCK_ROWS, a.shape[-1])), _operand(e, first.b, (b.shape[0], cols)),
        words[0].value,
    ]  # fmt: skip
    names, types = ", ".join(map(str, given)), ", ".join(v.type for v in given)
    told = f"<{{transposeB, waitGroup = {wait.pending} : i64}}>"
    text = f'"nvgpu.warpgroup.mma"({names}) {told} : ({types}) -> {_sums(cols)}'
    return (Word(e.out.op(text, _sums(cols))),)


def _operand(e: NvgpuEmitter, ref: SmemRef, shape: tuple[int, int]) -> Value:
    """A tile of an operand as the product takes it."""
    at = e.view(ref, *shape)
    found = e.scalars[f"%descriptor.{_map_of(e.kernel, ref.buffer)}"]
    kind = f"!nvgpu.warpgroup.descriptor<tensor = {at.type}>"
    text = f"nvgpu.warpgroup.generate.descriptor {at}, {found} : {at.type}, {found.type} -> {kind}"
    return e.out.op(text, kind)


def _map_of(kernel: Kernel, buffer: str) -> str:
    """The tensor map by which a buffer is filled."""
    return next(
        s.src.map for s in walk(kernel.body) if isinstance(s, TmaLoad) and s.dst.buffer == buffer
    )


# --- results ----------------------------------------------------------------------------------


def _columns(e: NvgpuEmitter, s: FragColumns) -> None:
    e.starts[s.out.name] = e.number(s.start, f"column of {s.value.name}")
    e.keep(s.out, e.registers(s.value))


def _store(e: NvgpuEmitter, s: FragStoreGlobal) -> None:
    """Sums are stored as a whole, with their first columns; tiles that the tensor ends in trap."""
    g, start = e.kernel.global_tensor(s.dst.map), e.starts.get(s.value.name, 0)
    if g.dtype is not DType.F32 or s.trans or s.index is not None or len(s.dst.coords) != 2:
        raise UnsupportedError(f"{s.OP} of {s.value.type} to {s.dst.map} in nvgpu", "fp32 matrices")
    if start:
        return
    whole = e.scalars[f"%matrix.{g.name}"]
    for block, (word,) in enumerate(e.registers(s.value)):
        cols = int(word.value.type.partition("vector<")[2].split("x")[1])
        row, col = s.dst.row + block * BLOCK_ROWS, s.dst.col
        outside = e.expr(binary("or", g.rows < row + BLOCK_ROWS, g.cols < col + cols))
        e.out.line(f"scf.if {outside} {{")
        e.out.line('  "llvm.intr.trap"() : () -> ()')
        e.out.line("}")
        kind = f"memref<{BLOCK_ROWS}x{cols}xf32, strided<[?, 1], offset: ?>, 1>"
        part = f"[{e.index(row)}, {e.index(col)}] [{BLOCK_ROWS}, {cols}] [1, 1]"
        at = e.out.op(f"memref.subview {whole}{part} : {whole.type} to {kind}", kind)
        types = f"{word.value.type} to {at.type}"
        e.out.line(f"nvgpu.warpgroup.mma.store {word.value}, {at} : {types}")


RULES: Mapping[type[Stmt], Callable[[Any, Any], None]] = {
    **control.RULES, **barriers.RULES,
    MBarrierInit: _init, MBarrierArrive: _arrive, MBarrierExpectTx: _expect_tx,
    MBarrierWait: _wait, MBarrierInval: _inval, PrefetchTensorMap: _prefetch, TmaLoad: _tma_load,
    FragFill: _fill, WgmmaFence: _fence, Wgmma: _wgmma, WgmmaCommit: _commit,
    WgmmaWait: _wgmma_wait, FragColumns: _columns, FragStoreGlobal: _store,
}  # fmt: skip
"""The rule of each statement that a kernel of nvgpu may have."""
