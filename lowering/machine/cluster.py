"""What CTAs of a cluster store into each other's shared memory, and who knows of it.

A store to a peer lands at any time. A release at cluster scope lands all stores that the releasing
thread knows of, its own and those that barriers told it of; an acquire at cluster scope makes the
waiting thread know of them. Whoever reads what another CTA has stored must know of it. The same
goes for what a CTA stores into its own memory and another one reads there.
"""

from __future__ import annotations

from lowering.kernel.nodes import LdShared
from lowering.kernel.visit import walk
from lowering.machine.errors import FaultError
from lowering.machine.fragment import Array
from lowering.machine.program import Program
from lowering.machine.scheduler import Effect
from lowering.machine.state import Cta, Sent, Warp

__all__ = [
    "NAME", "acquire", "heard", "lent", "note", "number", "publish_known", "release", "send",
]  # fmt: skip

NAME = "shared::cluster"
"""What these stores are called in ``Warp.knows``."""


def send(warp: Warp, cta: Cta, buffer: str, words: Array, data: Array) -> None:
    """Store words into the memory of a peer."""
    assert warp.stmt is not None
    what = f"a store to {buffer}"
    cta.signalled(what)
    sent = Sent(number(warp), cta, what, words, data)
    for earlier in [s for s in warp.cta.cluster.sent if s.cta is cta]:
        if earlier.number in warp.knows | warp.own and set(words.flat) & set(earlier.words.flat):
            earlier.land()
    warp.own.add(sent.number)
    warp.cta.cluster.sent.append(sent)
    warp.scheduler.add(Effect(sent.land, warp, warp.stmt))


def number(warp: Warp) -> tuple[str, int]:
    """A new number of a store by a warp; its rest, divided by the CTAs, is who stores."""
    cluster = warp.cta.cluster
    cluster.stores += 1
    return NAME, cluster.stores * len(cluster.ctas) + warp.cta.rank


def note(warp: Warp, words: Array) -> None:
    """A store into the CTA's own memory that peers may read."""
    found = number(warp)
    warp.own.add(found)
    warp.cta.memory.mark(words, found[1])


def lent(buffer: str, program: Program) -> bool:
    """Whether CTAs read this buffer in each other's memory."""
    return any(
        isinstance(s, LdShared) and s.cta is not None and s.src.buffer == buffer
        for s in walk(program.kernel.body)
    )


def release(warp: Warp, order: str) -> set[tuple[str, int]]:
    """Numbers of what the executing threads know of; at cluster scope it lands now."""
    if not warp.cta.cluster.stores:
        return set()
    known = warp.knows if warp.elected else warp.knows | warp.own
    if order == "release.cluster":
        for sent in [s for s in warp.cta.cluster.sent if s.number in known]:
            sent.land()
    return {store for store in known if store[0] == NAME}


def acquire(warp: Warp, stores: set[tuple[str, int]]) -> None:
    """The executing threads know of these; of one thread, the others hear at their next sync."""
    if warp.elected:
        warp.own |= stores
    else:
        warp.knows |= stores


def heard(warp: Warp, cta: Cta, words: Array, buffer: str) -> None:
    """Raise FaultError if words in the memory of ``cta`` come from another CTA than the warp's and
    the warp does not know of the store.
    """
    for found in cta.memory.stored(words):
        if found % len(warp.cta.cluster.ctas) == warp.cta.rank:
            continue
        known = warp.knows if not warp.elected else warp.knows | warp.own
        if (NAME, found) not in known:
            raise FaultError(
                f"{buffer} is read without an acquire at cluster scope behind what "
                f"CTA {_by(cta, found).ctaid} stored there"
            )


def publish_known(warp: Warp) -> None:
    """``fence.proxy.async``: what peers stored here and the warp knows of, the async proxy sees."""
    memory = warp.cta.memory
    if memory.stores is not None:
        known = [n for name, n in warp.knows if name == NAME]
        for found in known:
            memory.publish((memory.stores == found).nonzero()[0])


def _by(cta: Cta, store: int) -> Cta:
    return cta.cluster.ctas[store % len(cta.cluster.ctas)]
