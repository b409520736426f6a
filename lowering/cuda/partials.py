"""Rules for partial results in a workspace, and its parameters.

A thread's registers of a fragment go in groups of four, 16 bytes, and the same group of all
threads of the warpgroup lies together, so that every access of a warp is 512 bytes in a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lowering.cuda.emitter import Emitter, Rule
from lowering.cuda.parameters import Parameter
from lowering.ground.dtypes import DType
from lowering.kernel.nodes import Frag, FragAddPartial, FragStorePartial, PartialRef, Stmt
from lowering.target.ptx import WARPGROUP

__all__ = ["RULES", "parameters"]

_S32 = """\
__device__ __forceinline__ void st_global_v4_s32(int* at, int a, int b, int c, int d) {
  asm volatile("st.global.v4.s32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

__device__ __forceinline__ void add_global_v4_s32(const int* at, int& a, int& b, int& c, int& d) {
  int e, f, g, h;
  asm volatile("ld.global.v4.s32 {%0, %1, %2, %3}, [%4];"
               : "=r"(e), "=r"(f), "=r"(g), "=r"(h)
               : "l"(at));
  a += e;
  b += f;
  c += g;
  d += h;
}"""
"""The same for integers as ``device.cuh`` has for fp32."""

_WIDE = 4
"""Registers of one access."""


def parameters(e: Emitter) -> Iterator[Parameter]:
    """The kernel's parameters for workspaces: the address of each."""
    for w in e.kernel.workspaces:
        yield Parameter(f"{w.dtype.cuda}*", e.names.of("workspace", w.name))


def _store_partial(e: Emitter, s: FragStorePartial) -> None:
    _each(e, s.dst, s.value, "st_global_v4")


def _add_partial(e: Emitter, s: FragAddPartial) -> None:
    _each(e, s.src, s.out, "add_global_v4")


def _each(e: Emitter, slot: PartialRef, value: Frag, function: str) -> None:
    """Call ``function`` for all groups of registers of a value and their places in the slot."""
    registers = value.type.registers  # a multiple of four: columns are one of eight
    with e.out.block(""):
        at, thread = e.names.fresh("at"), f"threadIdx.x % {WARPGROUP}"
        base = e.names.of("workspace", slot.array)
        words = registers * WARPGROUP
        first = f"{base} + (long long)({e.arg(slot.index)}) * {words} + {thread} * {_WIDE}"
        dtype = value.type.dtype
        function = f"ptx::{function}_{dtype.value}"
        if dtype is DType.S32:
            function = function.removeprefix("ptx::")
            e.functions["v4_s32"] = _S32
        e.out.line(f"{dtype.cuda}* const {at} = {first};")
        per_block = value.type.block_registers
        for block in range(value.type.blocks):
            with e.groups(per_block // _WIDE):
                names = [e.register(value, block, f"{_WIDE} * r + {i}") for i in range(_WIDE)]
                skipped = f" + {block * per_block * WARPGROUP}" if block else ""
                e.out.call(function, f"{at}{skipped} + r * {_WIDE * WARPGROUP}", *names)


RULES: Mapping[type[Stmt], Rule] = {
    FragStorePartial: _store_partial, FragAddPartial: _add_partial,
}  # fmt: skip
