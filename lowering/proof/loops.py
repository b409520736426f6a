"""Loops of the automaton: trips one by one until a state repeats, then all later ones at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from lowering.ground.expr import Const, Expr, substitute
from lowering.ground.poly import Poly, poly
from lowering.kernel.control import For
from lowering.kernel.sync import MBarrierWait
from lowering.kernel.visit import defined, walk
from lowering.proof.automaton import Automaton
from lowering.proof.obligation import RefutedError, UnknownError
from lowering.proof.rings import Ring
from lowering.proof.state import State, merged
from lowering.proof.steps import Head, congruent, put

__all__ = ["follow"]

TRIPS = 6
"""Trips after which a loop's state has to be that of the trip before."""

UNROLLED = 64
"""Trips that a loop of a constant number of them is followed through one by one."""


def follow(auto: Automaton, loop: For, state: State) -> list[State]:
    """The states behind a loop."""
    start, stop = (auto.steps.resolve(substitute(e, auto.values)) for e in (loop.start, loop.stop))
    if isinstance(start, Const) and isinstance(stop, Const) and isinstance(loop.step, Const):
        trips = range(start.value, stop.value, loop.step.value)
        if len(trips) <= UNROLLED:
            return _each(auto, loop, state, trips)
    return _Loop(auto, loop, start, stop).follow(state)


def _each(auto: Automaton, loop: For, state: State, trips: range) -> list[State]:
    """A loop of so many trips."""
    heads, states, auto_left = auto.steps.heads[loop.var.name], [state], list[State]()
    dealt = _dealt(auto, loop)
    auto.left.append(auto_left)
    values, places = auto.values, auto.places
    for n, value in enumerate(trips):
        auto.values = values | {loop.var: Const(value)}
        at = {h.at: put(h.first, places) + put(h.delta, places) * poly(Const(n)) for h in heads}
        auto.places = places | at
        states = [end for s in states for end in _one(auto, loop, s, dealt, not n)]
    auto.values, auto.places = values, places
    auto.left.pop()
    return merged([*states, *auto_left])


def _dealt(auto: Automaton, loop: For) -> dict[str, tuple[Head, Poly]]:
    """The full barriers of rings of which a loop of so many trips may leave steps to other groups,
    each with the loop's place and how far it is ahead of the wait.
    """
    if auto.agent.group is None:
        return {}
    waits = (s.bar.array for s in walk(loop.body) if isinstance(s, MBarrierWait))
    found = ((a, _counted(auto, loop, a)) for a in dict.fromkeys(waits) if a in auto.full)
    return {array: counted for array, counted in found if counted is not None}


def _one(
    auto: Automaton,
    loop: For,
    state: State,
    dealt: Mapping[str, tuple[Head, Poly]],
    first: bool,
) -> list[State]:
    """The states behind a trip. Of a ring of which it takes steps it may leave out some behind
    them, and the first trip some in front of them.
    """
    places, begun = auto.places, state
    for array, (head, ahead) in dealt.items() if first else ():
        at = put(poly(head.at), places) - ahead
        if not congruent(at, state.count(array), 2 * head.stages):
            begun = begun.counted(array, at)
    found = []
    for end in auto.body(loop.body, [begun]):
        for array, (head, _) in dealt.items():
            count, old = end.count(array), begun.count(array)
            if count == old:
                end = end if begun is state else end.uncounted(array, state)
                continue
            _began(auto, loop, state, auto.full[array], old - state.count(array), array)
            auto.walked.lengths.setdefault((loop.var.name, array), count - old)
            due = old + put(head.delta, places)
            if count != due:
                _skipped(auto, loop, end, array, head, due - count)
                end = end.counted(array, due)
        found.append(end)
    return found


def _began(auto: Automaton, loop: For, state: State, ring: Ring, steps: Poly, array: str) -> None:
    """Note the steps that stand in front of a loop and are left to other warps."""
    if congruent(steps, Poly(()), 2 * ring.stages) or state.facts.equal(steps):
        return
    old = auto.walked.begins.setdefault((loop.var.name, array), steps)
    if old != steps or auto.agent.group is None:
        why = f"begins loop {loop.var.name} {steps.expr()} steps late"
        auto.fail(state, "step", ring.full, why)


def _skipped(auto: Automaton, loop: For, state: State, array: str, head: Head, steps: Poly) -> None:
    """Note the steps that a trip leaves to other warps, none modulo the ring's."""
    if congruent(steps, Poly(()), 2 * head.stages) or state.facts.equal(steps):
        return
    key = loop.var.name, array
    ring = auto.full.get(array) or auto.empty.get(array)
    if steps == head.delta:
        auto.walked.idle.add(key)
        return
    old = auto.walked.skips.setdefault(key, steps)
    if old != steps or ring is None or auto.agent.group is None:
        why = f"a trip of {loop.var.name} leaves out {steps.expr()} steps"
        auto.fail(state, "step", ring.full if ring else array, why)


