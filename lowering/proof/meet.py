"""Named barriers: who meets whom, and that nobody waits there for ever.

A barrier at which warps only ``bar.sync`` is a meeting: its warps are as many as it awaits, and all
of them come equally often, by the same loops and conditions.

A barrier at which some sync and others ``bar.arrive`` is a turn: the k-th sync needs the k-th
arrival. Each arrival stands in a condition that says that the sync which needs it comes, k < X of X
syncs; and there are enough of them, the first ones perhaps before any turn. Or there is one for
each sync, in the same loops and conditions, and one more sync behind all where an arrival is made
beforehand. In an array of turns one arrival is made beforehand, so that of warps that wait in a
circle one can go on: the token.

That nobody arrives for the next turn while somebody still has to come for this one is asked of an
array of turns as a whole, whatever its barriers form. Warps are teams of one program, at each
barrier one of which syncs and one arrives; nobody arrives twice without a sync between, and one
team at most begins with an arrival. Then a team has made no more arrivals than turns were handed
over to it, and that team one more: all together one more than there were turns at all, while a
barrier at which somebody is early would have two more than turns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from lowering.ground.expr import Binary, Const, Expr, Var, free_vars
from lowering.ground.poly import poly
from lowering.kernel.kernel import Kernel, NamedBarrierArray
from lowering.kernel.operands import NamedBarrierRef, Stmt
from lowering.kernel.sync import BarArrive, BarSync
from lowering.kernel.visit import walk
from lowering.proof.agent import Agent
from lowering.proof.obligation import Obligation, Verdict
from lowering.proof.shape import Shape, share_of, text
from lowering.proof.views import Views
from lowering.proof.words import Until, ends_at, until

__all__ = ["Meetings"]

SYNC, ARRIVE = "sync", "arrive"


@dataclass(frozen=True, slots=True)
class Meetings:
    """The named barriers of a kernel, and the programs of its agents."""

    kernel: Kernel
    views: Views

    def claims(self) -> Iterator[Obligation]:
        """One for each array of named barriers, of which every CTA of a cluster has its own."""
        for array in self.kernel.named_barriers:
            whys = ((n, self.of_rank(array, n)) for n in range(self.kernel.cluster))
            rank, why = next(((n, w) for n, w in whys if w), (0, ""))
            verdict = Verdict.UNPROVED if why else Verdict.PROVED
            where = f"CTA {rank}: " if rank else ""
            yield Obligation("named barriers", array.name, verdict, where + why)

    def of_rank(self, array: NamedBarrierArray, rank: int) -> str:
        """What is not proved of an array in one CTA."""
        if any(not isinstance(b.index, Const) for b in self.places(array.name, rank)):
            return "an index is no number"
        found = [self.claim(array, n, rank) for n in range(array.count)]
        if why := next((w for w, _ in found if w), ""):
            return why
        turns = [first for _, first in found if first is not None]
        if turns and sum(turns) != 1:
            return f"{sum(turns)} arrivals are made before the first turn"
        return self.early(array.name, rank) if turns else ""

    def claim(self, array: NamedBarrierArray, index: int, rank: int = 0) -> tuple[str, int | None]:
        """What is not proved of a barrier, and, of a turn, the arrivals before the first one."""
        shapes = {
            agent: shape
            for agent in self.views.ways
            if agent.rank == rank
            and (shape := self.views.shape(agent, partial(_event, array.name, index)))
        }
        threads = sum(32 * len(a.warps) for a in shapes)
        if shapes and threads != array.threads:
            return f"{threads} threads come to {array.name}[{index}], {array.threads} do not", None
        arriving = {s for s in shapes.values() if ARRIVE in _words(s)}
        meeting = {s for s in shapes.values() if s not in arriving}
        if len(meeting) > 1 or len(arriving) > 1:
            return f"warps come to {array.name}[{index}] in several ways", None
        if not arriving:
            return "", None
        if not meeting:
            return "nobody waits there", None
        (syncs,), (arrivals,) = meeting, arriving
        found, first = self.turn(syncs, arrivals), _handed_on(syncs, arrivals)
        return ("", first) if found[0] and first is not None else found

    def places(
        self, array: str, rank: int, *kinds: type[BarSync | BarArrive]
    ) -> Iterator[NamedBarrierRef]:
        """Where somebody of a CTA syncs or arrives at an array, or does one of both."""
        mine = (agent for agent in self.views.ways if agent.rank == rank)
        for stmt in (s for agent in mine for s in walk(agent.body)):
            if isinstance(stmt, kinds or (BarSync, BarArrive)) and stmt.bar.array == array:
                yield stmt.bar

    def early(self, array: str, rank: int = 0) -> str:
        """What is not proved of an array of turns, so that no arrival is early."""
        turns = frozenset(b.index for b in self.places(array, rank, BarArrive))
        teams = defaultdict[Shape, list[Agent]](list)
        for agent in (a for a in self.views.ways if a.rank == rank):
            if shape := self.views.shape(agent, partial(_turn, array, turns)):
                teams[shape].append(agent)
        for word in sorted({w for shape in teams for w in _turns(shape)}, key=str):
            come = [agents for shape, agents in teams.items() if word in _turns(shape)]
            if len(come) > 1:
                said = " and ".join(str(agents[0]) for agents in come)
                return f"{said} come to {array}[{word[1]}], each by a program of its own"
        begin = list[Agent]()
        for shape, agents in teams.items():
            if _last_words(shape, frozenset()) is None:
                return f"{agents[0]} arrives twice in a row: {text(shape)}"
            begin += agents[:1] if _last_words(shape, frozenset((ARRIVE,))) is None else ()
        if len(begin) > 1:
            return f"{' and '.join(map(str, begin))} begin with an arrival"
        return ""

    def turn(self, meeting: Shape, arriving: Shape) -> tuple[str, int | None]:
        """What is not proved of a turn, and the arrivals before the first one."""
        if (words := _Words.of(meeting)) is not None:
            return self.of_queue(words, arriving)
        match meeting:
            case (("loop", Const(0), Expr() as syncs, Const(1), (), (word,)),) if word == SYNC:
                pass
            case (("loop", _, _, _, (), (("loop", *_),)),):
                return _nested(meeting, arriving)
            case _:
                return f"{text(meeting)} is no loop of turns", None
        first, rest = 0, arriving
        match arriving:
            case (("if", Binary("<", Const(0), bound), (word,), ()), *others) if word == ARRIVE:
                if poly(bound) != poly(syncs):
                    return f"the first arrival is for {bound} of {syncs} turns", None
                first, rest = 1, tuple(others)
        match rest:
            case (("loop", Const(0), Expr() as trips, Const(1), (), (("if", cond, (w,), ()),)),):
                pass
            case _:
                return f"{text(rest)} is no loop of arrivals", None
        match cond:
            case Binary("<", at, bound) if w == ARRIVE and poly(bound) == poly(syncs):
                if poly(at) != poly(Var("%0") + first):
                    return f"arrival {at} is made as {Var('%0') + first}", None
            case _:
                return f"the condition {cond} of an arrival is not that of {syncs} turns", None
        if not self.views.facts.follows(poly(trips) + poly(Const(first)) - poly(syncs)):
            return f"{trips} + {first} arrivals for {syncs} turns", None
        return "", first

    def of_queue(self, meeting: _Words, arriving: Shape) -> tuple[str, int | None]:
        """The same, of teams that load the words of a queue, up to one that is its end, word ``e``.

        Teams that share the words have as many turns within each one in front of ``e``, one team
        behind the other, and each arrival is for a turn of the same word. But the last team arrives
        for the next turn of the first one, once before all: that one syncs at ``e`` once more.

        Of those that take the words in turn, with one turn within each, team t of T syncs for each
        of its words up to ``e``, which may be its own; team t - 1 arrives for each of its words in
        front of ``e``, and, if it is the last team, once before. Word j of the one is word j - 1 of
        the other: these are equally many.
        """
        first, rest = (1, arriving[1:]) if arriving[0] == ARRIVE else (0, arriving)
        theirs, loop = _Words.of(rest), (meeting.stop, meeting.end, False)
        if theirs is None or (theirs.stop, theirs.end, theirs.synced) != loop:
            return f"{text(rest)} is no loop of arrivals", None
        (stops, inner), (others, told) = _stops(meeting.turns), _stops(theirs.turns)
        if inner != (SYNC,) or told != (ARRIVE,) or stops != others or _of_trips(stops):
            return f"{text(theirs.turns)} within a word is not for {text(meeting.turns)}", None
        share = share_of(meeting.word)
        if share is None:
            return f"whose words {meeting.word} are is not known", None
        if theirs.word == meeting.word:
            right = first == meeting.synced and (share.count == 1 or not first)
        else:
            before = replace(share, team=(share.team - 1) % share.count)
            due = Var(meeting.word.name.removesuffix(share.suffix) + before.suffix)
            right = theirs.word == due and meeting.synced and first == (share.team == 0)
            right = right and not stops
        if not right:
            return f"{first} arrivals and those for {theirs.word} are made for {meeting.word}", None
        end, facts = meeting.end, self.views.facts
        if meeting.synced and not ends_at(share.buffer, end, self.views.steps, facts, exactly=True):
            return f"the first end of {share.buffer} may not be {end}", None
        return "", first


@dataclass(frozen=True, slots=True)
class _Words:
    """A loop over the words of a queue, up to the first that is no smaller than ``end``.

    Args:
        stop: its trips, at most.
        word: that of a trip.
        end: the bound.
        synced: whether there is a sync at a word that is the bound itself.
        turns: what there is of each word in front of the end.
    """

    stop: Expr
    word: Var
    end: Expr
    synced: bool
    turns: Shape

    @staticmethod
    def of(shape: Shape) -> _Words | None:
        """That of a program; None of other forms."""
        match until(shape):
            case Until(stop, Binary("<=", end, Var() as word), front, turns):
                if front in ((), (("if", word.eq(end), (SYNC,), ()),)):
                    return _Words(stop, word, end, bool(front), turns)
        return None


def _handed_on(meeting: Shape, arriving: Shape) -> int | None:
    """The arrivals before the first turn, where there is an arrival for each sync in the same loops
    and conditions; or else one in front of all, and a sync behind all. None of another form.
    """
    syncs = _arriving(meeting)
    if syncs == arriving:
        return 0
    ends = arriving[:1] == (ARRIVE,) and meeting[-1:] == (SYNC,)
    return 1 if ends and syncs[:-1] == arriving[1:] else None


def _arriving(shape: Shape) -> Shape:
    """A program with an arrival in the place of each sync."""
    return tuple(
        _arriving(s) if isinstance(s, tuple) else ARRIVE if s == SYNC else s for s in shape
    )


def _last_words(
    shape: Shape, before: frozenset[str]
) -> tuple[frozenset[str], frozenset[str]] | None:
    """What a program's last word may be, at its end and where it leaves the loop around it, if no
    two arrivals follow each other; ``before`` is what may be the last one in front of it. None if
    two may.
    """
    left = frozenset[str]()
    for part in shape:
        match part:
            case (("sync" | "arrive") as word) | (("sync" | "arrive") as word, Const()):
                if word == ARRIVE and word in before:
                    return None
                before = frozenset((word,))
            case ("loop", *_, tuple() as inner):
                behind = before
                for _ in (1, 2):  # a second trip follows a first one
                    if (found := _last_words(inner, before)) is None:
                        return None
                    before |= found[0]
                    behind |= found[0] | found[1]
                before = behind
            case ("if", Expr(), tuple() as then, tuple() as other):
                ways = [_last_words(way, before) for way in (then, other)]
                if (found := ways[0]) is None or (else_ := ways[1]) is None:
                    return None
                before, left = found[0] | else_[0], left | found[1] | else_[1]
            case ("break", _):
                left |= before
            case _:
                return None
    return before, left


def _nested(meeting: Shape, arriving: Shape) -> tuple[str, int | None]:
    """What is not proved of turns in loops in each other, and the arrivals before the first one:
    those of all trips are for the same trip, or, with one before all, each but the last for the
    next.
    """
    stops, inner = _stops(meeting)
    if inner != (SYNC,) or _of_trips(stops):
        return f"{text(meeting)} is no loop of turns", None
    first, rest = 0, arriving
    some = {str(Const(0) < e) for e in stops if not isinstance(e, Const) or e.value < 1}
    match arriving:
        case (("if", Expr() as cond, (word,), ()), *others) if word == ARRIVE:
            if _parts(cond, "and") != some:
                return f"the first arrival is made if {cond}", None
            first, rest = 1, tuple(others)
    theirs, inner = _stops(rest)
    if theirs != stops:
        return f"{text(rest)} is no loop of arrivals", None
    match inner:
        case (("if", Expr() as cond, (word,), ()),) if word == ARRIVE:
            trips = [(Var(f"%{n}"), stop) for n, stop in enumerate(stops)]
            due = {str(v + 1 < e) for v, e in trips} if first else {str(v < e) for v, e in trips}
            if _parts(cond, "or" if first else "and") != due:
                return f"the condition {cond} of an arrival is not that of a turn", None
            return "", first
    return f"{text(rest)} is no loop of arrivals", None


def _stops(shape: Shape) -> tuple[list[Expr], Shape]:
    """How often each loop of a nest runs, from the outermost on, and what stands in it."""
    found: list[Expr] = []
    while True:
        match shape:
            case (("loop", Const(0), Expr() as stop, Const(1), (), tuple() as inner),):
                found.append(stop)
                shape = inner
            case _:
                return found, shape


def _of_trips(stops: Iterable[Expr]) -> bool:
    """Whether how often loops run depends on the trip of one, or on a word."""
    return any(v.name.startswith("%") for e in stops for v in free_vars(e))


def _parts(cond: Expr, op: str) -> set[str]:
    """What a predicate is made of by ``and``, or by ``or``."""
    match cond:
        case Binary(o, a, b) if o == op:
            return _parts(a, op) | _parts(b, op)
    return {str(cond)}


def _event(array: str, index: int | None, stmt: Stmt) -> str | None:
    """The word of a sync or arrival at a barrier, or at any of the array."""
    if not isinstance(stmt, BarSync | BarArrive) or stmt.bar.array != array:
        return None
    if index is not None and stmt.bar.index != Const(index):
        return None
    return SYNC if isinstance(stmt, BarSync) else ARRIVE


def _turn(array: str, turns: frozenset[Expr], stmt: Stmt) -> tuple[str | Expr, ...] | None:
    """The word of a sync or arrival at any of an array's barriers that are turns, and at which."""
    if (word := _event(array, None, stmt)) is None:
        return None
    assert isinstance(stmt, BarSync | BarArrive)
    return (word, stmt.bar.index) if stmt.bar.index in turns else None


def _turns(shape: object) -> set[tuple[str, Const]]:
    """The words of :func:`_turn` in a program."""
    match shape:
        case (("sync" | "arrive") as word, Const() as at):
            return {(word, at)}
        case tuple():
            return {w for s in shape for w in _turns(s)}
    return set()


def _words(shape: object) -> set[str]:
    if isinstance(shape, tuple):
        return {w for s in shape for w in _words(s)}
    return {shape} if isinstance(shape, str) else set()
