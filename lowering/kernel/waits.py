"""Waits with a bound: what a watched kernel writes down when one takes too long, and what it says.

A kernel that declares ``watch`` has a row of words for each warp, ``[CTAs, warps, WORDS]`` words of
64 bits that are zero before. A warp whose wait took longer than the bound fills its row:

====  =======================================================================================
word  contents
====  =======================================================================================
0     1 + the number of the wait among :func:`sites`; 0 of a warp that has nothing to say
1     nanoseconds, by ``%globaltimer``; of the machine its number among those that wait
2     index of the barrier or counter, and in the upper half the parity or the value waited for
3     1 + what is there: of a counter its value; of the mbarrier of the first wait that failed in
      the grid the arrivals that have not come; 0 of other mbarriers
====  =======================================================================================

Warps at a named barrier have no bound, nor have those that compute: their rows are empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lowering.kernel.atomic import CounterWait
from lowering.kernel.control import Role, Roles
from lowering.kernel.kernel import Kernel
from lowering.kernel.operands import Body
from lowering.kernel.sync import MBarrierWait
from lowering.kernel.text import print_stmt
from lowering.kernel.visit import bodies

__all__ = ["WORDS", "Rows", "Site", "row_of", "rows_shape", "sites", "stuck"]

WORDS = 4

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Site:
    """A wait of a kernel, and the role that it stands in; None outside of roles."""

    stmt: MBarrierWait | CounterWait
    role: Role | None


def sites(kernel: Kernel) -> tuple[Site, ...]:
    """All waits that have a bound in a watched kernel, in the order of its text."""
    return tuple(_sites(kernel.body, None))


def _sites(body: Body, role: Role | None) -> Iterator[Site]:
    for stmt in body:
        if isinstance(stmt, MBarrierWait | CounterWait):
            yield Site(stmt, role)
        elif isinstance(stmt, Roles):
            for r in stmt.roles:
                yield from _sites(r.body, r)
        else:
            for inner in bodies(stmt):
                yield from _sites(inner, role)


def rows_shape(kernel: Kernel, grid: int, params: Mapping[str, int]) -> tuple[int, int, int]:
    """CTAs, warps and words of what a launch of a watched kernel writes down."""
    return kernel.ctas(grid, params), kernel.threads // 32, WORDS


def row_of(site: int, time: int, index: int, wanted: int, found: int | None) -> list[int]:
    """A warp's row.

    Args:
        site: number of the wait.
        time: when it failed.
        index: of the barrier or counter.
        wanted: the parity or the value.
        found: arrivals that have not come, or the counter's value; None where nobody knows.
    """
    return [1 + site, time, index + (wanted << 32), 0 if found is None else 1 + found]


@dataclass(frozen=True, slots=True)
class _Wait:
    """What a row says: of a warp, what it waits for, and what of it is there (-1: not known)."""

    cta: int
    warp: int
    site: Site
    index: int
    wanted: int
    found: int

    @property
    def bar(self) -> tuple[int, str, int]:
        """The barrier or counter."""
        stmt = self.site.stmt
        ref = stmt.counter if isinstance(stmt, CounterWait) else stmt.bar
        return self.cta, ref.array, self.index

    def text(self, kernel: Kernel) -> str:
        """What the wait lacks."""
        _, name, index = self.bar
        if isinstance(self.site.stmt, CounterWait):
            return f"{name}[{index}] is {self.found}, not yet {self.wanted}"
        arrivals, what = kernel.mbarrier(name).arrivals, f"{name}[{index}] parity {self.wanted}"
        if self.found < 0:
            return what
        if self.found:
            return f"{what} lacks {self.found} of {arrivals} arrivals"
        return f"{what} has its {arrivals} arrivals and lacks bytes of copies"


def _told(kernel: Kernel, rows: Rows) -> list[_Wait]:
    """All waits, the first that failed first; of a barrier that one knows, all who wait know."""
    found, waits = sites(kernel), []
    waiting = [(int(rows[c, w, 1]), int(c), int(w)) for c, w in np.argwhere(rows[:, :, 0])]
    for _, cta, warp in sorted(waiting):
        number, _, what, there = map(int, rows[cta, warp])
        wait = _Wait(cta, warp, found[number - 1], what & 0xFFFFFFFF, what >> 32, there - 1)
        waits.append(wait)
    known = {w.bar: w.found for w in waits if w.found >= 0}
    return [replace(w, found=known.get(w.bar, -1)) for w in waits]


def stuck(kernel: Kernel, rows: Rows) -> tuple[str, ...]:
    """A line for each wait that took too long, the first that failed first.

    ``CTAs 0..3, role load, group 0, warp 8: ab_empty[2] parity 1 lacks 1 of 2 arrivals (at: ...)``.
    Warps that wait for the same at the same statement share a line, and so do CTAs.
    """
    places: dict[tuple[str, str], dict[int, list[int]]] = {}
    for w in _told(kernel, rows):
        text = f"{w.text(kernel)} (at: {print_stmt(w.site.stmt)})"
        ctas = places.setdefault((_place(w.site.role, w.warp), text), {})
        ctas.setdefault(w.cta, []).append(w.warp)
    return tuple(
        f"{_span('CTA', list(of))}{place}, {_span('warp', warps)}: {text}"
        for (place, text), by_cta in places.items()
        for warps, of in _alike(by_cta)
    )


def _place(role: Role | None, warp: int) -> str:
    return "" if role is None else f", role {role.name}, group {(warp - role.first_warp) // 4}"


def _alike(by_cta: Mapping[int, list[int]]) -> Iterator[tuple[list[int], list[int]]]:
    """Warps, and the CTAs of which just these wait."""
    found: dict[tuple[int, ...], list[int]] = {}
    for cta, warps in by_cta.items():
        found.setdefault(tuple(sorted(warps)), []).append(cta)
    for key, ctas in found.items():
        yield list(key), ctas


def _span(what: str, numbers: list[int]) -> str:
    """``CTA 3``, ``CTAs 1, 3`` or ``CTAs 4..7``."""
    low, high = min(numbers), max(numbers)
    if low == high:
        return f"{what} {low}"
    if len(numbers) > 2 and high - low + 1 == len(numbers):
        return f"{what}s {low}..{high}"
    return f"{what}s " + ", ".join(map(str, sorted(numbers)))
