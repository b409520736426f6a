"""Tickets that any cluster may draw: what depends on which one does, and on how many it drew."""

from __future__ import annotations

import pytest

from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.agent import agents
from lowering.proof.clusters import clusters, draws
from lowering.proof.obligation import Verdict
from lowering.proof.prove import prove
from tests.lowering.proof.by_words import said
from tests.lowering.proof.test_prove import kernel_of
from tests.mutants.families import FAMILIES

DRAWING = """
kernel drawn threads 128 cluster 4 grid N {{
  param N: i32
  counter next[1]
  trace stamps[8](tile)
  let some: i32 = {some}
  on %warp 0 {{
    elect {{
      ticket: i32 = atom inc, next[0], N
    }}
  }}
  {does}
}}
"""
IF = "if some < 1 { cta.sync }"


def claimed(some: str, does: str = IF, grid: str = "grid N") -> str:
    text = DRAWING.format(some=some, does=does).replace("grid N", grid)
    kernel = parse_kernel(text)
    (claim,) = clusters(kernel, agents(kernel))
    assert claim.name == "clusters are alike"
    assert claim.verdict is (Verdict.UNPROVED if claim.why else Verdict.PROVED)
    return said(claim)


@pytest.mark.parametrize(
    "some",
    [
        "%ctaid.x % 4", "%ctaid.x % 2", "%ctaid.x // 2 % 2", "(%ctaid.x + 1) % 4",
        "%ctaid.x * 3 % 12", "3 * %ctaid.x % 6", "(2 + %ctaid.x) // 2 % 2", "%cluster.ctarank",
        "%nctaid.x % 3", "%ctaid.y", "%ctaid.z", "N // 5", "%ctaid.x % 4 * N",
    ],
)  # fmt: skip
def test_the_place_in_the_cluster_alone(some: str) -> None:
    assert claimed(some) == ""


@pytest.mark.parametrize(
    "some",
    [
        "%ctaid.x", "%ctaid.x // 4", "%ctaid.x % 8", "%ctaid.x % 3", "%ctaid.x // 3 % 4",
        "(%ctaid.x - 1) % 4", "%ctaid.x % N", "N % %ctaid.x", "4 // %ctaid.x", "%smid",
        "min(%ctaid.x, 3)", "%ctaid.x // 2 + %ctaid.x % 2", "select(%ctaid.x < 4, 0, 1)",
        "(%ctaid.x + N) % 4", "%ctaid.x * 0 + %ctaid.x * N", "min(%ctaid.x, 9) % 4",
    ],
)  # fmt: skip
def test_which_cluster_it_is(some: str) -> None:
    """A name alone decides nothing; a condition, a bound or what a loop carries does."""
    assert claimed(some).startswith("if depends on which cluster draws, by some")
    assert claimed(some, "") == ""


ALIKE = "let more: i32 = some + 1"
LOOP = "for i in {} .. {} carry (x: i32 = {} -> y) {{ cta.sync yield {} }}"


@pytest.mark.parametrize(
    ("does", "why"),
    [
        (f"{ALIKE} if more < 1 {{ cta.sync }}", "if depends on which cluster draws, by more < 1"),
        (f"{ALIKE} if more % 4 < 1 {{ cta.sync }}", ""),
        (LOOP.format("some", 9, 0, 0), "for depends on which cluster draws, by some"),
        (LOOP.format(0, "some", 0, 0), "for depends on which cluster draws, by some"),
        (LOOP.format(0, 9, "some", 0), "for depends on which cluster draws, by some"),
        (LOOP.format(0, 9, 0, "some"), "for depends on which cluster draws, by some"),
        (LOOP.format(0, 9, 0, "x + 1"), ""),
        ("on %warp 0 { stamp stamps, tile, begin, some }", ""),
    ],
)
def test_what_decides(does: str, why: str) -> None:
    """Names of names, too; a stamp only notes what there was."""
    assert claimed("%ctaid.x", does) == why


def test_rows_and_parts_of_k_are_clusters_of_their_own() -> None:
    assert claimed("%ctaid.y", grid="grid N, N").startswith("if depends")
    assert claimed("%ctaid.z", grid="splits 2 grid N").startswith("if depends")
    assert claimed("%ctaid.x % 4", grid="splits 2 grid N, N") == ""


def test_of_others_nothing_is_claimed() -> None:
    """Numbers that CTAs take as they start are no tickets: each takes one."""
    for name, drawn in (("tile_per_cta", False), ("split_2", False), ("dynamic", True)):
        kernel = kernel_of(name)
        assert draws(kernel) is drawn
        assert bool([*clusters(kernel, agents(kernel))]) is drawn


STORE = "tma.store T5[Mo * 64 + group * 64{},"
ROWS = STORE.format("")
MMA = "tcgen05.mma T4[stage_tile, 0, 0], T6[stage_k, 0, 0], T7[stage_k, 0, 0], 64, "
MMA += "accumulate=0 < k\n"
HERE = (("mulhi(dealt, ", "mulhi(tile, "), ("dealt - quotient", "tile - quotient"))
THERE = (("mulhi(dealt2, ", "mulhi(tile2, "), ("dealt2 - quotient2", "tile2 - quotient2"))
WRONG: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "rows by the CTA": ("dynamic_1_group", ((ROWS, STORE.format(" + %ctaid.x * 64")),)),
    "rows of one CTA": (
        "dynamic_1_group", ((ROWS, STORE.format(" + select(%ctaid.x == 1, 64, 0)")),),
    ),
    "tiles by trips": ("dynamic_1_group", (*HERE, *THERE)),
    "tiles by trips where they are stored": ("dynamic_1_group", HERE),
    "tiles by trips where they are loaded": ("dynamic_1_group", THERE),
    "lanes by the CTA": (
        "tensor_memory_queue",
        (("T5[Mo2 * 128 + group2 * 128,", "T5[Mo2 * 128 + group2 * 128 + %ctaid.x * 128,"),),
    ),
    "no remainder where pairs store": (
        "pairs_queue", (("let ctaM2: i32 = %ctaid.x % 2", "let ctaM2: i32 = %ctaid.x"),),
    ),
    "no remainder where pairs load": (
        "pairs_queue", (("let ctaM3: i32 = %ctaid.x % 2", "let ctaM3: i32 = %ctaid.x"),),
    ),
    "products of one pair": (
        "pairs_queue", ((MMA, f"if %ctaid.x == 0 {{\n{MMA}}}\n"),),
    ),
}  # fmt: skip


def text_of(name: str) -> str:
    """The final kernel of a schedule, or of a family with tensor memory."""
    for family in ("tensor memory", "pairs"):
        if name in FAMILIES[family]:
            return print_kernel(FAMILIES[family][name]().kernel)
    return print_kernel(kernel_of(name))


@pytest.mark.sampled
@pytest.mark.parametrize("name", WRONG)
def test_clusters_that_do_otherwise(name: str) -> None:
    """Results are refuted, or what they are made of, whatever else is open."""
    made, edits = WRONG[name]
    text = text_of(made)
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    found = prove(parse_kernel(text)).open
    refuted = {o.name for o in found if o.verdict is Verdict.REFUTED}
    assert refuted & {"results", "operands", "circles of waits"}, [*map(str, found)]
    assert any(o.name == "clusters are alike" for o in found) is ("%ctaid.x" in str(edits))
