"""What CTAs of a cluster store into each other's shared memory, and who knows of it.

A store to a peer lands at any time. A release at cluster scope lands all stores that the releasing
thread knows of, its own and those that barriers told it of; an acquire at cluster scope makes the
waiting thread know of them. Whoever reads what another CTA has stored must know of it. The same
goes for what a CTA stores into its own memory and another one reads there.
"""

from __future__ import annotations

import numpy as np

from lowering.kernel.nodes import LdShared
from lowering.kernel.visit import walk
from lowering.machine.errors import FaultError
from lowering.machine.fragment import Array
from lowering.machine.program import Program
from lowering.machine.scheduler import Effect
from lowering.machine.state import Cta, Sent, Warp

__all__ = [
    "acquire", "heard", "lent", "note", "publish_known", "release", "send",
]  # fmt: skip


def send(warp: Warp, cta: Cta, buffer: str, words: Array, data: Array) -> None:
    """Store words into the memory of a peer."""
    assert warp.stmt is not None
    what = f"a store to {buffer}"
    cta.signalled(what)
    sent = Sent(warp.event(), cta, what, words, data)
    for earlier in [s for s in warp.cta.cluster.sent if s.cta is cta]:
        before = warp.known.before(warp.elected)
        if before >> earlier.number & 1 and set(words.flat) & set(earlier.words.flat):
            earlier.land()
    warp.known.did(1 << sent.number, warp.elected)
    warp.cta.cluster.sent.append(sent)
    warp.scheduler.add(Effect(sent.land, warp, warp.stmt))


def note(warp: Warp, words: Array) -> None:
    """A store into the CTA's own memory that peers may read."""
    found = warp.event()
    warp.known.did(1 << found, warp.elected)
    warp.cta.memory.mark(words, found)


def lent(buffer: str, program: Program) -> bool:
    """Whether CTAs read this buffer in each other's memory."""
    return any(
        isinstance(s, LdShared) and s.cta is not None and s.src.buffer == buffer
        for s in walk(program.kernel.body)
    )


def release(warp: Warp, order: str) -> int:
    """The events that an arrival tells of: what the executing threads know of, which lands now if
    it is stored in a peer and the scope is the cluster; with a relaxed order copies alone.
    """
    known = warp.known.released(warp.elected)
    if order == "release.cluster":
        for sent in [s for s in warp.cta.cluster.sent if known >> s.number & 1]:
            sent.land()
    return known if order.startswith("release") else known & warp.scheduler.events.relaxed


def acquire(warp: Warp, told: int, order: str) -> None:
    """The executing threads come behind these events, with a relaxed order behind copies alone."""
    relaxed = warp.scheduler.events.relaxed
    warp.known.learn(told if order.startswith("acquire") else told & relaxed, warp.elected)


def heard(warp: Warp, cta: Cta, words: Array, buffer: str) -> None:
    """Raise FaultError if words in the memory of ``cta`` come from another CTA than the warp's and
    the warp does not know of the store.
    """
    for found in cta.memory.stored(words):
        rank = warp.scheduler.events[found].rank
        if rank != warp.rank and not warp.known.before(warp.elected) >> found & 1:
            raise FaultError(
                f"{buffer} is read without an acquire at cluster scope behind what "
                f"CTA {cta.cluster.ctas[rank].ctaid} stored there"
            )


def publish_known(warp: Warp) -> None:
    """``fence.proxy.async``: what peers stored here and the warp knows of, the async proxy sees."""
    memory = warp.cta.memory
    if memory.stores is not None:
        for found in np.unique(memory.stores).tolist():
            if found and warp.known.everyone >> found & 1:
                memory.publish((memory.stores == found).nonzero()[0])
