"""Rules for single elements of plain tensors, and for tensor maps in device memory."""

from __future__ import annotations

from collections.abc import Mapping

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.ground.expr import ZERO, ScalarType, Var
from lowering.kernel.nodes import (
    FenceTensormapAcquire,
    FenceTensormapRelease,
    GmemRef,
    LdGlobalScalar,
    StGlobalScalar,
    Stmt,
    TensormapReplaceAddress,
    TensormapReplaceDim,
)
from lowering.kernel.scalar_memory import LOAD_ORDERS
from lowering.mlir.emitter import Emitter, Rule
from lowering.mlir.movement import tensor_map
from lowering.mlir.ssa import I1, I32, I64, Value

__all__ = ["RULES"]

_LOADS = {DType.S32: ("s32", I32), DType.S64: ("s64", I64), DType.BOOL: ("u8", I32)}
"""PTX's type of a load, and type of its result."""

_IN_MEMORY = {8: "i8", 16: "i16", 32: "i32", 64: "i64"}


def _address(e: Emitter, ref: GmemRef) -> Value:
    """Address of an element of a plain tensor; strides are 64-bit, so no product overflows."""
    g = e.kernel.global_tensor(ref.map)
    base, offset = e.scalars[f"%global.{g.name}"], ref.col
    for at, stride in zip(ref.coords, g.strides, strict=False):
        if at != ZERO:
            offset = at * Var(f"%{stride}", ScalarType.I64) + offset
    found = e.expr(offset)
    return e.behind(base, found, _IN_MEMORY[g.dtype.bits])


def _load(e: Emitter, s: LdGlobalScalar) -> None:
    dtype = e.kernel.global_tensor(s.src.map).dtype
    if dtype not in _LOADS or s.order not in LOAD_ORDERS:
        raise InternalError("emit_mlir", f"no {s.OP} of {dtype.value} with order {s.order}")
    kind, result = _LOADS[dtype]
    prefix = "ld.global" if s.order == "weak" else f"ld.{s.order}.global"
    # What is not weak may have been written in front of a release: nothing is read ahead of it.
    text, ordered = f"{prefix}.{kind} $0, [$1];", s.order != "weak"
    value = e.word(e.asm(text, [_address(e, s.src)], [result], memory=ordered)[0])
    if s.out.type is ScalarType.PRED:
        value = e.out.op(f"arith.cmpi ne, {value}, {e.out.constant(0)} : i32", I1)
    e.define(s.out, value)


def _store(e: Emitter, s: StGlobalScalar) -> None:
    e.asm("st.global.s32 [$0], $1;", [_address(e, s.dst), e.expr(s.value)])


def _acquire(e: Emitter, s: FenceTensormapAcquire) -> None:
    at = tensor_map(e, s.map)
    e.asm("fence.proxy.tensormap::generic.acquire.gpu [$0], 128;", [at])


def _release(e: Emitter, s: FenceTensormapRelease) -> None:
    e.asm("fence.proxy.tensormap::generic.release.gpu;")


def _replace_address(e: Emitter, s: TensormapReplaceAddress) -> None:
    text = "tensormap.replace.tile.global_address.global.b1024.b64 [$0], $1;"
    e.asm(text, [tensor_map(e, s.map), _address(e, s.src)])


def _replace_dim(e: Emitter, s: TensormapReplaceDim) -> None:
    """The number of the dimension, innermost first as PTX has it, is part of the instruction."""
    ordinal = e.kernel.tensor_map(s.map.map).rank - 1 - s.dim
    text = f"tensormap.replace.tile.global_dim.global.b1024.b32 [$0], {ordinal}, $1;"
    e.asm(text, [tensor_map(e, s.map), e.expr(s.size)])


RULES: Mapping[type[Stmt], Rule] = {
    LdGlobalScalar: _load, StGlobalScalar: _store, FenceTensormapAcquire: _acquire,
    FenceTensormapRelease: _release, TensormapReplaceAddress: _replace_address,
    TensormapReplaceDim: _replace_dim,
}  # fmt: skip
