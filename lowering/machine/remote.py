"""Asynchronous copies into the shared memory of a peer on the machine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lowering.kernel.nodes import BulkCopy, StAsync
from lowering.machine.barriers import MBarrier
from lowering.machine.errors import FaultError
from lowering.machine.fragment import Array
from lowering.machine.program import Program, Run
from lowering.machine.scheduler import Effect
from lowering.machine.state import Cta, Warp
from lowering.machine.transfer import fragment_data, fragment_words

__all__ = ["bulk_copy", "st_async"]


def st_async(stmt: StAsync, program: Program) -> Run:
    """``st.async``: lands at some time, and then completes its bytes."""
    place, find, rank = program.place(stmt.dst), program.mbarrier(stmt.bar), program.rank(stmt.cta)
    value, buffer = stmt.value, place.buffer
    assert rank is not None

    def run(warp: Warp) -> None:
        words = fragment_words(buffer, value.type, warp.index % 4, place.element(warp.env))
        data = fragment_data(warp.read(value), words)
        cta = rank(warp)
        bar = _target(warp, cta, find(cta, warp.env)[0], stmt.OP)
        bar.remote |= cta is not warp.cta
        store, before = warp.event(), warp.known.before(warp.elected)
        what = f"st.async that completes on {bar.name}"

        def write() -> int:
            cta.touch(warp, stmt, before, words, 8, write=True)
            cta.memory.write_words(words, data)
            cta.memory.mark(words, store)
            return 1 << store

        land = _landing(warp, before, cta, bar, f"an {what}", data.nbytes, write)
        warp.scheduler.add(Effect(land, warp, stmt))
        warp.cta.cluster.counts[stmt.OP] += 1

    return run


def bulk_copy(stmt: BulkCopy, program: Program) -> Run:
    """``bulk.copy``: reads at one moment, lands at a later one and then completes its bytes."""
    dst, src = program.place(stmt.dst), program.place(stmt.src)
    find, rank = program.mbarrier(stmt.bar), program.rank(stmt.cta)
    count = src.buffer.stage_bytes // 16
    assert rank is not None

    def chunks(address: int) -> Array:
        return address // 16 + np.arange(count)

    def run(warp: Warp) -> None:
        source, target = chunks(src.address(warp.env)), chunks(dst.address(warp.env))
        cta, own = rank(warp), warp.cta
        if not warp.elected:
            raise FaultError("a stage is copied by 32 threads, not by one")
        bar = _target(warp, cta, find(cta, warp.env)[0], stmt.OP)
        own.sending += 1
        before = warp.known.before(warp.elected)

        def read() -> None:
            data = own.memory.read_chunks(source)
            own.sending -= 1
            events = own.touch(warp, stmt, before, source, 16, copy=True)

            def write() -> int:
                cta.overwrite(target)
                cta.memory.land(target, data)
                return events | cta.touch(warp, stmt, before, target, 16, write=True, copy=True)

            what = f"a bulk.copy that completes on {bar.name}"
            land = _landing(warp, before, cta, bar, what, data.nbytes, write)
            warp.scheduler.add(Effect(land, warp, stmt))

        warp.scheduler.add(Effect(read, warp, stmt))
        own.cluster.counts[stmt.OP] += 1

    return run


def _target(warp: Warp, cta: Cta, bar: MBarrier, op: str) -> MBarrier:
    """The barrier of a copy that is issued now; raises FaultError if the CTA has left."""
    cta.signalled(f"{op} to {bar.name}")
    bar.check(f"given to {op}", remote=True)
    bar.use(warp, f"given to {op}")
    cta.coming += 1
    return bar


def _landing(
    warp: Warp, known: int, cta: Cta, bar: MBarrier, what: str, size: int, write: Callable[[], int]
) -> Callable[[], None]:
    def land() -> None:
        cta.signalled(what)
        cta.coming -= 1
        bar.complete(size, known, warp.scheduler, write())

    return land
