"""Kernel IR to MLIR with ``nvgpu``, where that dialect has the words: a text to read.

mbarriers, TMA loads and products are operations of nvgpu; scalars, loops and roles are what
:mod:`lowering.mlir.emit` writes. nvgpu can say less than nvvm, and what it cannot is refused by
name: its product takes a K-major A and an N-major B in 128-byte spans, always adds to zeros, and
its sums are stored as whole tiles of fp32.
"""

from __future__ import annotations

from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Const, Expr, ScalarType
from lowering.ground.types import Swizzle
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import For, Frag, FragFill, TmaStore, Wgmma
from lowering.kernel.places import placed
from lowering.kernel.tensors import GlobalTensor, TensorMap
from lowering.kernel.visit import walk
from lowering.mlir.emit import function, parameters
from lowering.mlir.nvgpu_rules import SPACE, NvgpuEmitter, tile_type
from lowering.mlir.ssa import I64, Value

__all__ = ["emit_nvgpu"]


def emit_nvgpu(kernel: Kernel) -> str:
    """The module of a final kernel: an ``llvm.func`` in a ``gpu.module``, as nvgpu's tools take it.

    Raises:
        UnsupportedError: what nvgpu cannot say, by its name.
        InternalError: the kernel is not final.
    """
    _require(kernel)
    e = NvgpuEmitter(kernel)
    given = list(parameters(e))
    _frame(e)
    e.body(kernel.body)
    lines = [f"{alias} = {text}" for alias, text in sorted(e.out.aliases.items())]
    lines += ["module attributes {gpu.container_module} {", "gpu.module @kernels {"]
    return "\n".join([*lines, *function(e, given), "}", "}", ""])


def _require(kernel: Kernel) -> None:
    """Refuse what no operation of nvgpu has."""
    products = [s for s in walk(kernel.body) if isinstance(s, Wgmma)]
    if kernel.target.tensor_memory is not None or not products:
        raise UnsupportedError(f"a kernel of {kernel.target.arch} in nvgpu", "wgmma of sm_90a")
    if kernel.cluster > 1 or kernel.splits > 1:
        raise UnsupportedError("clusters and splits of K in nvgpu", "CTAs that are alone")
    zeros = {s.out.name for s in walk(kernel.body) if isinstance(s, FragFill)}
    for s in products:
        if isinstance(s.a, Frag):
            raise UnsupportedError("A in registers in nvgpu", "A in shared memory")
        if s.trans_a:
            raise UnsupportedError("an MN-major A in nvgpu", "A of which K is contiguous")
        if not s.trans_b:
            raise UnsupportedError(
                "a K-major B in nvgpu",
                "B of which N is contiguous",
                "nvgpu.warpgroup.mma goes 2048 bytes ahead for 16 of K, which is right of an "
                "N-major B only; it does not say so",
            )
        if any(placed(kernel, r.buffer).swizzle is not Swizzle.B128 for r in (s.a, s.b)):
            raise UnsupportedError("other swizzles than 128 bytes in nvgpu", "swizzle=128")
    if any(isinstance(s, TmaStore) for s in walk(kernel.body)):
        raise UnsupportedError(
            "results by TMA in nvgpu", "smem_epilogue=False: fp32 results straight from registers"
        )
    for loop in walk(kernel.body):
        for carry in loop.carries if isinstance(loop, For) else ():
            if isinstance(carry.init, Frag) and carry.init.name not in zeros:
                why = "sums that begin where another tile's ended in nvgpu"
                raise UnsupportedError(why, "a tile for each CTA: nvgpu always adds")


def _frame(e: NvgpuEmitter) -> None:
    """Shared memory, tensor maps, mbarriers and results as nvgpu wants them."""
    out, kind = e.front, f"memref<?xi8, {SPACE}>"
    e.scalars["%dynamic"] = out.op(f"gpu.dynamic_shared_memory : {kind}", kind, "dynamic")
    e.place(out.constant(0), out)
    for m in e.kernel.tensor_maps:
        e.scalars[f"%descriptor.{m.name}"] = _descriptor(e, m)
    for array in e.kernel.mbarriers:
        count = f"num_barriers = {array.stages}"
        group = f"!{array.name}"
        e.out.aliases[group] = f"!nvgpu.mbarrier.group<memorySpace = {SPACE}, {count}>"
        text = f"nvgpu.mbarrier.create -> {group}"
        e.scalars[f"%group.{array.name}"] = out.op(text, group, array.name)
    for array_ in e.kernel.globals:
        for g in array_.entries:
            e.scalars[f"%matrix.{g.name}"] = _matrix(e, g)


def _descriptor(e: NvgpuEmitter, m: TensorMap) -> Value:
    if len(m.box) != 2 or m.count is not None:
        raise UnsupportedError(f"the tensor map {m.name} in nvgpu", "a map of a matrix")
    tensor = tile_type(m.dtype, *m.box)
    promotion = f"l2promo_{m.promotion}b" if m.promotion else "none"
    kind = (
        f"!nvgpu.tensormap.descriptor<tensor = {tensor}, swizzle = swizzle_{m.swizzle.value}b, "
        f"l2promo = {promotion}, oob = zero, interleave = none>"
    )
    given, alias = e.scalars[f"%map.{m.name}"], f"!{m.name}_map"
    e.out.aliases[alias] = kind
    text = f"builtin.unrealized_conversion_cast {given} : {given.type} to {alias}"
    return e.front.op(text, alias, f"{m.name}_map")


def _matrix(e: NvgpuEmitter, g: GlobalTensor) -> Value:
    """A matrix in global memory as a memref, from what one is in LLVM."""
    out, base = e.front, e.scalars[f"%global.{g.name}"]
    if len(g.sizes) != 2 or g.dtype is not DType.F32:
        raise UnsupportedError(f"{g.name} of {g.dtype.value} in nvgpu", "results of fp32, no more")
    kind = f"!llvm.struct<({base.type}, {base.type}, i64, array<2 x i64>, array<2 x i64>)>"

    def wide(size: Expr) -> Value:
        return e.expr(size + Const(0, ScalarType.I64))

    (stride,) = g.strides
    members = (
        ("0", base), ("1", base), ("2", out.constant(0, I64)), ("3, 0", wide(g.rows)),
        ("3, 1", wide(g.cols)), ("4, 0", e.scalars[f"%{stride}"]), ("4, 1", out.constant(1, I64)),
    )  # fmt: skip
    found = e.out.op(f"llvm.mlir.undef : {kind}", kind)
    for at, value in members:
        found = e.out.op(f"llvm.insertvalue {value}, {found}[{at}] : {kind}", kind)
    to = "memref<?x?xf32, strided<[?, 1], offset: ?>, 1>"
    text = f"builtin.unrealized_conversion_cast {found} : {kind} to {to}"
    return e.out.op(text, to, g.name)
