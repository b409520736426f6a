"""The shape of a program: what is left of it as waits at an mbarrier see it, and what names are."""

from __future__ import annotations

from functools import partial

import pytest

from lowering.ground.expr import ONE, ZERO, Const, Var
from lowering.ground.poly import Poly, poly
from lowering.kernel.text import parse_kernel
from lowering.kernel.traits import Memory
from lowering.proof.agent import agents
from lowering.proof.linear import Facts
from lowering.proof.rings import Ring
from lowering.proof.same import _wait
from lowering.proof.shape import Shaper, Share, named, renamed, share_of, text, uses
from lowering.proof.state import Walked
from lowering.proof.steps import Steps

KERNEL = """
kernel k threads 32 cluster 1 grid 1 {{
  param n: i32
  param m: i32
  global G: s32[n, 2]
  shared w: s32[2][1x4] at 0
  shared v: s32[2][1x1] at 32
  mbarrier f[2] arrivals 1 at 64
  mbarrier e[2] arrivals 1 at 128
  counter c[1]
{body}
}}
"""
RING = Ring("f", "e", 2, frozenset("w"), False, False, Memory.SHARED, frozenset())
WAIT = "mbarrier.wait f[0], 0"
EACH = {("i", "f"): poly(ONE)}


def shape(body: str, way: Walked | None = None) -> str:
    """That of a program, after a walk of which something came."""
    (agent,) = agents(parse_kernel(KERNEL.format(body=body)))
    steps = Steps.of(agent.body, (2,), Facts(natural=frozenset("nm")))
    event, known = partial(_wait, "f"), frozenset("nm")
    return text(Shaper(agent, steps, event, way or Walked(), (RING,), known).whole())


def loop(inner: str, head: str = "i in 0 .. n") -> str:
    return f"for {head} {{\n{inner}\n}}"


SHAPES = {
    "": "()",
    "let x: i32 = n": "()",
    WAIT: "(wait)",
    "mbarrier.wait e[0], 0": "()",
    f"{WAIT}\n{WAIT}": "(wait wait)",
    f"elect {{ {WAIT} }}": "(wait)",
    loop(WAIT): "((loop 0 n 1 () (wait)))",
    loop(WAIT, "i in 1 .. n * 2 step 3"): "((loop 1 n * 2 3 () (wait)))",
    loop("let x: i32 = i"): "()",
    loop(loop(WAIT, "j in 0 .. i")): "((loop 0 n 1 () ((loop 0 %0 1 () (wait)))))",
    loop(WAIT) + loop(WAIT, "j in 0 .. 2"): "((loop 0 n 1 () (wait)) (loop 0 2 1 () (wait)))",
    loop(f"if i < m {{ {WAIT} }}"): "((loop 0 n 1 () ((if %0 < m (wait) ()))))",
    loop(f"if i < m {{ }} else {{ {WAIT} }}"): "((loop 0 n 1 () ((if %0 < m () (wait)))))",
    loop(f"if i < m {{ {WAIT} }} else {{ {WAIT} }}"): "((loop 0 n 1 () (wait)))",
    loop(f"{WAIT} if i < m {{ let x: i32 = i }}"): "((loop 0 n 1 () (wait)))",
    f"let x: i32 = 1 if x < 2 {{ {WAIT} }} else {{ {WAIT}\n{WAIT} }}": "(wait)",
    f"let x: i32 = 2 if x < 2 {{ {WAIT} }} else {{ {WAIT}\n{WAIT} }}": "(wait wait)",
    loop(f"break m < i\n{WAIT}"): "((loop 0 n 1 () ((break m < %0) wait)))",
    loop(f"{WAIT}\nbreak m < i"): "((loop 0 n 1 () (wait (break m < %0))))",
    loop("break m < i") + WAIT: "(wait)",
    loop(f"let x: i32 = i * 2 break m < x\n{WAIT}"): "((loop 0 n 1 () ((break m < %0 * 2) wait)))",
    loop(f"break m < a\n{WAIT}\nyield a + i", "i in 0 .. n carry (a: i32 = m -> b)"):
        "((loop 0 n 1 ((m %0 + %0.0)) ((break m < %0.0) wait)))",
    loop(f"break m < c\n{WAIT}\nyield a + i, c * 2",
         "i in 0 .. n carry (a: i32 = m -> b, c: i32 = 1 -> d)"):
        "((loop 0 n 1 ((1 %0.0 * 2)) ((break m < %0.0) wait)))",
    loop(f"{WAIT}\nyield a + i", "i in 0 .. n carry (a: i32 = m -> b)"):
        "((loop 0 n 1 () (wait)))",
    f"x: i32 = ld.global.scalar G[n, 1]\nif x < 2 {{ {WAIT} }}":
        "((if %memory G[0, n, 1] < 2 (wait) ()))",
    loop(f"x: i32 = ld.global.scalar G[i, 0]\nbreak x < 2\n{WAIT}"):
        "((loop 0 n 1 () ((break %memory G[0, %0, 0] < 2) wait)))",
    f"x: i32 = atom add, c[0], 1\nif x < 2 {{ {WAIT} }}":
        "((if x of role all, warp 0 < 2 (wait) ()))",
}  # fmt: skip


@pytest.mark.parametrize("body", SHAPES)
def test_what_is_left_of_a_program(body: str) -> None:
    assert shape(body) == SHAPES[body]


