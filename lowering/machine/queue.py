"""Words in shared memory on the machine."""

from __future__ import annotations

from collections.abc import Callable

from lowering.kernel.nodes import LdWord, StWord, WordRef
from lowering.machine.errors import FaultError
from lowering.machine.program import Program, Run
from lowering.machine.scalars import bind
from lowering.machine.scheduler import PAUSE, Steps
from lowering.machine.state import Cta, Warp

__all__ = ["ld_word", "st_word"]


def st_word(stmt: StWord, program: Program) -> Run:
    """``st.word``, here or at a peer, by one thread."""
    find, value = _find(stmt.word, program), program.scalar(stmt.value)
    peer = None if stmt.cta is None else program.scalar(stmt.cta)

    def run(warp: Warp) -> Steps:
        if not warp.elected:
            raise FaultError("a word is stored by 32 threads, not by one")
        cta = warp.cta
        if peer is not None:
            cta = cta.peer(peer(warp.env))
            if cta is not warp.cta:
                cta.signalled(f"a store to {stmt.word.array}")
        words, at = find(warp, cta)
        words[at] = value(warp.env)
        return PAUSE

    return run


def ld_word(stmt: LdWord, program: Program) -> Run:
    """``ld.word``."""
    find = _find(stmt.word, program)

    def run(warp: Warp) -> Steps:
        words, at = find(warp, warp.cta)
        found = words[at]
        if found is None:
            raise FaultError(f"{stmt.word.array}[{at}] is read, but nobody has written it")
        bind(warp.env, stmt.out, found)
        warp.record(stmt.OP, stmt.word.array, at)
        return PAUSE

    return run


def _find(ref: WordRef, program: Program) -> Callable[[Warp, Cta], tuple[list[int | None], int]]:
    index, name = program.scalar(ref.index), ref.array

    def find(warp: Warp, cta: Cta) -> tuple[list[int | None], int]:
        words, at = cta.words[name], index(warp.env)
        if not 0 <= at < len(words):
            raise FaultError(f"{name}[{at}] lies outside {name}[{len(words)}]")
        return words, at

    return find
