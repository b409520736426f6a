"""Words in shared memory: tickets, entries of queues, addresses in tensor memory."""

from __future__ import annotations

from collections.abc import Mapping

from lowering.ground.expr import Expr
from lowering.kernel.nodes import LdWord, SmemRef, Stmt, StWord
from lowering.kernel.places import placed, tile_offset
from lowering.mlir.emitter import Emitter, Rule
from lowering.mlir.ssa import I32

__all__ = ["RULES", "word_address"]


def word_address(e: Emitter, ref: SmemRef) -> Expr:
    """Shared address of a word."""
    buffer = placed(e.kernel, ref.buffer)
    inner = e.box_column(ref)[1] * buffer.dtype.bytes
    return e.buffer_at(ref.buffer) + tile_offset(e.kernel, ref, 1) + inner


def _st_word(e: Emitter, s: StWord) -> None:
    at, value = e.expr(word_address(e, s.dst)), e.expr(s.value)
    if s.cta is None:
        e.asm("st.shared.u32 [$0], $1;", [at, value])
        return
    e.asm(
        "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, $0, $2; "
        "st.shared::cluster.u32 [remote], $1; }",
        [at, value, e.expr(s.cta)],
    )


def _ld_word(e: Emitter, s: LdWord) -> None:
    (word,) = e.asm("ld.shared.u32 $0, [$1];", [e.expr(word_address(e, s.src))], [I32])
    e.define(s.out, word.value)


RULES: Mapping[type[Stmt], Rule] = {StWord: _st_word, LdWord: _ld_word}
"""Rules for what threads store and load of them."""
