"""Threads of a CTA, and the registers of those of each part, where several compute.

A ring says how many the warps that fill it have, and those that read it. A part that touches
several rings has one number, all parts that load have the same, and all together no more than the
CTA starts with: an increase beyond that would wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lowering.ground.errors import ScheduleError
from lowering.target import ptx
from lowering.target.target import Target
from wsched.fusion import Fusion, nest_text
from wsched.schedule.parts import Part
from wsched.schedule.proof.edges import Edge, main_of
from wsched.schedule.proof.loading import warpgroups_that_load
from wsched.schedule.warpgroups import ROLES

__all__ = [
    "check_registers", "check_threads", "load_warpgroups", "registers_of", "warpgroups_of",
]  # fmt: skip


def registers_of(edges: Iterable[Edge], part: int) -> int | None:
    """Registers of a thread of a part, as the first ring says that it touches; None where they stay
    as the kernel starts with them.
    """
    return next((number for _, number in _said(edges, {part})), None)


def warpgroups_of(parts: Sequence[Part], edges: Sequence[Edge]) -> dict[int, int]:
    """How many warpgroups run each part that computes; 1 of one that reads no ring. What one thread
    issues has a warp of those that load.
    """
    computing = (at for at, part in enumerate(parts) if not part.loads and not part.issued)
    mains = {at: main_of(edges, at) for at in computing}
    return {at: 1 if main is None else main.warpgroups.count for at, main in mains.items()}


def load_warpgroups(fusion: Fusion, parts: Sequence[Part], edges: Iterable[Edge]) -> int:
    """How many warpgroups only load, fetch tiles or issue products; none where those that compute
    load.
    """
    loads = [e for e in edges if parts[e.producer].loads and e.relation.warp_specialized]
    fetching = max((e.relation.work.fetching_warps for e in loads), default=0)
    alone = fetching + sum(part.issued for part in parts)
    return warpgroups_that_load(fusion, {e.name: e.relation.loads for e in loads}.values(), alone)


def check_threads(
    fusion: Fusion, parts: Sequence[Part], edges: Sequence[Edge], target: Target
) -> None:
    """A CTA has as many threads as all parts want.

    Args:
        fusion: the complete schedule.
        parts: all of them.
        edges: between them.
        target: the GPU.

    Raises:
        ScheduleError: ``threads``.
    """
    groups = warpgroups_of(parts, edges)
    computing, loading = sum(groups.values()), load_warpgroups(fusion, parts, edges)
    threads = ptx.WARPGROUP * (computing + loading)
    if threads <= target.max_threads:
        return
    mains = [m for at in groups if (m := main_of(edges, at)) is not None]
    leads = [fusion.tensor(m.compute) for m in mains]
    loops = (
        f"loop {d.label} {d.extent} [{d.parallel}] of {t.name}"
        for t in leads for d in t.loop if d.parallel in ROLES
    )  # fmt: skip
    beside = f" and {loading} that load" if loading else ""
    raise ScheduleError(
        "threads",
        ", ".join(loops) or _wrote(fusion),
        f"{computing} warpgroups that compute{beside} are {threads} threads, and a CTA has at most "
        f"{target.max_threads}",
        (f"at most {target.max_threads // ptx.WARPGROUP - loading} warpgroups that compute",),
        "\n".join(map(nest_text, leads)),
    )


def check_registers(
    fusion: Fusion, parts: Sequence[Part], edges: Sequence[Edge], target: Target
) -> None:
    """The numbers agree, and the CTA has as many.

    Args:
        fusion: the complete schedule.
        parts: all of them.
        edges: between them.
        target: the GPU.

    Raises:
        ScheduleError: ``registers``.
    """
    groups = warpgroups_of(parts, edges)
    issued = {at for at, part in enumerate(parts) if part.issued}
    if len(groups) + len(issued) < 2:
        return  # one pair of numbers, decided with its edge
    loading = {at for at, part in enumerate(parts) if part.loads} | issued
    sharing = [loading, *({at} for at in groups)]
    found = [_one_number(fusion, parts, edges, places) for places in sharing if places]
    # All parts have a number or none has: rings lead from the loads to every other one.
    numbers = [number for number in found if number is not None]
    if not numbers:
        return
    loads = load_warpgroups(fusion, parts, edges)
    sizes = [ptx.WARPGROUP * n for n in ([loads] if loading else []) + [*groups.values()]]
    problem = target.registers_problem(sum(sizes), tuple(zip(sizes, numbers, strict=True)))
    if problem:
        raise ScheduleError("registers", _wrote(fusion), problem, ("num_registers=None",))


def _said(edges: Iterable[Edge], places: set[int]) -> Iterator[tuple[Edge, int | None]]:
    """What each ring says of the threads of some parts."""
    for e in edges:
        filling, reading = e.relation.registers
        if e.producer in places:
            yield e, filling
        if e.consumer in places:
            yield e, reading


def _one_number(
    fusion: Fusion, parts: Sequence[Part], edges: Sequence[Edge], places: set[int]
) -> int | None:
    """That of the threads of some parts; ScheduleError if rings say different ones."""
    said = list(_said(edges, places))
    numbers = {number for _, number in said}
    if len(numbers) < 2:
        return next(iter(numbers), None)
    who = " and ".join(dict.fromkeys(parts[at].name for at in sorted(places)))
    each = ", ".join(
        dict.fromkeys(f"{n or 'none'} by {', '.join(e.relation.loads)}" for e, n in said)
    )
    raise ScheduleError(
        "registers", _wrote(fusion),
        f"the threads of one part, {who}, have different numbers of registers: {each}",
        ("one number on all rings that a part fills or reads",),
    )  # fmt: skip


def _wrote(fusion: Fusion) -> str:
    return ", ".join(str(r) for r in fusion.history if r.op == "circular_buffer")
