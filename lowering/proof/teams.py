"""Steps that teams take in turn: the program of one who takes all of them, dealt out.

Where that has a loop of ``X`` trips, team t of T has one of ``ceildiv(max(X - t, 0), T)``, which
begins t trips late and skips T - 1 of them behind each of its own. The trips ``T * i + t`` of all
teams are those from 0 to X, each once. Where the loop ends at a word that says so, a team's ends at
the first such one of its own words; who stores them stores one for each team. Trips that take
different numbers of steps are ``lowering.proof.uneven``'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lowering.ground.expr import ONE, ZERO, Const, Expr, Var, ceildiv, free_vars, maximum
from lowering.ground.poly import Poly, poly
from lowering.kernel.control import For
from lowering.kernel.operands import Body
from lowering.kernel.sync import MBarrierWait
from lowering.kernel.visit import walk
from lowering.proof.agent import Agent
from lowering.proof.linear import Facts
from lowering.proof.rings import Ring
from lowering.proof.shape import Shape, Share, named, renamed, share_of, text, uses
from lowering.proof.state import Walked
from lowering.proof.steps import congruent
from lowering.proof.total import times
from lowering.proof.uneven import Gaps, uneven
from lowering.proof.words import until

__all__ = ["Dealt", "dealt"]

TEAMS = 4
"""Teams that may take steps in turn."""


@dataclass(frozen=True, slots=True)
class Dealt:
    """Who takes which steps of a ring.

    Args:
        teams: of agents that take steps in turn with others, which of the teams they are in.
        why: what keeps the steps of all from being the same; empty if they are.
    """

    teams: Mapping[Agent, int]
    why: str = ""


def dealt(
    shape: Shape,
    parts: Mapping[Agent, Shape],
    ways: Mapping[Agent, Walked],
    ring: Ring,
    teams: int,
    facts: Facts,
) -> Dealt:
    """Whether teams take the steps of one who takes all, each step one of them.

    ``shape`` is the program of that one as waits see it, ``parts`` are those of the teams;
    ``teams`` is for how many words that end the loop are stored, 0 where there are none.
    """
    found: dict[Agent, tuple[int, int]] = {}
    known: dict[tuple[Shape, _Gapped], list[tuple[int, int]]] = {}
    for agent, mine in parts.items():
        loops = _gapped(agent, ways[agent], ring)
        if not loops:
            return Dealt({}, f"{agent} leaves out steps in more than one loop")
        for loop in loops:
            if (mine, loop) not in known:
                known[mine, loop] = loop.teams(shape, mine, facts)
            if len(known[mine, loop]) == 1:
                (found[agent],) = known[mine, loop]
                break
        else:
            left = f"begins {loops[0].gaps.begins.expr()} steps late"
            left += f" and skips {loops[0].gaps.skips.expr()}"
            why = f"{agent}, which {left}: {text(mine)} is no team's part of {text(shape)}"
            return Dealt({}, why)
    count = max(n for _, n in found.values())
    shares = (share_of(v) for mine in parts.values() for v in named(mine))
    worded = any(share is not None and share.buffer in ring.buffers for share in shares)
    if (teams or worded) and teams != count:
        return Dealt({}, f"ends for {teams} teams of {count}")
    for rank in {a.rank for a in found}:
        there = {found[a] for a in found if a.rank == rank}
        if there != {(t, count) for t in range(count)}:
            return Dealt({}, f"teams {sorted(t for t, _ in there)} of {count} in CTA {rank}")
    return Dealt({a: t for a, (t, _) in found.items()})


@dataclass(frozen=True, slots=True)
class _Gapped:
    """A loop behind whose trips a team leaves out steps.

    Args:
        depth: how many loops stand around the trips of this one, itself among them.
        length: the steps of a trip.
        gaps: those that are left out.
    """

    depth: int
    length: Poly
    gaps: Gaps

    def teams(self, shape: Shape, mine: Shape, facts: Facts) -> list[tuple[int, int]]:
        """The teams, each of how many, that have ``mine`` of the program of one who takes all."""
        places = [(t, n) for n in range(2, TEAMS + 1) for t in range(n)]
        outermost = self.depth == 1
        fitting = [p for p in places if outermost and _of_team(shape, *p) == mine]
        if len(fitting) == 1:
            return [p for p in fitting if self.spaced(*p)]
        return [
            p
            for p in places
            if (self.spaced(*p) and self.in_turns(shape, mine, *p, facts))
            or (outermost and uneven(shape, mine, *p, self.gaps, facts))
        ]

    def spaced(self, team: int, count: int) -> bool:
        """Whether the steps that are left out are the other teams' trips."""
        due = self.length * poly(Const(team)), self.length * poly(Const(count - 1))
        left = self.gaps.begins, self.gaps.skips
        return all(congruent(a, b, self.gaps.modulus) for a, b in zip(left, due, strict=True))

    def in_turns(self, shape: Shape, mine: Shape, team: int, count: int, facts: Facts) -> bool:
        """Whether a program has as many trips as a team has of all trips that are like them,
        whatever the loops around either; also within each word of a queue that both load.
        """
        shape, mine = _ended_together(shape, mine)
        inner = mine
        for _ in range(self.depth):
            match inner:
                case (("loop", Const(0), Expr(), Const(1), (), tuple() as inner),):
                    pass
                case _:
                    return False
        trips, whole = times(mine, inner, facts), times(shape, inner, facts)
        own = any(v.name.startswith("%") for v in named(inner))
        if trips is None or whole is None or own:
            return False
        return facts.equal(trips - poly(ceildiv(maximum(whole.expr() - team, 0), count)))


