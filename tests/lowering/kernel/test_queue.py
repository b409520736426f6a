"""What ``verify`` demands of queues, words and loops that end early."""

from __future__ import annotations

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.expr import ZERO, Const, Var
from lowering.kernel.kernel import Ring, SharedBuffer
from lowering.kernel.nodes import Break, LdWord, NextTile, SmemRef
from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.kernel.visit import Names, defined, expressions, used

KERNEL = """kernel k threads 128 cluster 1 grid 1 {{
  param n: i32
  shared tile: s32[2][1]
  shared pairs: f32[1][2]
  shared lines: s32[1][8x8] swizzle 32
  ring queue(tile) stages 2 teams 2 remote
  roles {{ role all warps 0 .. 4 {{ {0} }} }}
}}"""
LOOP = "for i in 0 .. n {{ x: i32 = next.tile queue, i, n break n <= x {} }}"
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
    body = LOOP.format("y: i32 = ld.word tile[x, 0] elect { st.word tile[0, 0], y, cta=1 }")
    assert problems(body + FRAGMENTS.format("break n <= t", "")) == []
    kernel = parse_kernel(KERNEL.format("elect { fetch.tiles queue, n }"))
    assert kernel.rings == (Ring("queue", ("tile",), 2, teams=2, remote=True),)
    assert kernel.shared[0] == SharedBuffer("tile", DType.S32, 2, (1,))
    assert verify(kernel) == []


def test_names() -> None:
    out, n = Var("x"), Var("n")
    load = LdWord(out, SmemRef("tile", n, (ZERO,)))
    for stmt, found in ((NextTile(out, "queue", ZERO, n), [ZERO, n]), (load, [n, ZERO])):
        assert (defined(stmt), used(stmt), expressions(stmt)) == ({"x"}, {"n"}, found)
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
        ("x: i32 = next.tile other, 0, n",
         "no ring named other, in: x: i32 = next.tile other, 0, n"),
        ("elect { fetch.tiles other, 0 }", "no ring named other, in: fetch.tiles other, 0"),
        ("elect { x: i32 = next.tile queue, 0, n }",
         "next.tile under elect, in: x: i32 = next.tile queue, 0, n"),
        ("st.word tile[0, 0], 1", "st.word outside elect, in: st.word tile[0, 0], 1"),
        ("x: i32 = ld.word words[0, 0]",
         "no storage named words, in: x: i32 = ld.word words[0, 0]"),
        ("x: i32 = ld.word pairs[0, 0]",
         "ld.word takes elements of s32, pairs holds f32, in: x: i32 = ld.word pairs[0, 0]"),
        ("elect { st.word lines[0, 0, 0], 1 }",
         "st.word takes buffers without a swizzle, lines has 32, in: st.word lines[0, 0, 0], 1"),
    ],
)  # fmt: skip
def test_problems(body: str, problem: str) -> None:
    assert problems(body) == [problem]
