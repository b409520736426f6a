"""Programs of warps whose statements are words, for claims about what stands in front of what.

``[`` and ``]`` stand around a loop of a number of trips that is not known, ``(`` and ``)`` around
one of two trips, ``?`` and ``]`` around what is done on a condition, ``one`` and ``]`` around what
one thread does, ``!`` leaves a loop.
"""

from __future__ import annotations

from collections.abc import Mapping

from lowering.ground.dtypes import DType
from lowering.ground.expr import Const, Var
from lowering.ground.types import FragmentType
from lowering.kernel.nodes import Body, Break, Elect, For, Frag, If, Stmt
from lowering.proof.agent import Agent
from lowering.proof.obligation import Obligation, Verdict

N = Var("n")
TYPE = FragmentType(DType.F32, 64, 8)
V, ACC, NEXT = (Frag(name, TYPE) for name in ("v", "acc", "next"))


def body(words: str, means: Mapping[str, Stmt]) -> Body:
    """The statements that words mean."""
    inside: list[list[Stmt]] = [[]]
    opened: list[str] = []
    for place, word in enumerate(words.split()):
        if word in ("[", "(", "?", "one"):
            opened.append(word)
            inside.append([])
        elif word in ("]", ")"):
            kind, within = opened.pop(), tuple(inside.pop())
            stop = Const(2) if kind == "(" else N
            around: dict[str, Stmt] = {
                "?": If(N < 3, within),
                "one": Elect(within),
            }
            inside[-1].append(around.get(kind, For(Var(f"i{place}"), Const(0), stop, within)))
        else:
            inside[-1].append(Break(N < 3) if word == "!" else means[word])
    (found,) = inside
    return tuple(found)


def agent(words: str, means: Mapping[str, Stmt], first: int = 0, rank: int = 0) -> Agent:
    """A warp that executes what words mean."""
    return Agent("r", None, (first,), rank, body(words, means))


def said(claim: Obligation) -> str:
    """Why a claim is open; empty if it is proved."""
    assert (claim.verdict is Verdict.PROVED) == (not claim.why)
    return claim.why