def _ended_together(shape: Shape, mine: Shape) -> tuple[Shape, Shape]:
    """Two programs whose outermost loops the same condition ends, at the head of their trips, as
    loops of some number of trips, which is the same; others as they are.
    """
    whole, part = until(shape), until(mine)
    if whole is None or part is None or whole.front or part.front:
        return shape, mine
    if (whole.stop, whole.end) != (part.stop, part.end):
        return shape, mine
    trips = Var("trips in front of the end")
    counted, mine = ((("loop", ZERO, trips, ONE, (), u.behind),) for u in (whole, part))
    return counted, mine


def _gapped(agent: Agent, way: Walked, ring: Ring) -> list[_Gapped]:
    """The loops behind whose trips an agent may leave out steps of a ring: the one that it is known
    of, else each. None if there are several, or it begins late in another one than the outermost.
    """
    around, none = _around(agent.body, ring.full), Poly(())
    skips = {loop: p for (loop, array), p in way.skips.items() if array == ring.full}
    begins = {loop: p for (loop, array), p in way.begins.items() if array == ring.full}
    if len(skips) > 1 or not begins.keys() <= {*around[:1]}:
        return []
    late = begins.get(around[0], none) if around else none
    return [
        _Gapped(
            depth,
            way.lengths.get((loop, ring.full), none),
            Gaps(late, skips.get(loop, none), 2 * ring.stages),
        )
        for depth, loop in enumerate(around, 1)
        if skips.keys() <= {loop}
    ]


def _around(body: Body, array: str) -> list[str]:
    """The loops in each of which all waits at an array stand, the outermost first; the first of
    several that have waits.
    """
    loops = [s for s in walk(body) if isinstance(s, For) and _waits(s.body, array)]
    every = _waits(body, array)
    return [s.var.name for n, s in enumerate(loops) if not n or _waits(s.body, array) == every]


def _waits(body: Body, array: str) -> int:
    """The waits at an array that stand in a statement list."""
    return sum(isinstance(s, MBarrierWait) and s.bar.array == array for s in walk(body))


def _of_team(shape: Shape, team: int, count: int) -> Shape:
    """What is left of a shape for one team."""
    match shape:
        case (("loop", Const(0), stop, Const(1), (), inner),) if isinstance(inner, tuple):
            ends = [part[1] for part in inner if isinstance(part, tuple) and part[0] == "break"]
            words = {
                v: Var(v.name + Share("", team, count).suffix)
                for end in ends
                if isinstance(end, Expr)
                for v in free_vars(end)
                if v.name.startswith("%word") and v.name.endswith(" of %0")
            }
            if words:
                return renamed(shape, words)
            if isinstance(stop, Expr) and not ends and not uses(inner, Var("%0")):
                trips = ceildiv(maximum(stop - team, 0), count)
                return (("loop", Const(0), poly(trips).expr(), Const(1), (), inner),)
    return ("no loop to deal out",)
