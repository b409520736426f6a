"""Words in shared memory on the machine."""

from __future__ import annotations

import numpy as np

from lowering.kernel.nodes import LdWord, StWord, TmaLoad
from lowering.kernel.visit import walk
from lowering.machine.cluster import heard
from lowering.machine.errors import FaultError
from lowering.machine.program import Place, Program, Run
from lowering.machine.scalars import bind
from lowering.machine.state import Warp

__all__ = ["ld_word", "st_word"]


def st_word(stmt: StWord, program: Program) -> Run:
    """``st.word``, here or at a peer, by one thread."""
    place, value = program.place(stmt.dst), program.scalar(stmt.value)
    peer = None if stmt.cta is None else program.scalar(stmt.cta)

    def run(warp: Warp) -> None:
        if not warp.elected:
            raise FaultError("a word is stored by 32 threads, not by one")
        cta = warp.cta
        if peer is not None:
            cta = cta.peer(peer(warp.env))
            if cta is not warp.cta:
                cta.signalled(f"a store to {stmt.dst.buffer}")
        warp.touches(cta, np.array([_address(place, warp) // 4]), 4, write=True)
        cta.memory.write_word(_address(place, warp), value(warp.env))

    return run


def ld_word(stmt: LdWord, program: Program) -> Run:
    """``ld.word``."""
    place, name = program.place(stmt.src), stmt.src.buffer
    loads = (s for s in walk(program.kernel.body) if isinstance(s, TmaLoad))
    overtaken = name in {s.dst.buffer for s in loads}

    def run(warp: Warp) -> None:
        address = _address(place, warp)
        heard(warp, warp.cta, np.array([address // 8]), name)
        warp.touches(warp.cta, np.array([address // 4]), 4)
        found = warp.cta.memory.read_word(address)
        stage, *coords = place.element(warp.env)
        if found is None:
            at = ", ".join(map(str, (stage, *coords)))
            raise FaultError(f"{name}[{at}] is read, but nobody has written it")
        if overtaken:
            warp.reads(np.array([address // 8]))
        bind(warp.env, stmt.out, found)
        warp.record(stmt.OP, name, stage, value=found)

    return run


def _address(place: Place, warp: Warp) -> int:
    return place.base + place.buffer.byte(*place.element(warp.env))
