"""Buffers through which warps hand each other values: programs of two roles, right and wrong.

Words stand for statements of a role: ``w`` its warps store their rows, ``o`` those of the other
role, ``r`` they load, ``p`` from the other CTA, ``n`` from their own, ``q`` they store into the
other one, ``b`` all meet, ``d`` at another barrier, ``c`` all of the CTA, ``C`` all of its cluster,
``h`` half of them do, ``s`` and ``S`` are syncs at the barriers of turns, ``a`` and ``A`` arrivals
there, ``[`` and ``]`` stand around a loop, ``?`` and ``]`` around what is done on a condition, and
``!`` is a way out of one.
"""

from __future__ import annotations

import pytest

from lowering.kernel.text import parse_kernel
from lowering.proof.exchange import NAME
from lowering.proof.obligation import Verdict
from lowering.proof.prove import prove

WORDS = {
    "w": "st.shared S[0, {row}, 0], v{role}",
    "o": "st.shared S[0, {other}, 0], v{role}",
    "r": "x{role}_{n}: frag<f32, 64x8> = ld.shared S[0, {row}, 0]",
    "p": "z{role}_{n}: frag<f32, 64x8> = ld.shared S[0, {row}, 0], cta=%cluster.ctarank ^ 1",
    "n": "z{role}_{n}: frag<f32, 64x8> = ld.shared S[0, {row}, 0], cta=%cluster.ctarank",
    "q": "st.shared S[0, {row}, 0], v{role}, cta=%cluster.ctarank ^ 1",
    "m": "y{role}_{n}: frag<f32, 64x8, async> = wgmma v{role}, S[0, {row}, 0], S[0, 0, 0]",
    "b": "bar.sync all[0]",
    "c": "cta.sync",
    "C": "cluster.sync",
    "h": "bar.sync half[0]",
    "d": "bar.sync all[1]",
    "s": "bar.sync turns[0]",
    "S": "bar.sync turns[1]",
    "a": "bar.arrive turns[0]",
    "A": "bar.arrive turns[1]",
    "[": "for i{role}_{n} in 0 .. 2 {{",
    "?": "if 3 < n {{",
    "!": "break 3 < n",
    "]": "}}",
}
STORE_LOAD = "warps store while others load"
BETWEEN = "ld.shared: warps load and store without a meeting between"
BEHIND = "st.shared: warps store and load without a meeting between"
SAME_ROWS = "warpgroups 0 and 1 store to the same rows"
WAYS = "warps come to S[0] in several ways"
CONDITION = "a condition that others have not: "


def said(first: str, second: str, cluster: int = 1) -> list[tuple[Verdict, str]]:
    """What is said of programs of two roles, of a warpgroup each."""
    bodies = [
        "\n".join(
            WORDS[w].format(row=64 * role, other=64 * (1 - role), role=role, n=n)
            for n, w in enumerate(words.split())
        )
        for role, words in enumerate((first, second))
    ]
    handed = {"s", "S", "a", "A"}.intersection(f"{first} {second}".split())
    turns = "named_barrier turns[2] id 4 threads 256" if handed else ""
    kernel = parse_kernel(
        f"""
        kernel k threads 256 cluster {cluster} grid {cluster} {{
          param n: i32
          shared S: f32[1][128x8] at 0
          named_barrier all[2] id 1 threads 256
          named_barrier half[1] id 3 threads 128
          {turns}
          roles {{
            role a warps 0 .. 4 {{
              v0: frag<f32, 64x8> = frag.fill 0.0
              {bodies[0]}
            }}
            role b warps 4 .. 8 {{
              v1: frag<f32, 64x8> = frag.fill 1.0
              {bodies[1]}
            }}
          }}
        }}
        """
    )
    found = prove(kernel).obligations
    return [(o.verdict, o.why) for o in found if o.name == NAME]


