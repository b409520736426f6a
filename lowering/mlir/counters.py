"""Rules for counters and partial results in global memory, through which CTAs speak."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.expr import Const, ScalarType, Special
from lowering.kernel.atomic import ATOM_ORDERS, ATOMS
from lowering.kernel.nodes import (
    Atom,
    CounterRef,
    CounterWait,
    Frag,
    FragAddPartial,
    FragStorePartial,
    PartialRef,
    Stmt,
)
from lowering.mlir.emitter import Emitter, Rule, Word, register_type
from lowering.mlir.ssa import F32, I32, Value
from lowering.target.ptx import WARPGROUP

__all__ = ["RULES"]

_TYPES = {"exch": "b32", "max": "s32", "min": "s32"}
"""PTX's type of an operation, where it is not u32."""

_WIDE = 4
"""Registers of one access of a partial result: 16 bytes."""


def _counter(e: Emitter, ref: CounterRef) -> Value:
    return e.behind(e.scalars[f"%counter.{ref.array}"], e.expr(ref.index), I32)


def _atom(e: Emitter, s: Atom) -> None:
    if s.op not in ATOMS or s.order not in ATOM_ORDERS:
        raise InternalError("emit_mlir", f"no atom {s.op} with order {s.order}")
    text = f"atom.{s.order}.global.{s.op}.{_TYPES.get(s.op, 'u32')} $0, [$1], $2;"
    (old,) = e.asm(text, [_counter(e, s.counter), e.expr(s.value)], [I32])
    e.define(s.out, old.value)


def _counter_wait(e: Emitter, s: CounterWait) -> None:
    if e.kernel.watch is not None:
        raise UnsupportedError(f"{s.OP} with a bound in MLIR", "waits without a watchdog")
    e.asm(
        "{ .reg .pred below; .reg .b32 now; again: ld.acquire.gpu.global.s32 now, [$0]; "
        "setp.lt.s32 below, now, $1; @below bra again; }",
        [_counter(e, s.counter), e.expr(s.value)],
    )


def _groups(e: Emitter, slot: PartialRef, value: Frag) -> Iterator[tuple[int, int, Value]]:
    """Four registers at a time: block, the first of them, and their address.

    The same four of all threads of the warpgroup lie together, so that every access of a warp is
    512 bytes in a row.
    """
    base, kind = e.scalars[f"%workspace.{slot.array}"], value.type
    element = register_type(kind.dtype)
    thread = Special("warpgroup.warp") * 32 + Special("lane")
    index = slot.index + Const(0, ScalarType.I64)
    first = index * (kind.registers * WARPGROUP) + thread * _WIDE
    for block in range(kind.blocks):
        for start in range(0, kind.block_registers, _WIDE):
            offset = e.expr(first + (block * kind.block_registers + start) * WARPGROUP)
            yield block, start, e.behind(base, offset, element)


def _suffix(value: Frag) -> str:
    return "v4.f32" if value.type.dtype is DType.F32 else "v4.b32"


def _store_partial(e: Emitter, s: FragStorePartial) -> None:
    for block, start, at in _groups(e, s.dst, s.value):
        words = e.words(e.registers(s.value)[block][start : start + _WIDE])
        e.asm(f"st.global.{_suffix(s.value)} [$0], {{$1, $2, $3, $4}};", [at, *words])


def _add_partial(e: Emitter, s: FragAddPartial) -> None:
    kind = register_type(s.out.type.dtype)
    add = "arith.addf" if kind == F32 else "arith.addi"
    found: list[list[Word]] = [[] for _ in range(s.out.type.blocks)]
    for block, start, at in _groups(e, s.src, s.out):
        text = f"ld.global.{_suffix(s.out)} {{$0, $1, $2, $3}}, [$4];"
        parts = e.words(e.asm(text, [at], [kind] * _WIDE, memory=False))
        sums = e.words(e.registers(s.acc)[block][start : start + _WIDE])
        for one, other in zip(sums, parts, strict=True):
            found[block].append(Word(e.out.op(f"{add} {one}, {other} : {kind}", kind)))
    e.keep(s.out, tuple(map(tuple, found)))


RULES: Mapping[type[Stmt], Rule] = {
    Atom: _atom, CounterWait: _counter_wait,
    FragStorePartial: _store_partial, FragAddPartial: _add_partial,
}  # fmt: skip
