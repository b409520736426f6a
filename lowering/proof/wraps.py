"""No sum, difference or product of 32 bits wraps, at the largest sizes that a launch admits.

A launch that is refused because its sizes, or what is computed of them, are too large does not
count (``Admitted``). A kernel's numbers grow with its sizes, with the number of a CTA and with that
of a trip, or fall with them. So those sizes are looked at that cannot be larger without being
refused, some parameters as large as they can be together, the others small; of the CTAs the first
and the last one; of each loop the first and the last trip. Each agent's program is walked there
with ranges of its scalars; words in shared memory have the ranges of all that is stored there.

Of words of global memory, as the ends of a grouped matmul's groups, nothing is assumed: no launch
looks at them, so that they may be any numbers, in any order. That they are ends which do not fall
and lie in the tensor is what the kernel itself makes of them, by a minimum and a maximum, or it
wraps. They are looked at where they are as small and as large as 32 bits, and in the middle of the
sizes: what a trip reads beside what all trips before it have read. Where a trip reads several words
nothing is claimed. What a kernel has of a group that several share is all of it, nothing of it,
or nothing behind it. A remainder is any that there is up to the dividend, at the ends as well: it
falls and rises in between. Not looked at is what does so by a condition, and what very many groups
of a few rows add up to, whose tiles and steps a launch counts (``Admitted``). Of a loop that
carries what becomes less from trip to trip nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from itertools import combinations, product

from lowering.ground.expr import I32_MAX, Binary, Expr, ScalarType, Var, evaluate, type_of
from lowering.kernel.kernel import Kernel
from lowering.proof.admitted import FIRST_CTA, Admitted
from lowering.proof.agent import Agent
from lowering.proof.bounds import ANY, Bounds, Range, joined
from lowering.proof.dealt import dealt
from lowering.proof.obligation import Obligation, UnknownError, Verdict
from lowering.proof.scalars import (
    Branch,
    Draw,
    Leave,
    Load,
    Loop,
    Name,
    Parted,
    Program,
    Read,
    Step,
    Store,
    Uses,
    covers,
    given,
    products_of_parts,
    program,
    within,
)
from lowering.proof.sizes import listed, units_of
from lowering.proof.steps import Steps
from lowering.proof.trip_words import Corner, TripWords, trip_words

__all__ = ["unwrapped"]

NAME = "32 bits"

SMALL = 2**12, 2
"""Sizes that are not large; beside the second one others may be larger than beside the first."""

MEMORY = 2**40
"""Bytes that no GPU has: a launch whose workspaces need them gets none."""

WORDS = 8
"""Walks after which the ranges of words stay."""

FAR = 2**40
"""In place of the largest number of what grows."""

Sizes = dict[str, int]


def unwrapped(
    kernel: Kernel, steps: Mapping[Agent, Steps], admitted: Admitted | None
) -> list[Obligation]:
    """One claim: every operation stays within 32 bits; none where launches are not known."""
    if admitted is None:
        return [Obligation(NAME, kernel.name, Verdict.ABSENT, "its launches are not known")]
    try:
        walks = _walks(steps, sorted({0, kernel.cluster - 1}))
        for sizes, grid in _largest(kernel, admitted):
            for place, read in product(_places(kernel, sizes, grid), trip_words(kernel, sizes)):
                if why := _wrapped(walks, place, read):
                    at = ", ".join(f"{n} = {v}" for n, v in sizes.items())
                    why = f"at {at} on {grid} CTAs{read or ''} {why}"
                    return [Obligation(NAME, kernel.name, Verdict.UNPROVED, why)]
    except UnknownError as e:
        return [Obligation(NAME, kernel.name, Verdict.UNPROVED, str(e))]
    return [Obligation(NAME, kernel.name)]


def _largest(kernel: Kernel, admitted: Admitted) -> Iterator[tuple[Sizes, int]]:
    """Sizes that a launch just admits, and CTAs along x: some large, the others small; on as many
    multiprocessors as the target's GPUs have, and as few as a cluster takes.
    """
    units = units_of(kernel)
    names = list(units)
    chosen = [c for n in sorted({1, 2, len(names)}) for c in combinations(names, n)]
    drawn = [(c, small, kernel.target.sms) for c in chosen for small in SMALL]
    drawn += [(c, SMALL[0], kernel.cluster) for c in chosen[-1:]]
    seen = set[tuple[int, ...]]()
    for large, small, sms in drawn:
        plain = dict.fromkeys(names, small)
        low, high = 0, I32_MAX
        while low < high:
            middle = (low + high + 1) // 2
            sizes = listed(plain | dict.fromkeys(large, middle), units)
            fits = _fits(kernel, admitted, sizes, sms)
            low, high = (middle, high) if fits else (low, middle - 1)
        sizes = listed(plain | dict.fromkeys(large, low), units)
        if low and (key := (*sizes.values(), sms)) not in seen:
            seen.add(key)
            yield sizes, evaluate(kernel.grid, sizes | {"sms": sms})


def _fits(kernel: Kernel, admitted: Admitted, sizes: Sizes, sms: int) -> bool:
    """Whether a launch is admitted."""
    grid = evaluate(kernel.grid, sizes | {"sms": sms})
    values = {**sizes, **FIRST_CTA, "%nctaid.x": grid, "ctas": grid}
    parts = sum(w.rows * w.cols * 4 * evaluate(w.count, values) for w in kernel.workspaces)
    numbers = (*sizes.values(), *(evaluate(e, values) for e in admitted.numbers))
    admissible = 0 < grid <= I32_MAX and parts < MEMORY
    return admissible and all(n <= admitted.largest for n in numbers)


def _places(kernel: Kernel, sizes: Sizes, grid: int) -> Iterator[dict[str, Range]]:
    """Ranges of parameters and special registers in some CTAs."""
    cluster, rows = kernel.cluster, kernel.rows(sizes)
    known = {n: (v, v) for n, v in sizes.items()}
    known |= {
        "%nctaid.x": (grid, grid),
        "%nctaid.y": (rows, rows),
        "%cluster.ctarank": (0, cluster),
    }
    known |= {"%warp": (0, 31), "%lane": (0, 31), "%warpgroup.warp": (0, 3), "%smid": (0, 2**10)}
    last = grid - cluster
    for first in sorted({0, last}):
        yield {
            **known, "%ctaid.x": (first, first + cluster - 1), "%ctaid.y": (0, max(rows - 1, 0)),
            "%ctaid.z": (0, kernel.splits - 1),
        }  # fmt: skip


def _walks(steps: Mapping[Agent, Steps], ranks: Sequence[int]) -> list[_Walk]:
    """Walks of the agents of some CTAs of a cluster, those who store words first; none of who does
    nothing with numbers that another one does not do as well.
    """
    found: list[tuple[Agent, Program]] = []
    programs = [(a, program(a.body, s)) for a, s in steps.items() if a.rank in ranks]
    for agent, one in sorted(programs, key=lambda p: -sum(1 for _ in within(p[1]))):
        if not any(covers(other, one) for _, other in found):
            found.append((agent, one))
    walks = [_Walk(*one) for one in found]
    return sorted(walks, key=lambda w: len(w.loads))


def _wrapped(walks: Sequence[_Walk], known: Mapping[str, Range], read: TripWords | None) -> str:
    """What wraps in a CTA; empty if nothing does."""
    words: dict[str, Range] = {}
    given: list[dict[str, Range] | None] = [None] * len(walks)
    for _ in range(WORDS):
        changed = False
        for n, way in enumerate(walks):
            needs = {b: words[b] for b in way.loads if b in words}
            if needs != given[n]:
                changed, given[n] = True, needs
                way.begin(known, words, read)
        if not changed:
            break
    else:
        raise UnknownError("words that are stored depend on words that are loaded")
    for way in walks:
        if way.found:
            e, (low, high) = next(iter(way.found.items()))
            return f"{way.agent}: {e} is in {low}..{high}"
    return ""


@dataclass
class _Walk:
    """One agent's walks; ``found`` are the operations that wrap with their ranges, ``walked`` what
    came of walks that nothing but names and words tell.
    """

    agent: Agent
    program: Program
    words: dict[str, Range] = field(default_factory=dict)
    names: dict[str, Range] = field(default_factory=dict)
    lets: dict[Var, Expr] = field(default_factory=dict)
    found: dict[Expr, Range] = field(default_factory=dict)
    walked: dict[object, dict[Expr, Range]] = field(default_factory=dict)
    read: Range = ANY
    memory: TripWords | None = None
    ahead: int = 0

    def __post_init__(self) -> None:
        walked = list(within(self.program))
        self.lets |= {s.var: s.value for s in walked if isinstance(s, Name)}
        self.loads = frozenset(s.buffer for s in walked if isinstance(s, Load))
        for e in products_of_parts(walked, self.lets):
            raise UnknownError(f"{e} multiplies where a part of a group begins")
        self.tells = any(isinstance(s, Read | Store) for s in walked)
        self.bounds = Bounds(self.names, self.lets, self.told)
        reads = [s for s in walked if isinstance(s, Loop) and s.reads]
        for s in reads:
            words = sum(isinstance(x, Read) for x in within(s.body))
            if words > 1 or any(isinstance(x, Loop) and x.reads for x in within(s.body)):
                raise UnknownError("a trip reads several words of memory, or a loop's trips do")
        turns = {s.var: dealt(s.carried, self.bounds, given(s)) for s in reads}
        self.dealt = {var: found for var, found in turns.items() if found}
        for each in self.dealt.values():
            self.bounds.behind |= {d.next: d.place for d in each}

    def begin(
        self, known: Mapping[str, Range], words: dict[str, Range], read: TripWords | None
    ) -> None:
        """Walk the whole program, from what is known of parameters and special registers."""
        needs = {b: words[b] for b in self.loads if b in words}
        key = None if self.tells else (*known.items(), *needs.items())
        if key in self.walked:
            self.found = self.walked[key]
            return
        self.names.clear()
        self.names |= known
        self.found = {}
        if key is not None:
            self.walked[key] = self.found
        self.words, self.memory = words, read
        self.read = (read.now, read.now) if read else ANY
        self.walk(self.program)

    def told(self, e: Expr, found: Range) -> None:
        """Note an operation that 32 bits do not hold."""
        if not self.ahead and type_of(e) is ScalarType.I32:
            self.found[e] = joined(self.found.get(e, found), found)

    def walk(self, steps: Program) -> None:
        """Walk some statements."""
        for step in steps:
            match step:
                case Name(var, value):
                    self.names[var.name] = self.bounds.of(value)
                case Uses(values, coords):
                    for e in values:
                        self.bounds.of(e)
                    for c, side in coords:
                        low, high = self.bounds.of(c)
                        if high + side > I32_MAX:
                            self.told(c + side, (low, high + side))
                case Loop():
                    self.loop(step)
                case Branch(cond, then, other):
                    for truth, branch in ((True, then), (False, other)):
                        kept = dict(self.names)
                        self.narrow(cond, truth)
                        self.walk(branch)
                        self.names |= kept
                case Leave(cond):
                    self.bounds.of(cond)
                    self.narrow(cond, False)
                case _:
                    self.word(step)

    def narrow(self, cond: Expr, truth: bool) -> None:
        """What is known of names where a comparison holds, or does not."""
        match cond:
            case Binary("<" | "<=", x, y):
                for side in (x, y):
                    if isinstance(side, Var):
                        self.names[side.name] = self.bounds.where(cond, truth, side)

    def word(self, step: Step) -> None:
        """What is in memory."""
        match step:
            case Store(buffer, value) if not self.ahead:
                new = self.bounds.of(value)
                self.words[buffer] = joined(self.words.get(buffer, new), new)
            case Load(out, buffer):
                self.names[out] = self.words.get(buffer, (0, 0))
            case Read(out):
                self.names[out] = self.read
            case Parted(begin, size, whole):
                corner = self.memory.part if self.memory else Corner.ALL
                least, most = (max(v, 0) for v in self.bounds.of(whole))
                self.names[begin] = (least, most) if corner is Corner.BEHIND else (0, 0)
                self.names[size] = (least, most) if corner is Corner.ALL else (0, 0)
            case Draw(out, op, value):
                high = self.bounds.of(value)[1]
                self.names[out] = (0, high) if op == "inc" else ANY

    def loop(self, loop: Loop) -> None:
        """Walk the first and the last trip of a loop."""
        (first, latest), (soonest, stop) = self.bounds.of(loop.start), self.bounds.of(loop.stop)
        step, widest = (max(s, 1) for s in self.bounds.of(loop.step))
        trips, least = _trips(first, stop, step), _trips(latest, soonest, widest)
        both = zip(loop.carried, loop.places, strict=True)
        inits = [at or self.bounds.of(c.init) for c, at in both]
        if (last := max(stop - 1, first) + step) > I32_MAX:
            self.told(loop.var + loop.step, (first, last))
        self.deal(loop)
        kept = dict(self.names)
        memory = self.memory if loop.reads else None
        with self.noted(memory is None or memory.before is None):
            ranges = once = self.trip(loop, inits, first) if trips else inits
        carrying: Sequence[Range] = inits
        if trips > 1:
            with self.noted(False), self.reading(memory.before if memory else None):
                if loop.reads:
                    once = self.trip(loop, inits, first)
                last = first + (trips - 2) * step
                carrying = self.carried(loop, inits, once, last, trips - 1)
            with self.noted(memory is None or memory.before is not None):
                ranges = self.trip(loop, carrying, first + (trips - 1) * step)
        self.names |= kept  # that a trip has not left the loop says nothing behind it
        left = any(isinstance(s, Leave) for s in within(loop.body))
        sure = trips == least and not left
        for c, at, *found in zip(loop.carried, loop.places, ranges, carrying, inits, strict=True):
            after = found[0] if sure else reduce(joined, found)
            self.names[c.result.name] = at or after

    def deal(self, loop: Loop) -> None:
        """Of a loop that deals tiles out: what holds behind each trip holds in front of the first.

        Raises:
            UnknownError: it does not.
        """
        for d in self.dealt.get(loop.var, ()):
            few, most = self.bounds.of(d.by)
            low, high = self.bounds.of(d.lead)
            if low < 0 or high >= few:
                raise UnknownError(f"{d.next} begins {low}..{high} ahead of {d.before}")
            self.names[d.ahead.name] = 0, most - 1

    def trip(self, loop: Loop, ranges: Sequence[Range], at: int) -> list[Range]:
        """What a trip yields, from the ranges of what is carried."""
        self.names[loop.var.name] = at, at
        for c, place, found in zip(loop.carried, loop.places, ranges, strict=True):
            self.names[c.var.name] = place or found
        for d in self.dealt.get(loop.var, ()):
            self.names[d.next.name] = self.bounds.of(d.place)
        self.walk(loop.body)
        for d in self.dealt.get(loop.var, ()):
            if self.bounds.of(d.more)[0] < 0:
                raise UnknownError(f"{d.before} may become less")
        return [self.bounds.of(c.following) for c in loop.carried]

    @contextmanager
    def noted(self, whether: bool) -> Iterator[None]:
        """Walk trips of which nothing is noted, or go on as it is."""
        self.ahead += not whether
        yield
        self.ahead -= not whether

    @contextmanager
    def reading(self, value: int | None) -> Iterator[None]:
        """Walk trips that read a number in memory, if it is one."""
        kept, self.read = self.read, self.read if value is None else (value, value)
        yield
        self.read = kept

    def carried(
        self, loop: Loop, inits: Sequence[Range], once: Sequence[Range], at: int, trips: int
    ) -> Sequence[Range]:
        """What is carried into the last trip: what the first one yields, where one that is given
        that yields it again; what the one before, whose number is ``at``, yields whatever it was
        given; or, if that has no end, as much more for each of the ``trips`` before as the first
        one has added.

        Raises:
            UnknownError: it becomes less than it was given.
        """
        if all(loop.places):
            return inits
        far = [(min(low, 0), FAR) for low, _ in inits]
        stays = set(range(len(inits))) if loop.reads else set[int]()
        while True:
            given = [once[n] if n in stays else r for n, r in enumerate(far)]
            last = self.trip(loop, given, at)
            kept = {n for n in stays if joined(once[n], last[n]) == once[n]}
            if kept == stays:
                break
            stays = kept
        for c, (few, _), (low, _) in zip(loop.carried, given, last, strict=True):
            if low < few:
                raise UnknownError(f"{c.var.name} may fall from trip to trip")
        return [
            (a, b) if b < FAR else (low + trips * (x - low), high + trips * (y - high))
            for (low, high), (x, y), (a, b) in zip(inits, once, last, strict=True)
        ]


def _trips(start: int, stop: int, step: int) -> int:
    return max(-(-(stop - start) // step), 0)
