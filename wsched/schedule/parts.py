"""The cut: the parts of a fusion, of any schedule, also of one that is illegal or unfinished.

A fusion is cut behind every tensor that is loaded into shared memory by TMA or circular-buffered.
What is still connected then is a *part*, with loops and warps of its own. Tensors that one
expression reads fill a ring together, so what loads them is one part. What lies in global memory
connects nothing: all warps can read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wsched.fusion import BroadcastOp, Fusion, inputs_of, type_text

__all__ = ["Part", "find_parts", "titles"]


@dataclass(frozen=True, slots=True)
class Part:
    """Tensors that the same warps make.

    Args:
        name: ``load`` of what fills a ring from global memory, ``compute`` of the rest.
        tensors: their names, in topological order; what is read from global memory by several
            parts is in the first of them.
        fills: those that fill a ring, which other parts read.
        ring: its name, ``ring`` of what an mma reads, ``aux`` of others; empty without one.
    """

    name: str
    tensors: tuple[str, ...]
    fills: tuple[str, ...] = ()
    ring: str = ""


def find_parts(fusion: Fusion) -> tuple[Part, ...]:
    """The parts: loads first, those of what an mma reads in front, then what computes.

    Args:
        fusion: any fusion; nothing is proved of its schedule.
    """
    loads = {t.name for t in fusion.loads}
    cut = loads | {t.name for t in fusion.tensors if t.circular_buffer is not None}
    found: list[Part] = []
    for names in _connected(fusion, _neighbours(fusion, cut, loads)):
        fills = tuple(n for n in names if n in cut)
        found.append(Part("load" if loads.issuperset(names) else "compute", names, fills))
    found.sort(key=lambda p: (p.name != "load", not _is_summed(fusion, p.fills)))
    return tuple(_with_views(fusion, tuple(_named(fusion, found))))


def titles(fusion: Fusion, parts: tuple[Part, ...], who: bool = False) -> list[str]:
    """A line for each part: ``load T6, T7 (ring, 4 stages)``, ``compute``.

    Args:
        fusion: the fusion.
        parts: all its parts.
        who: say who loads, too.
    """
    alone = sum(p.name == "compute" for p in parts) == 1
    return [_title(fusion, p, alone, who) for p in parts]


def _title(fusion: Fusion, part: Part, alone: bool, who: bool) -> str:
    buffers = dict.fromkeys(fusion.tensor(n).circular_buffer for n in part.fills)
    known = [b for b in buffers if b is not None]
    words = [part.ring] if part.ring else []
    if known:
        words.append(" and ".join(str(b.stages) for b in known) + " stages")
    if who:
        words += dict.fromkeys(type_text(b.type) for b in known)
    results = {b.tensor for b in fusion.outputs}
    makes = part.fills if part.fills or alone else [n for n in part.tensors if n in results]
    ring = f" ({', '.join(words)})" if words else ""
    return " ".join([part.name, ", ".join(makes)]).rstrip() + ring


def _views(fusion: Fusion) -> set[str]:
    """What lies in global memory before the kernel starts: inputs and broadcasts of them."""
    found = {n for n in fusion.names if fusion.definition(n) is None}
    for e in fusion.exprs:
        if isinstance(e, BroadcastOp) and e.input in found:
            found.add(e.output)
    return found


def _neighbours(fusion: Fusion, cut: set[str], loads: set[str]) -> Mapping[str, list[str]]:
    """The connections that are left behind the cuts, and those of loads that fill a ring."""
    views = _views(fusion)
    found: dict[str, list[str]] = {n: [] for n in fusion.in_order if n not in views}

    def connect(a: str, b: str) -> None:
        found[a].append(b)
        found[b].append(a)

    for e in fusion.exprs:
        if e.output not in views:
            read = [n for n in inputs_of(e) if n not in views]
            together = [n for n in read if n in loads]
            for n in read:
                if n not in cut:
                    connect(n, e.output)
            for n in together[1:]:
                connect(together[0], n)
    return found


def _connected(fusion: Fusion, near: Mapping[str, list[str]]) -> Iterator[tuple[str, ...]]:
    """The connected tensors, in topological order, as their first ones come."""
    left = dict.fromkeys(near)
    while left:
        pending, reached = [next(iter(left))], set[str]()
        while pending:
            name = pending.pop()
            if name in left:
                del left[name]
                reached.add(name)
                pending += near[name]
        yield tuple(n for n in fusion.in_order if n in reached)


def _is_summed(fusion: Fusion, names: tuple[str, ...]) -> bool:
    """Whether a sum reads them."""
    return any(t.sums for n in names for t in fusion.consumers(n))


def _named(fusion: Fusion, parts: list[Part]) -> Iterator[Part]:
    """The same with names of their rings."""
    count = {"ring": 0, "aux": 0}
    for p in parts:
        if not p.fills:
            yield p
            continue
        word = "ring" if _is_summed(fusion, p.fills) else "aux"
        yield Part(p.name, p.tensors, p.fills, f"{word}{count[word] or ''}")
        count[word] += 1


def _with_views(fusion: Fusion, parts: tuple[Part, ...]) -> Iterator[Part]:
    """The same with what they read from global memory."""
    taken = {n for p in parts for n in p.tensors}
    for p in parts:
        made = fusion.made_from(p.tensors)
        mine = tuple(n for n in made if n in p.tensors or n not in taken)
        taken |= set(mine)
        yield Part(p.name, mine, p.fills, p.ring)
