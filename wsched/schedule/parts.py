"""The cut: the parts of a fusion, of any schedule, also of one that is illegal or unfinished.

A fusion is cut behind every tensor that is loaded into shared memory or circular-buffered. What is
still connected then is a *part*, with loops and warps of its own. Tensors that one expression reads
fill a ring together, if one part makes them; what loads them is one part. What lies in global
memory connects nothing: all warps can read it. Loads and sums in tensor memory that are
*in place* (inlined, in no circular buffer) are not cut off: the part that reads them fills them
itself, in a ring of one stage of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lowering.ground.frozen import replaced
from wsched.fusion import BroadcastOp, Fusion, MemoryType, MmaOp, inputs_of, type_text

__all__ = ["Filled", "Part", "find_parts", "part_of", "titles"]


@dataclass(frozen=True, slots=True)
class Filled:
    """Tensors of a part that fill the stages of a ring together, which other parts read.

    Args:
        ring: its name, ``ring`` of what an mma reads, ``acc`` of what it sums up in tensor memory,
            ``aux`` of others.
        tensors: their names, in topological order.
    """

    ring: str
    tensors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """Tensors that the same warps make.

    Args:
        name: a word for the reader. ``load`` is what only fills a ring from global memory. Of
            several others ``compute`` is what sums or stands alone, ``transform`` what a sum needs,
            ``epilogue`` what needs others.
        tensors: their names, in topological order; what is read from global memory by several
            parts is in the first of them.
        rings: those that it fills.
        loads: whether nothing is computed in it.
        issued: whether one thread does all of it: it only sums up in tensor memory.
    """

    name: str
    tensors: tuple[str, ...]
    rings: tuple[Filled, ...] = ()
    loads: bool = False
    issued: bool = False

    @property
    def fills(self) -> tuple[str, ...]:
        """All tensors that fill rings."""
        return tuple(t for ring in self.rings for t in ring.tensors)


def find_parts(fusion: Fusion) -> tuple[Part, ...]:
    """The parts: loads first, those of what an mma reads in front, then what computes.

    What computes comes behind that whose rings it reads, where there is such an order.

    Args:
        fusion: any fusion; nothing is proved of its schedule.
    """
    in_place = {*fusion.filled_in_place}
    loads = {t.name for t in fusion.loads} - in_place
    cut = loads | {t.name for t in fusion.tensors if t.circular_buffer is not None}
    loading: list[Part] = []
    computing: list[Part] = []
    for names in _connected(fusion, _neighbours(fusion, cut, loads)):
        only_loads = loads.issuperset(names)
        rings = _together(fusion, [n for n in names if n in cut | in_place])
        issued = all(fusion.tensor(n).memory is MemoryType.Tensor for n in names)
        part = Part("load" if only_loads else "compute", names, rings, only_loads, issued)
        (loading if only_loads else computing).append(part)
    loading.sort(key=lambda p: not _is_summed(fusion, p.fills))
    found = [*loading, *_titled(fusion, _in_order(fusion, computing))]
    return tuple(_with_views(fusion, tuple(_named(fusion, found))))


def part_of(parts: Sequence[Part], name: str) -> int:
    """The place of the part that a tensor is in."""
    return next(at for at, part in enumerate(parts) if name in part.tensors)


def titles(fusion: Fusion, parts: tuple[Part, ...], who: bool = False) -> list[str]:
    """A line for each part: ``load T6, T7 (ring, 4 stages)``, ``compute``.

    Args:
        fusion: the fusion.
        parts: all its parts.
        who: say who loads, too.
    """
    alone = sum(not p.loads for p in parts) == 1
    return [_title(fusion, p, alone, who) for p in parts]


def _title(fusion: Fusion, part: Part, alone: bool, who: bool) -> str:
    words = [word for ring in part.rings for word in _ring_words(fusion, ring, who)]
    results = {b.tensor for b in fusion.outputs}
    makes = part.fills if part.fills or alone else [n for n in part.tensors if n in results]
    ring = f" ({', '.join(words)})" if words else ""
    return " ".join([part.name, ", ".join(makes)]).rstrip() + ring


def _ring_words(fusion: Fusion, ring: Filled, who: bool) -> Iterator[str]:
    """What there is to say of a ring."""
    yield ring.ring
    buffers = dict.fromkeys(fusion.tensor(n).circular_buffer for n in ring.tensors)
    known = [b for b in buffers if b is not None]
    if known:
        yield " and ".join(str(b.stages) for b in known) + " stages"
    if who:
        yield from dict.fromkeys(type_text(b.type) for b in known)


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


def _together(fusion: Fusion, fills: list[str]) -> tuple[Filled, ...]:
    """The rings, not named yet: what one expression reads is in one of them."""
    found: list[set[str]] = [{n} for n in fills]
    for e in fusion.exprs:
        read = [ring for ring in found if ring.intersection(inputs_of(e))]
        if len(read) > 1:
            found = [ring for ring in found if ring not in read] + [set().union(*read)]
    rings = (Filled("", tuple(n for n in fills if n in ring)) for ring in found)
    return tuple(sorted(rings, key=lambda r: fills.index(r.tensors[0])))


def _reads(fusion: Fusion, reader: Part, part: Part) -> bool:
    """Whether a part reads a ring of another one."""
    fills = set(part.fills)
    definitions = (fusion.definition(n) for n in reader.tensors)
    return any(e is not None and fills.intersection(inputs_of(e)) for e in definitions)


def _in_order(fusion: Fusion, parts: list[Part]) -> Iterator[Part]:
    """Each behind those whose rings it reads, else as they come; those of a circle as they come."""
    left = list(parts)
    while left:
        ready = (p for p in left if not any(_reads(fusion, p, q) for q in left if q is not p))
        part = next(ready, left[0])
        left.remove(part)
        yield part


def _titled(fusion: Fusion, parts: Iterable[Part]) -> list[Part]:
    """The same with what each is to the sums."""
    found = list(parts)
    needed = [_sums(fusion, p) for p in found]
    for at in reversed(range(len(found))):
        behind = range(at + 1, len(found))
        needed[at] |= any(needed[b] and _reads(fusion, found[b], found[at]) for b in behind)
    for at, part in enumerate(found):
        if not _sums(fusion, part):
            read = any(_reads(fusion, part, p) for p in found[:at])
            name = "transform" if needed[at] else "epilogue" if read else part.name
            found[at] = replaced(part, name=name)
    return found


def _sums(fusion: Fusion, part: Part) -> bool:
    return any(isinstance(fusion.definition(n), MmaOp) for n in part.tensors)


def _named(fusion: Fusion, parts: list[Part]) -> Iterator[Part]:
    """The same with names of their rings."""
    count = {"ring": 0, "acc": 0, "aux": 0}
    for p in parts:
        rings = []
        for ring in p.rings:
            word = _word(fusion, ring.tensors)
            rings.append(Filled(f"{word}{count[word] or ''}", ring.tensors))
            count[word] += 1
        yield replaced(p, rings=tuple(rings))


def _word(fusion: Fusion, names: tuple[str, ...]) -> str:
    """What a ring is called."""
    if all(fusion.tensor(n).memory is MemoryType.Tensor for n in names):
        return "acc"
    return "ring" if _is_summed(fusion, names) else "aux"


def _with_views(fusion: Fusion, parts: tuple[Part, ...]) -> Iterator[Part]:
    """The same with what they read from global memory."""
    taken = {n for p in parts for n in p.tensors}
    for p in parts:
        made = fusion.made_from(p.tensors)
        mine = tuple(n for n in made if n in p.tensors or n not in taken)
        taken |= set(mine)
        yield replaced(p, tensors=mine)
