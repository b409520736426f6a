"""Rules for partial results in a workspace, and its parameters.

A thread's registers of a fragment go in groups of four, 16 bytes, and the same group of all
threads of the warpgroup lies together, so that every access of a warp is 512 bytes in a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lowering.cuda.emitter import Emitter, Rule
from lowering.kernel.nodes import Frag, FragAddPartial, FragStorePartial, PartialRef, Stmt
from lowering.target.ptx import WARPGROUP

__all__ = ["RULES", "parameters"]

_WIDE = 4
"""Registers of one access."""


def parameters(e: Emitter) -> Iterator[str]:
    """The kernel's parameters for workspaces: the address of each."""
    for w in e.kernel.workspaces:
        yield f"float* {e.names.of('workspace', w.name)}"


def _store_partial(e: Emitter, s: FragStorePartial) -> None:
    _each(e, s.dst, s.value, "ptx::st_global_v4_f32")


def _add_partial(e: Emitter, s: FragAddPartial) -> None:
    _each(e, s.src, s.out, "ptx::add_global_v4_f32")


def _each(e: Emitter, slot: PartialRef, value: Frag, function: str) -> None:
    """Call ``function`` for all groups of registers of a value and their places in the slot."""
    registers = value.type.registers  # a multiple of four: columns are one of eight
    with e.out.block(""):
        at, thread = e.names.fresh("at"), f"threadIdx.x % {WARPGROUP}"
        base = e.names.of("workspace", slot.array)
        words = registers * WARPGROUP
        first = f"{base} + (long long)({e.arg(slot.index)}) * {words} + {thread} * {_WIDE}"
        e.out.line(f"float* const {at} = {first};")
        per_block = registers // value.type.blocks
        for block in range(value.type.blocks):
            with e.groups(per_block // _WIDE):
                names = [e.register(value, block, f"{_WIDE} * r + {i}") for i in range(_WIDE)]
                skipped = f" + {block * per_block * WARPGROUP}" if block else ""
                e.out.call(function, f"{at}{skipped} + r * {_WIDE * WARPGROUP}", *names)


RULES: Mapping[type[Stmt], Rule] = {
    FragStorePartial: _store_partial, FragAddPartial: _add_partial,
}  # fmt: skip