WORD = f"{WAIT}\nx: i32 = ld.word w[0, 2]\nbreak m <= x"


@pytest.mark.parametrize(
    ("way", "name"),
    [
        (Walked(), "%word w[2] of %0 of role all, warp 0"),
        (Walked(lengths={("i", "f"): poly(Const(2))}), "%word w[2] of %0 of role all, warp 0"),
        (Walked(lengths={("j", "f"): poly(ONE)}), "%word w[2] of %0 of role all, warp 0"),
        (Walked(lengths={("i", "e"): poly(ONE)}), "%word w[2] of %0 of role all, warp 0"),
        (Walked(lengths=EACH), "%word w[2] of %0"),
        (Walked(lengths=EACH, skips={("i", "f"): poly(Const(2))}), "%word w[2] of %0 as 0 of 3"),
        (Walked(lengths=EACH, skips={("i", "e"): poly(Const(2))}), "%word w[2] of %0"),
        (
            Walked(lengths=EACH, skips={("i", "f"): poly(ONE)}, begins={("i", "f"): poly(ONE)}),
            "%word w[2] of %0 as 1 of 2",
        ),
        (Walked(lengths=EACH, begins={("i", "f"): Poly(())}), "%word w[2] of %0"),
        (
            Walked(lengths=EACH, skips={("i", "f"): poly(Var("n"))}),
            "%word w[2] of %0 of role all, warp 0",
        ),
        (
            Walked(lengths=EACH, begins={("i", "f"): poly(Var("n"))}),
            "%word w[2] of %0 of role all, warp 0",
        ),
    ],
)
def test_words_of_a_step(way: Walked, name: str) -> None:
    """All of a ring, every so many-th where a trip leaves out steps; where it is not known how
    many, those of this agent alone.
    """
    assert shape(loop(WORD), way) == f"((loop 0 n 1 () (wait (break m <= {name}))))"


def test_words_behind_an_inner_loop() -> None:
    """Are of the trip that they are loaded in."""
    inner, way = loop(WAIT, "j in 0 .. m"), Walked(lengths=EACH | {("j", "f"): poly(Const(2))})
    assert shape(loop(inner + WORD), way) == (
        "((loop 0 n 1 () ((loop 0 m 1 () (wait)) wait (break m <= %word w[2] of %0))))"
    )


def test_words_of_no_ring() -> None:
    """Whatever their steps are, all know which those are of a trip."""
    said = "((loop 0 n 1 () (wait (break m <= %word v[0] of %0))))"
    assert shape(loop(WORD.replace("w[0, 2]", "v[0, 0]"))) == said
    assert shape(f"x: i32 = ld.word v[0, 0]\nif x < 1 {{ {WAIT} }}") == (
        "((if %word v[0] of %-1 < 1 (wait) ()))")  # fmt: skip


STORED = f"x: i32 = atom add, c[0], 1\nst.word w[0, 1], x\nif x == 2 {{ {WAIT} }}"


@pytest.mark.parametrize(
    ("body", "cond"),
    [
        (STORED, "%word w[1] of %0 == 2"),
        (STORED.replace("st.word w[0, 1], x", "elect { st.word w[0, 1], x }"),
         "%word w[1] of %0 == 2"),
        (STORED.replace("st.word w[0, 1], x", "if n < 1 { st.word w[0, 1], x }"),
         "x of role all, warp 0 == 2"),
        (STORED.replace("st.word w[0, 1], x", "for j in 0 .. n { st.word w[0, 1], x }"),
         "%word w[1] of %1 == 2"),
        (STORED.replace("st.word w[0, 1], x", "for j in 0 .. 2 unroll { st.word w[0, 1], x }"),
         "%word w[1] of %0 == 2"),
    ],
)  # fmt: skip
def test_what_is_stored_as_a_word(body: str, cond: str) -> None:
    """Has the name that it has for those who load it, where each trip stores it."""
    assert shape(loop(body)) == f"((loop 0 n 1 () ((if {cond} (wait) ()))))"


def test_which_words_a_name_stands_for() -> None:
    assert share_of(Var("%word q[0] of %0")) == Share("q", 0, 1)
    assert share_of(Var("%word q[0, 1] of %0 as 2 of 3")) == Share("q", 2, 3)
    for other in ("%word q[0] of %1", "word q[0] of %0", "%word q[0] of %0 of role r", "q"):
        assert share_of(Var(other)) is None
    assert [Share("q", 1, n).suffix for n in (1, 2)] == ["", " as 1 of 2"]


def test_names_in_shapes() -> None:
    n, m, k = Var("n"), Var("m"), Var("k")
    inner = ("if", n < 2, ("wait",), ())
    whole = (("loop", ZERO, m + 1, ONE, ((n, m),), (inner,)), "wait")
    assert named(whole) == {n, m} and named("wait") == set()
    assert renamed(whole, {n: k}) == (
        ("loop", ZERO, m + 1, ONE, ((k, m),), (("if", k < 2, ("wait",), ()),)), "wait",
    )  # fmt: skip
    assert uses(whole, n) and uses(whole, m) and not uses(whole, k) and not uses("n", n)
    assert text(whole) == "((loop 0 m + 1 1 ((n m)) ((if n < 2 (wait) ()))) wait)"
