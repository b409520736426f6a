"""Each rule of the verifier, broken three scopes deep in a kernel that is otherwise well-formed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from lowering.ground.expr import Const, Var
from lowering.kernel.nodes import For, FragColumns, Let
from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.kernel.visit import rewrite
from tests.lowering.kernel.samples import WELL_FORMED

ONE = "one: frag<f32, 64x64, async> = wgmma acc, A_s[k, 0, 0], A_s[k, 0, 0]"
TOTAL = "total: frag<f32, 64x64> = wgmma.wait sum, 0"
HALF = "half: frag<bf16, 64x64> = frag.cast total"
CAST = "stmatrix A_s[c, 0, 0], half"
STORE = "tma.store A[t, 0], A_s[c, 0, 0]"
LOAD = "tma.load A_s[m % 2, 0, 0], A[m, 0], bar=full[m % 2]"


def broken(old: str, new: str) -> list[str]:
    assert WELL_FORMED.count(old) == 1
    return verify(parse_kernel(WELL_FORMED.replace(old, new)))


def test_well_formed() -> None:
    assert verify(parse_kernel(WELL_FORMED)) == []


def test_a_grid_is_over_what_a_launch_knows() -> None:
    sms, n = Var("sms"), Var("n")
    kernel = parse_kernel(WELL_FORMED)
    assert verify(replace(kernel, grid=sms, grid_y=Const(2))) == []
    assert verify(replace(kernel, grid=n, grid_y=sms * n)) == [
        "the grid along x is over n, which is no parameter",
        "the grid along y is over n, which is no parameter",
        "the grid along y is over sms, which is no parameter",
    ]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (LOAD, "cta.sync", "cta.sync under elect, in: cta.sync"),
        (
            LOAD,
            f"{LOAD}, cache=evict_soon",
            f"no cache policy named evict_soon, in: {LOAD}, cache=evict_soon",
        ),
        (
            LOAD,
            "griddepcontrol.wait",
            "griddepcontrol.wait under elect, in: griddepcontrol.wait",
        ),
        (LOAD, "elect { }", "elect under elect, in: elect {"),
        (CAST, "bulk.commit", "bulk.commit outside elect, in: bulk.commit"),
        (LOAD, LOAD.replace("A[m, 0]", "A[c, 0]"),
         "c is used before it is defined, "
         "in: tma.load A_s[m % 2, 0, 0], A[c, 0], bar=full[m % 2]"),
        (LOAD, LOAD.replace("A_s", "B_s"),
         "no storage named B_s, in: tma.load B_s[m % 2, 0, 0], A[m, 0], bar=full[m % 2]"),
        (STORE, STORE.replace("A[", "B["),
         "no storage named B, in: tma.store B[t, 0], A_s[c, 0, 0]"),
        (LOAD, LOAD.replace("full", "empty"),
         "no storage named empty, in: tma.load A_s[m % 2, 0, 0], A[m, 0], bar=empty[m % 2]"),
        ("bar.sync turn[0]", "bar.sync order[0]",
         "no storage named order, in: bar.sync order[0]"),
        (LOAD, "prefetch.tensormap B", "no storage named B, in: prefetch.tensormap B"),
        (CAST, "release ring, c", "no ring named ring, in: release ring, c"),
        (CAST, "let t: i32 = c", "t is defined twice, in: let t: i32 = c"),
        ("for c in 0 .. 2 {", "for c in 0 .. 2 event wait wg {",
         "no event of a loop named wait, but load, transform, main_loop, epilogue, "
         "in: for c in 0 .. 2 event wait wg {"),
        ("for m in 0 .. M {", "for m in 0 .. M event load m + c {",
         "c is used before it is defined, in: for m in 0 .. M event load m + c {"),
        ("for c in 0 .. 2 {", "for wg in 0 .. 2 { let c: i32 = wg",
         "wg is defined twice, in: for wg in 0 .. 2 {"),
        (CAST, "let x: i32 = c < 1", "x is i32, its value pred, in: let x: i32 = c < 1"),
        (CAST, "let x: pred = c < 1 once",
         "x is pred, only i32 is computed once, in: let x: pred = c < 1 once"),
        (CAST, "stmatrix A_s[c, 0, 0], sum",
         "sum is in flight, in: stmatrix A_s[c, 0, 0], sum"),
        ("wgmma.commit", "two: frag<f32, 64x64, async> = wgmma acc, A_s[k, 0, 0], A_s[k, 0, 0]",
         "acc is consumed twice, "
         "in: two: frag<f32, 64x64, async> = wgmma acc, A_s[k, 0, 0], A_s[k, 0, 0]"),
        (ONE, f"{ONE}, col=40, cols=32",
         "columns 40 .. 72 of frag<f32, 64x64, async> are no part of it, "
         f"in: {ONE}, col=40, cols=32"),
        (ONE, f"{ONE}, col=4, cols=8",
         "columns 4 .. 12 of frag<f32, 64x64, async> are no part of it, in: "
         f"{ONE}, col=4, cols=8"),
        (ONE, f"{ONE}, cols=20", "N of a wgmma of bf16 by bf16 is a multiple of 8 from 8 to 256, "
         f"not 20, in: {ONE}, cols=20"),
        (CAST, "again: frag<f32, 64x64> = wgmma.wait sum, 0",
         "sum is consumed twice, in: again: frag<f32, 64x64> = wgmma.wait sum, 0"),
        (HALF, f"again: frag<f32, 64x64> = wgmma.wait zero, 0 {HALF}",
         "zero is consumed twice, in: again: frag<f32, 64x64> = wgmma.wait zero, 0"),
        ("yield one", "yield acc",
         "acc is consumed twice, in: for k in 0 .. 2 carry "
         "(acc: frag<f32, 64x64, async> = zero -> sum) {"),
        ("acc: frag<f32, 64x64, async> =", "acc: frag<f32, 64x64> =",
         "one is frag<f32, 64x64, async>, carried as frag<f32, 64x64>, in: for k in 0 .. 2 carry "
         "(acc: frag<f32, 64x64> = zero -> sum) {"),
    ],
)  # fmt: skip
def test_broken(old: str, new: str, problem: str) -> None:
    problems = broken(old, new)
    assert problem in problems
    assert all(", in: " in p for p in problems)


def test_both_branches_may_consume() -> None:
    """Only one of the two is executed."""
    two = f"if wg == 0 {{ {TOTAL} }} else {{ {TOTAL.replace('total', 'other')} }}"
    problems = broken(TOTAL, two)
    assert [p for p in problems if "consumed" in p] == []


@pytest.mark.parametrize("empty", [0, 1])
def test_what_a_branch_consumes_is_gone_behind_it(empty: int) -> None:
    """Either of them may have been executed."""
    behind = TOTAL.replace("total", "other")
    branches = [f"{{ {TOTAL} }}", "{ let none: i32 = 0 }"]
    one, two = branches[::-1] if empty == 0 else branches
    problems = broken(TOTAL, f"if wg == 0 {one} else {two}\n{behind}")
    assert f"sum is consumed twice, in: {behind}" in problems


def test_a_loop_may_not_consume_what_stands_before_it() -> None:
    """The second iteration would consume it again."""
    again = "again: frag<f32, 64x64> = wgmma.wait x, 0"
    new = (
        f"x: frag<f32, 64x64> = frag.fill 0.0\n{HALF}\nfor i in 0 .. 2 {{ if 0 < i {{ {again} }} }}"
    )
    assert broken(HALF, new) == [f"x is consumed in a loop that it stands before, in: {again}"]


def test_yields_that_do_not_match_the_carried_values() -> None:
    """Not expressible as text, which pairs them."""
    kernel = parse_kernel(WELL_FORMED)
    body = rewrite(
        kernel.body, lambda s: (replace(s, yields=()),) if isinstance(s, For) and s.yields else None
    )
    assert verify(replace(kernel, body=body)) == [
        "0 yields for 1 carried values, in: for k in 0 .. 2 carry "
        "(acc: frag<f32, 64x64, async> = zero -> sum) {"
    ]


@pytest.mark.parametrize("changed", [{"init": Const(0)}, {"var": Var("acc")}])
def test_a_fragment_that_begins_as_a_number(changed: dict[str, Any]) -> None:
    """Not expressible as text either."""
    kernel = parse_kernel(WELL_FORMED)

    def begun(stmt: object) -> tuple[For] | None:
        if not isinstance(stmt, For) or not stmt.carries:
            return None
        return (replace(stmt, carries=(replace(stmt.carries[0], **changed),)),)

    problems = verify(replace(kernel, body=rewrite(kernel.body, begun)))
    assert sum("of acc and what it begins as one is a fragment" in p for p in problems) == 1


def test_a_fragment_that_becomes_a_number() -> None:
    kernel = parse_kernel(WELL_FORMED)

    def yielded(stmt: object) -> tuple[For] | None:
        found = isinstance(stmt, For) and stmt.carries
        return (replace(stmt, yields=(Const(0),)),) if found else None  # type: ignore[type-var]

    assert [
        p.partition(", in")[0] for p in verify(replace(kernel, body=rewrite(kernel.body, yielded)))
    ] == ["of acc and what is yielded for it one is a fragment"]


def test_a_value_yielded_before_it_is_defined() -> None:
    kernel = parse_kernel(WELL_FORMED)

    def late(stmt: object) -> tuple[Let, ...] | None:
        return () if isinstance(stmt, Let) else None

    text = WELL_FORMED.replace("-> sum)", "-> sum, n: i32 = 0 -> last)").replace(
        "yield one", "let new: i32 = n + 1\nyield one, new"
    )
    kernel = parse_kernel(text)
    assert verify(kernel) == []
    assert verify(replace(kernel, body=rewrite(kernel.body, late))) == [
        "new is yielded before it is defined, in: for k in 0 .. 2 carry "
        "(acc: frag<f32, 64x64, async> = zero -> sum, n: i32 = 0 -> last) {"
    ]


def test_a_fragment_used_with_another_type() -> None:
    kernel = parse_kernel(WELL_FORMED)

    def other(stmt: object) -> tuple[FragColumns, ...] | None:
        if isinstance(stmt, FragColumns):
            kind = replace(stmt.value.type, cols=8)
            return (replace(stmt, value=replace(stmt.value, type=kind)),)
        return None

    part = "part: frag<f32, 64x32> = frag.columns total, c * 32"
    kernel = parse_kernel(WELL_FORMED.replace(CAST, part))
    assert verify(kernel) == []
    assert verify(replace(kernel, body=rewrite(kernel.body, other))) == [
        f"total is frag<f32, 64x64>, used as frag<f32, 64x8>, in: {part}"
    ]


def test_a_parameter_defined_again() -> None:
    kernel = parse_kernel(WELL_FORMED)
    again = replace(kernel, body=(Let(Var("M"), Var("M") + 1), *kernel.body))
    assert verify(again) == ["M is defined twice, in: let M: i32 = M + 1"]


TILE = """\
kernel tile threads 128 cluster 1 grid 1 {
  shared A: bf16[1][64x64] swizzle 128
  shared B: bf16[1][64x96] swizzle 64
  zero: frag<f32, 64x96> = frag.fill 0.0
  wgmma.fence
  acc: frag<f32, 64x96, async> = wgmma zero, A[0, 0, 0], B[0, 0, 0], trans_b=true
}
"""


def test_operands_of_wgmma_fit_their_buffers() -> None:
    assert verify(parse_kernel(TILE)) == []
    acc = "acc: frag<f32, 64x96, async> = wgmma zero, A[0, 0, 0], B[0, 0, 0]"
    assert verify(parse_kernel(TILE.replace(", trans_b=true", ""))) == [
        f"a tile of 96x16 does not fit into B of 64x96, in: {acc}"
    ]
    assert verify(parse_kernel(TILE.replace("A: bf16[1][64x64]", "A: bf16[1][32x64]"))) == [
        f"a tile of 64x16 does not fit into A of 32x64, in: {acc}, trans_b=true"
    ]


def test_mn_major_operands_have_16_bits() -> None:
    where = "acc: frag<f32, 64x96, async> = wgmma zero, A[0, 0, 0], B[0, 0, 0], trans_b=true"
    text = re.sub("(A|B): bf16", r"\1: e4m3", TILE)
    assert verify(parse_kernel(text)) == [
        f"B of e4m3 is MN-major, which wgmma takes of 16 bits only, in: {where}"
    ]
