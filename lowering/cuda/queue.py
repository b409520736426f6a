"""Rules for words in shared memory."""

from __future__ import annotations

from collections.abc import Mapping

from lowering.cuda.emitter import Emitter, Rule
from lowering.cuda.expressions import C_TYPES
from lowering.kernel.nodes import LdWord, SmemRef, Stmt, StWord

__all__ = ["RULES", "word_address"]


def _st_word(e: Emitter, s: StWord) -> None:
    if s.cta is None:
        e.out.line(f"ptx::st_shared_u32({word_address(e, s.dst)}, {e.arg(s.value)});")
    else:
        call = f"{word_address(e, s.dst)}, {e.arg(s.value)}, {e.arg(s.cta)}"
        e.out.line(f"ptx::st_shared_u32_remote({call});")


def _ld_word(e: Emitter, s: LdWord) -> None:
    name = e.names.define("scalar", s.out.name)
    e.out.line(
        f"const {C_TYPES[s.out.type]} {name} = ptx::ld_shared_u32({word_address(e, s.src)});"
    )


def word_address(e: Emitter, ref: SmemRef) -> str:
    """Shared address of a word."""
    column = e.box_column(ref)[1] * e.buffer(ref.buffer).dtype.bytes
    return e.sum(e.names.of("buffer", ref.buffer), e.tile_offset(ref, 1) + column)


RULES: Mapping[type[Stmt], Rule] = {StWord: _st_word, LdWord: _ld_word}