class _Loop:
    """A loop of any number of trips, followed by one agent."""

    def __init__(self, auto: Automaton, loop: For, start: Expr, stop: Expr) -> None:
        self.auto, self.loop = auto, loop
        self.start, self.stop = poly(start), poly(stop)
        self.var = poly(loop.var)
        self.heads = auto.steps.heads[loop.var.name]
        inside = {n for s in (loop, *walk(loop.body)) for n in defined(s)}
        self.inside = frozenset(inside)
        arrays = {s.bar.array for s in walk(loop.body) if isinstance(s, MBarrierWait)}
        self.arrays = sorted(arrays)
        self.counted: dict[str, tuple[Head, Poly]] = {}

    def follow(self, state: State) -> list[State]:
        """The states behind the loop, from one in front of it."""
        state = self.entered(state)
        left = list[State]()
        self.auto.left.append(left)
        exits: list[State] = []
        refuted: RefutedError | None = None
        for trip in range(TRIPS + 1):
            exact, more = self.facts(state, trip)
            auto = self.auto
            kept = auto.one, auto.values, auto.places, len(auto.left)
            try:
                if self.repeats(replace(state, facts=state.facts + more)):
                    exits += self.exit(state, trip, False)
                    break
            except RefutedError as e:  # perhaps of a path that no trip takes: follow this one alone
                refuted = e
                auto.one, auto.values, auto.places, depth = kept
                del auto.left[depth:]
            exits += self.exit(state, trip, True)
            following = self.trip(replace(state, facts=state.facts + exact))
            if not following:
                break
            if len(following) > 1 or trip == TRIPS:
                why = UnknownError(f"loop {self.loop.var.name} does not come to repeat a state")
                raise refuted or why
            state = following[0]
        self.auto.left.pop()
        return merged([*exits, *(self.behind(s) for s in left)])

    def entered(self, state: State) -> State:
        """In front of the first trip: steps are counted from the loop's place."""
        for array in self.arrays:
            ring = self.auto.full.get(array) or self.auto.empty.get(array)
            counted = _counted(self.auto, self.loop, array)
            if ring is None or counted is None:
                continue
            self.counted[array] = head, ahead = counted
            first = put(head.first, self.auto.places) - ahead
            count = self.auto.count(state, ring, array, first)
            _began(self.auto, self.loop, state, ring, first - count, array)
            state = state.counted(array, poly(head.at) - ahead)
        return state

    def facts(self, state: State, trip: int) -> tuple[tuple[Poly, ...], tuple[Poly, ...]]:
        """What is known in trip ``trip``, and what in that and any later one."""
        step = poly(self.loop.step) * poly(Const(trip))
        behind = self.var - self.start - step
        going = self.stop - self.var - poly(Const(1))
        return (behind, -behind, going), (behind, going)

    def repeats(self, state: State) -> bool:
        """Whether any later trip leads from a state to the same."""
        left = len(self.auto.left[-1])
        ends = self.trip(state)
        same = ends == [state]
        if not same:
            del self.auto.left[-1][left:]
        return same

    def trip(self, state: State) -> list[State]:
        """The states at the head of the next trip."""
        if state.facts.impossible:
            return []
        ends = self.auto.body(self.loop.body, [state])
        return merged(self.next(s) for s in ends)

    def next(self, state: State) -> State:
        """A state at the end of a trip, told from the place that the next one begins at."""
        for array, (head, ahead) in self.counted.items():
            wanted = poly(head.at) + head.delta - ahead
            count = state.count(array)
            taken = count - wanted + head.delta
            self.auto.walked.lengths.setdefault((self.loop.var.name, array), taken)
            if count != wanted:
                _skipped(self.auto, self.loop, state, array, head, wanted - count)
                state = state.counted(array, wanted)
        back = {head.at: poly(head.at) - head.delta for head in self.heads}
        state = self.auto.closed(state, self.arrays).moved(lambda p: put(p, back))
        return replace(state, facts=state.facts.without(self.inside))

    def exit(self, state: State, trip: int, exact: bool) -> Iterator[State]:
        """Behind the loop, after ``trip`` trips, or any later one."""
        span = self.stop - self.start - poly(self.loop.step) * poly(Const(trip))
        more = (span, -span) if exact and trip else (-span,) if exact else (span,)
        found = self.behind(replace(state, facts=state.facts + more))
        if not found.facts.impossible:
            yield found

    def behind(self, state: State) -> State:
        """A state behind the loop, told from what is known there."""
        end = {h.at: put(h.end, self.auto.places) for h in self.heads}
        state = self.auto.closed(state, self.arrays).moved(lambda p: put(p, end))
        return replace(state, facts=state.facts.without(self.inside))


def _counted(auto: Automaton, loop: For, array: str) -> tuple[Head, Poly] | None:
    """The place of a loop that the waits at an array are told from, and how far it is ahead."""
    ring = auto.full.get(array) or auto.empty.get(array)
    for head in auto.steps.heads[loop.var.name]:
        if ring is not None and head.stages == ring.stages:
            ahead = _ahead(auto, loop, array, head, ring)
            if ahead is not None:
                return head, ahead
    return None


def _ahead(auto: Automaton, loop: For, array: str, head: Head, ring: Ring) -> Poly | None:
    """By how much a loop's place is ahead of the step that is first waited for at an array; None
    where the waits are not told from it.
    """
    firsts = {h.at: h.first for hs in auto.steps.heads.values() for h in hs if h is not head}
    for stmt in walk(loop.body):
        if isinstance(stmt, MBarrierWait) and stmt.bar.array == array:
            at = auto.place(stmt.bar.index, stmt.parity, ring.stages)
            while at is not None and any(a in firsts for m, _ in at.terms for a in m):
                at = put(at, {**firsts, head.at: poly(head.at)})
            ahead = None if at is None else poly(head.at) - at
            return ahead if ahead is not None and ahead.constant() is not None else None
    return None