@pytest.mark.parametrize(
    ("first", "second", "verdict", "why"),
    [
        ("w b r", "w b r", Verdict.PROVED, ""),
        ("w c r", "w c r", Verdict.PROVED, ""),
        ("w C r", "w C r", Verdict.PROVED, ""),
        ("w c r", "w b r", Verdict.UNPROVED, WAYS),
        ("w d r", "w d r", Verdict.PROVED, ""),
        ("w b d r", "w b d r", Verdict.PROVED, ""),
        ("w b d r", "w d b r", Verdict.UNPROVED, WAYS),
        ("w A s r", "w a S r", Verdict.UNPROVED, f"{BETWEEN}, but for turns"),
        ("s r A", "w a S", Verdict.UNPROVED, f"{STORE_LOAD}, but for turns"),
        ("[ s A ] s r A", "a [ S a ] w S", Verdict.UNPROVED, f"{STORE_LOAD}, but for turns"),
        ("w b r b w", "w b r b w", Verdict.PROVED, ""),
        ("w b r b w", "w b r b o", Verdict.REFUTED, SAME_ROWS),
        ("[ w b r b ]", "[ w b r b ]", Verdict.PROVED, ""),
        ("w b", "b r", Verdict.PROVED, ""),
        ("w r", "w b r", Verdict.UNPROVED, WAYS),
        ("w b r", "b w", Verdict.REFUTED, STORE_LOAD),
        ("w b r w", "w b r", Verdict.REFUTED, STORE_LOAD),
        ("w b r b", "w b r", Verdict.UNPROVED, WAYS),
        ("w h r", "w h r", Verdict.REFUTED, BETWEEN),
        ("w b r w", "w b r w", Verdict.REFUTED, BEHIND),
        ("[ w b r b ]", "w b r b", Verdict.UNPROVED, WAYS),
        ("[ w b r b ]", "[ b r b ]", Verdict.PROVED, ""),
        ("b [ w b r b ]", "b [ b r b ] r", Verdict.REFUTED, STORE_LOAD),
        ("[ w b b r ]", "[ b r b r ]", Verdict.REFUTED, STORE_LOAD),
        ("[ w ] b r", "b [ r ]", Verdict.UNPROVED, WAYS),
        ("[ w ] b [ r ]", "[ w ] b [ r ] r", Verdict.PROVED, ""),
        ("[ [ w b r b ] ]", "[ [ b r b ] ]", Verdict.PROVED, ""),
        ("[ w ! b r b ] b r", "[ ! b r b ] b r", Verdict.PROVED, ""),
        ("[ w ! b r b ] b r", "[ ! b r b ] r b", Verdict.REFUTED, STORE_LOAD),
        ("[ w ! b r b ] b r", "[ b r b ] b r", Verdict.UNPROVED, WAYS),
        ("[ w b r b ]", "[ b w b ]", Verdict.REFUTED, STORE_LOAD),
        ("[ w b r b w b r b ]", "[ b r b w b r b ]", Verdict.PROVED, ""),
        ("? w ] b r", "b r", Verdict.UNPROVED, CONDITION),
        ("w b r", "o b r", Verdict.REFUTED, SAME_ROWS),
        ("w b r m", "w b r", Verdict.UNPROVED, "wgmma by another proxy"),
    ],
)
def test_turns(first: str, second: str, verdict: Verdict, why: str) -> None:
    ((found, text),) = said(first, second)
    assert found is verdict and text.startswith(why) and bool(text) == bool(why)


def test_what_nobody_loads_is_no_exchange() -> None:
    assert said("w b w", "w b w") == said("", "") == []


def test_loads_from_another_cta() -> None:
    """Who stores there is not known, nor whether it has."""
    why = "ld.shared from CTA 1"
    assert said("w C n", "w C n", 2) == [(Verdict.PROVED, "")]
    assert said("w C p", "w C r", 2) == [(Verdict.UNPROVED, why)]
    assert said("w C r", "w C p", 2) == [(Verdict.UNPROVED, why)]
    assert said("q C r", "w C r", 2) == [(Verdict.UNPROVED, "st.shared to CTA 1")]
