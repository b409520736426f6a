"""Parts run one beside the other: each waits for steps to be filled, and for stages to be free.

The order in which a part does things is that of the loops that are dumped. Nothing waits longer
than it must: for a step in front of the first that reads it, for a stage in front of the first that
is stored into it. What waits for nothing goes on, and it does not matter who goes on first: waits
are for what, once true, stays true. So parts that stop here stop in every kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.legality.parts import BIDS, BOX, TIDS, Illegal, Parts
from tests.legality.rings import Cta, Filled, Needs
from tests.legality.walk import Walk
from wsched.fusion import TensorView

__all__ = ["Moment", "Runs", "check_waiting", "times"]

Moment = tuple[int, ...]
"""When something is done: which of what stands in a loop, and which trip, by turns."""

_Span = tuple[Moment, Moment]
_FULL, _FREE, _FILL, _RELEASE = range(4)
"""Waits for a step and for a stage, then what ends these."""


@dataclass(frozen=True)
class Runs:
    """What the roles of one part do in one CTA.

    Args:
        parts: the fusion.
        section: the part, by its place.
        cta: the CTA.
        spans: of each role and ring the steps that it takes or fills, each from where to where.
    """

    parts: Parts
    section: int
    cta: Cta
    spans: dict[tuple[Cta, int, bool], dict[int, _Span]] = field(default_factory=dict)

    def reads(self, ring: int, role: Cta, steps: Sequence[int], needs: Needs, on: set[int]) -> None:
        """A tensor takes steps of a ring in loops ``on``."""
        t, path = needs.t, self.parts.paths[needs.t.name]
        inside = {d.id for d in t.loop if d.id not in on}
        taken = needs.takes(self.cta, role, on).nonzero()[0].tolist()
        for step, at in zip(steps, taken, strict=True):
            values = {d: int(v[at]) for d, v in needs.mesh.items()}
            self._add(role, ring, False, step, times(t, path, needs.walk, values, inside))

    def fills(self, ring: int, role: Cta, filled: Filled) -> None:
        """A tensor is stored into the stages of a ring."""
        t, path = filled.t, self.parts.paths[filled.t.name]
        inside = {d.id for d in filled.inside}
        roles = {
            d.id: index
            for axis, index in zip(TIDS, role, strict=True)
            if (d := t.axis_on(axis)) is not None
        }
        for step, at in enumerate(filled.chosen(self.cta).nonzero()[0].tolist()):
            values = {d: int(v[at]) for d, v in filled.mesh.items()} | roles
            self._add(role, ring, True, step, times(t, path, filled.walk, values, inside))

    def _add(self, role: Cta, ring: int, fills: bool, step: int, span: _Span) -> None:
        known = self.spans.setdefault((role, ring, fills), {})
        first, last = known.get(step, span)
        known[step] = min(first, span[0]), max(last, span[1])

    def processes(self) -> dict[str, list[_Event]]:
        """What each role does, in order."""
        found: dict[Cta, list[tuple[Moment, int, _Event]]] = {}
        for (role, ring, fills), spans in self.spans.items():
            wait, end = (_FREE, _FILL) if fills else (_FULL, _RELEASE)
            for step, (first, last) in spans.items():
                found.setdefault(role, []).append((first, wait, _Event(wait, ring, step)))
                found[role].append((last, end, _Event(end, ring, step)))
        name = self.parts.sections[self.section][-1].name
        return {
            f"what makes {name}, role {role}": [e for _, _, e in sorted(events, key=_order)]
            for role, events in found.items()
        }


@dataclass(frozen=True)
class _Event:
    """One thing that a process does: ``kind`` to a step of a ring."""

    kind: int
    ring: int
    step: int


def _order(at: tuple[Moment, int, _Event]) -> Any:
    return at[:2]


def times(
    t: TensorView, path: tuple[int, ...], walk: Walk, values: Mapping[int, int], inside: set[int]
) -> _Span:
    """The first and the last time at which a tensor is computed, over all trips of loops
    ``inside`` that no role has.

    Args:
        t: the tensor.
        path: which of what stands in a loop it is in, from the outermost loop on.
        walk: its loops in numbers.
        values: an iteration of the others.
        inside: these loops.
    """
    loops = [d for d in t.loop if d.parallel not in BOX]
    first, last = list[int](), list[int]()
    for at, d in zip(path, loops, strict=False):
        runs = d.id in inside and d.parallel not in (*BIDS, *TIDS)
        first += [at, 0 if runs else values[d.id]]
        last += [at, walk.extent(d) - 1 if runs else values[d.id]]
    return (*first, path[-1]), (*last, path[-1])


def check_waiting(parts: Parts, runs: Sequence[Runs], steps: Mapping[int, int]) -> None:
    """All parts of a CTA come to their end.

    Args:
        parts: the fusion.
        runs: what each part that computes does.
        steps: how many steps there are of each ring.

    Raises:
        Illegal: they wait for each other.
    """
    processes = {name: events for run in runs for name, events in run.processes().items()}
    for n, ring in enumerate(parts.rings):
        if ring.filler is None:
            name = " and ".join(t.name for t in ring.fills)
            processes[f"what loads {name}"] = [
                _Event(kind, n, step) for step in range(steps[n]) for kind in (_FREE, _FILL)
            ]
    wanted = Counter(e for events in processes.values() for e in events)
    done: Counter[_Event] = Counter()

    def ready(e: _Event) -> bool:
        if e.kind == _FULL:
            end = _Event(_FILL, e.ring, e.step)
        elif e.kind == _FREE:
            end = _Event(_RELEASE, e.ring, e.step - parts.rings[e.ring].stages)
        else:
            return True
        return done[end] == wanted[end]

    left, going = dict(processes), True
    at = dict.fromkeys(left, 0)
    while going:
        going = False
        for name, events in left.items():
            while at[name] < len(events) and ready(events[at[name]]):
                done[events[at[name]]] += 1
                at[name] += 1
                going = True
    stopped = {name: events[at[name]] for name, events in left.items() if at[name] < len(events)}
    if stopped:
        cta = runs[0].cta
        raise Illegal(f"at CTA {cta} {_waits(parts, stopped)}")


def _waits(parts: Parts, stopped: Mapping[str, _Event]) -> str:
    """Who waits for what."""
    return ", ".join(
        f"{name} waits for {'step' if e.kind == _FULL else 'a stage for step'} {e.step} of "
        + " and ".join(t.name for t in parts.rings[e.ring].fills)
        for name, e in stopped.items()
    )
