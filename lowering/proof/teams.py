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

from lowering.ground.expr import Const, Expr, Var, ceildiv, free_vars, maximum
from lowering.ground.poly import Poly, poly
from lowering.kernel.control import For
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
    odd: dict[tuple[Shape, Gaps], list[tuple[int, int]]] = {}
    for agent, mine in parts.items():
        places = [(t, n) for n in range(2, TEAMS + 1) for t in range(n)]
        way, key = ways[agent], (_outer(agent, ring.full), ring.full)
        if any(k != key and k[1] == ring.full for k in (*way.skips, *way.begins)):
            return Dealt({}, f"{agent} leaves out steps in more than one loop")
        zero = Poly(())
        gaps = Gaps(way.begins.get(key, zero), way.skips.get(key, zero), 2 * ring.stages)
        fitting = [p for p in places if _of_team(shape, *p) == mine]
        if len(fitting) == 1:
            why = _spaced(agent, way.lengths.get(key, zero), gaps, *fitting[0])
            if why:
                return Dealt({}, why)
        else:
            if (mine, gaps) not in odd:
                length = way.lengths.get(key, zero)
                odd[mine, gaps] = [
                    p
                    for p in places
                    if (not _spaced(agent, length, gaps, *p) and _in_turns(shape, mine, *p, facts))
                    or uneven(shape, mine, *p, gaps, facts)
                ]
            fitting = odd[mine, gaps]
        if len(fitting) != 1:
            return Dealt({}, f"{agent}: {text(mine)} is no team's part of {text(shape)}")
        (found[agent],) = fitting
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


def _spaced(agent: Agent, length: Poly, gaps: Gaps, team: int, count: int) -> str:
    """Why the steps that a team leaves out are not the other teams' trips of ``length``; empty if
    they are.
    """
    due = length * poly(Const(team)), length * poly(Const(count - 1))
    left = gaps.begins, gaps.skips
    if all(congruent(a, b, gaps.modulus) for a, b in zip(left, due, strict=True)):
        return ""
    return f"{agent} begins {left[0].expr()} steps late and skips {left[1].expr()}"


def _in_turns(shape: Shape, mine: Shape, team: int, count: int, facts: Facts) -> bool:
    """Whether a program has as many trips as a team has of all trips that are like them, whatever
    the loops around those.
    """
    match mine:
        case (("loop", Const(0), Expr() as trips, Const(1), (), tuple() as inner),):
            whole = times(shape, inner, facts)
            if whole is None or any(v.name.startswith("%") for v in named(inner)):
                return False
            due = ceildiv(maximum(whole.expr() - team, 0), count)
            return facts.equal(poly(trips) - poly(due))
    return False


def _outer(agent: Agent, array: str) -> str:
    """The outermost loop in which an agent waits at an array."""
    for stmt in walk(agent.body):
        if isinstance(stmt, For) and any(
            isinstance(s, MBarrierWait) and s.bar.array == array for s in walk(stmt.body)
        ):
            return stmt.var.name
    return ""


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
