"""What ``verify`` demands of tile queues, words and loops that end early."""

from __future__ import annotations

import pytest

from lowering.ground.expr import Const, Var
from lowering.kernel.kernel import TileQueue, WordArray
from lowering.kernel.nodes import Break, LdWord, NextTile, WordRef
from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.kernel.visit import Names, defined, expressions, used

KERNEL = """kernel k threads 128 cluster 1 grid 1 {{
  param n: i32
  word tile[2]
  tile_queue queue stages 2 groups 2 consumers 1
  roles {{ role all warps 0 .. 4 {{ {0} }} }}
}}"""
LOOP = "for i in 0 .. n {{ x: i32 = next.tile queue, i break n <= x {} }}"
FRAGMENTS = """
zero: frag<f32, 64x8> = frag.fill 0.0
for t in 0 .. n carry (acc: frag<f32, 64x8, async> = zero -> last) {{
  {0}
  done: frag<f32, 64x8, async> = wgmma.wait acc, 0
  {1}
  yield done
}}
"""


def problems(body: str) -> list[str]:
    return verify(parse_kernel(KERNEL.format(body)))


def test_well_formed() -> None:
    body = LOOP.format("y: i32 = ld.word tile[x] elect { st.word tile[0], y, cta=1 }")
    assert problems(body + FRAGMENTS.format("break n <= t", "")) == []
    kernel = parse_kernel(KERNEL.format("elect { fetch.tiles queue, n }"))
    assert kernel.tile_queues == (TileQueue("queue", 2, 2, 1),)
    assert kernel.words == (WordArray("tile", 2),)
    assert verify(kernel) == []


def test_names() -> None:
    out, n = Var("x"), Var("n")
    for stmt in (NextTile(out, "queue", n), LdWord(out, WordRef("tile", n))):
        assert (defined(stmt), used(stmt), expressions(stmt)) == (["x"], {"n"}, [n])
    assert used(Break(n <= Const(1))) == {"n"}
    names = Names(parse_kernel(KERNEL.format("")))
    assert (names.new("tile"), names.new("queue")) == ("tile2", "queue2")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("break n <= 0", "break outside the body of a loop, in: break n <= 0"),
        ("for t in 0 .. n { if n == 1 { break n <= t } }",
         "break outside the body of a loop, in: break n <= t"),
        (FRAGMENTS.format("", "break n <= t"),
         "acc is consumed before the loop may end, in: break n <= t"),
        ("x: i32 = next.tile other, 0",
         "no tile queue named other, in: x: i32 = next.tile other, 0"),
        ("elect { fetch.tiles other, 0 }", "no tile queue named other, in: fetch.tiles other, 0"),
        ("elect { x: i32 = next.tile queue, 0 }",
         "next.tile under elect, in: x: i32 = next.tile queue, 0"),
        ("st.word tile[0], 1", "st.word outside elect, in: st.word tile[0], 1"),
        ("x: i32 = ld.word words[0]", "no storage named words, in: x: i32 = ld.word words[0]"),
    ],
)  # fmt: skip
def test_problems(body: str, problem: str) -> None:
    assert problems(body) == [problem]
