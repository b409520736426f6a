"""Words that a buffer hands over, and which of them are ends: of programs that store them."""

from __future__ import annotations

import pytest

from lowering.ground.expr import ZERO, Const, Expr, Var, minimum
from lowering.kernel.nodes import Body, Break, For, If, SmemRef, Stmt, StWord
from lowering.proof.agent import Agent
from lowering.proof.linear import Facts
from lowering.proof.steps import Steps
from lowering.proof.words import ends_at

N, T, Y = Var("n"), Var("t"), Var("ticket")
FACTS = Facts(natural=frozenset({"n"}))


def word(value: Expr) -> Stmt:
    return StWord(SmemRef("q", ZERO, (ZERO,)), value, None)


def loop(*body: Stmt) -> Stmt:
    return For(T, Const(0), N, body)


TILES, TICKETS = loop(word(T)), loop(Break(N <= T), word(minimum(Y, N)))

PROGRAMS: dict[str, tuple[Body, bool, bool]] = {
    "tiles, then an end for each of two": ((TILES, word(N), word(N + 1)), True, True),
    "two ends are alike": ((TILES, word(N), word(N)), True, False),
    "the first end is larger": ((TILES, word(N + 1), word(N + 2)), True, False),
    "the second end is a tile": ((TILES, word(N), word(N - 1)), False, False),
    "the first end is a tile": ((TILES, word(N - 1), word(N + 1)), False, False),
    "a tile is an end": ((loop(word(T + 1)), word(N)), False, False),
    "tickets up to an end": ((TICKETS,), True, True),
    "tickets up to the second": ((loop(Break(N <= T), word(minimum(Y, N + 1))),), True, False),
    "an end in the last trip": ((loop(If(T.eq(N - 1), (word(N + 1),))),), True, True),
    "the same end in the last trip": ((loop(If(T.eq(N - 1), (word(N),))),), True, False),
    "a tile in the last trip": ((loop(If(T.eq(N - 1), (word(N - 1),))),), False, False),
    "nothing": ((), True, True),
}
"""What is stored; whether all behind tiles are ends, and whether the first is the bound alone."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_which_words_are_ends(name: str) -> None:
    body, ends, exactly = PROGRAMS[name]
    agent = Agent("load", None, (0,), 0, body)
    steps = {agent: Steps.of(body, (2,), FACTS)}
    assert ends_at("q", N, steps, FACTS) is ends
    assert ends_at("q", N, steps, FACTS, exactly=True) is exactly
    assert ends_at("another", N, steps, FACTS, exactly=True)
