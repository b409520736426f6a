"""Reductions of tiles at the ends of tensors: with masks, and without."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lowering.ground.expr import Expr, Var, ceildiv
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.kernel.verify import verify
from lowering.proof.agent import agents
from lowering.proof.circles import circles
from lowering.proof.obligation import Obligation, Verdict
from lowering.proof.reductions import Reductions
from passes.options import LoweringOptions
from passes.pipeline import run_passes
from tests.lowering.sweep.sweeps import BF16
from tests.lowering.sweep.test_rows import made, softmax
from tests.mutants.subjects import subject
from tests.tiers import in_tiers

PASSES = Path(__file__).parents[2] / "passes" / "rings"

ROWS = "64 rows of T{} from 64 on are reduced, of 1"
COLUMNS = "32 columns of T{} from 32 on are reduced, of 1"

UNMASKED = {
    "reductions: frag.reduce_to_shared sum, t222_s": ROWS.format(0),
    "reductions: frag.reduce sum, t23, t10": COLUMNS.format(1),
    "reductions: frag.reduce_to_shared max, t242_s": ROWS.format(0),
    "reductions: frag.reduce min, t25": COLUMNS.format(1),
    "reductions: frag.reduce sum, t26": COLUMNS.format(1),
    "reductions: frag.reduce_to_shared sum, t272_s": ROWS.format(0),
    "reductions_pingpong: frag.reduce_to_shared max, t242_s": ROWS.format(0),
    "reductions_exchanged: frag.reduce_to_shared min, t252_s": ROWS.format(1),
    "reductions_exchanged: frag.reduce max, t24": COLUMNS.format(0),
    "fp8_results: frag.reduce max, t16": COLUMNS.format(1),
    "fp8_results: frag.reduce_to_shared max, t172_s": ROWS.format(0),
}


def claim(text: str) -> Obligation:
    """What is found out about the operands of the results of a kernel."""
    kernel = parse_kernel(text)
    assert not verify(kernel)
    return operands(kernel)


def operands(kernel: Kernel) -> Obligation:
    (found,) = (o for o in circles(kernel, agents(kernel)) if o.name == "operands")
    return found


def unmasked(text: str, what: str) -> str:
    """A kernel of which one reduction says no longer how much it takes."""
    found, n = re.subn(rf"({re.escape(what)}\b.*), below=\w+", r"\1", text)
    assert n == 1, text
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("at", in_tiers(UNMASKED, [*UNMASKED][::3]))
def test_without_a_mask(at: str) -> None:
    """All of a tile is taken, also what is behind the end: a bias alone, or a stage's old bytes."""
    name, what = at.split(": ")
    found = claim(unmasked(print_kernel(subject(name).kernel), what))
    assert found.verdict is Verdict.REFUTED
    assert found.why.startswith("at ") and UNMASKED[at] in found.why, found.why


SQUARES = "frag.pointwise mul, wide, wide"
MASKED = ", square, below=inside"

ALONE = {
    "squares are zeros behind the end": (SQUARES, SQUARES, MASKED, ", square", True),
    "products of them as well": (SQUARES, SQUARES, MASKED, ", square, factor=square", True),
    "half of the negative": (SQUARES, "frag.pointwise mul, wide, 0.5", MASKED, ", square", True),
    "infinitely many of them": (SQUARES, "frag.pointwise mul, wide, inf", MASKED, ", square",
                                False),
    "what is no product": (SQUARES, "frag.pointwise exp, wide", MASKED, ", square", False),
    "with a number of its own": (SQUARES, "frag.pointwise add, wide, 1.0", MASKED, ", square",
                                 False),
    "products of another tensor": (SQUARES, "frag.pointwise mul, wide, s", MASKED, ", square",
                                   False),
    "no sum": ("frag.reduce sum, total_so_far", "frag.reduce max, total_so_far", MASKED, ", square",
               False),
    "rows that are masked": (MASKED, MASKED, "1x128> = frag.below reduced - at",
                             "1x128> = frag.below 128", False),
}  # fmt: skip


@pytest.mark.parametrize("name", ALONE)
def test_zeros_behind_the_end(name: str) -> None:
    """Sums of what is loaded, and of its products with itself, take zeros behind the end."""
    first, becomes, second, then, right = ALONE[name]
    text = print_kernel(subject("summary").kernel)
    for before, after in ((first, becomes), (second, then)):
        assert before in text
        text = text.replace(before, after)
    found = claim(text)
    assert (found.verdict is Verdict.PROVED) is right, found.why
    if not right:
        assert "128 columns of x from " in found.why and " are reduced, of " in found.why


def test_rows_that_fill_a_tile() -> None:
    """A sweep is launched for rows of so many elements alone, which no parameter says."""
    kernel = made(softmax(BF16), 64)
    assert "below=" not in print_kernel(kernel)
    assert operands(kernel).verdict is Verdict.PROVED


@pytest.mark.parametrize(
    ("extent", "due"),
    [(Var("N"), True), (Var("M"), False), (ceildiv(Var("M"), 64), False), (Var("G"), False)],
    ids=str,
)
def test_ends_of_groups_are_another_matter(extent: Expr, due: bool) -> None:
    """Of groups of rows the columns are all there are; where rows end only memory says."""
    found = Reductions.of(subject("grouped").kernel)
    assert not found.groups, "nothing is reduced there"
    assert Reductions({}, frozenset(), frozenset({"M", "G"})).counts(extent) is due


STAGES = {
    "columns": (("next3", "next3"), ""),
    "the largest": (("sum, acc3, wide, factor=wide", "max, acc3, wide"), "64 columns of A from 64"),
    "stages that a warpgroup writes": (
        ("raw: frag", "if M < 0 {\nstmatrix A_s[stage_k3, 0, 0], some\n}\nraw: frag"),
        "64 columns of A from 64"),
    "rows behind a clipped box": (
        ("frag.reduce sum, acc3, wide, factor=wide",
         "frag.reduce sum, acc3, wide, factor=wide\n"
         "frag.reduce_to_shared sum, sums[0, 0, 0], wide"), "64 rows of A from 64"),
}  # fmt: skip


@pytest.mark.parametrize("name", STAGES)
def test_stages_that_are_zeros_behind_the_end(name: str) -> None:
    """TMA fills whole rows, with zeros behind the end, but as few rows as the tensor has."""
    (before, after), said = STAGES[name]
    kernel = parse_kernel((PASSES / "two_readers.ir").read_text())
    text = print_kernel(run_passes(kernel, LoweringOptions())).replace(before, after)
    text = text.replace("  none: frag", "  some: frag<bf16, 64x64> = frag.fill 0.0\n  none: frag")
    line = "  mbarrier ring_full"
    text = text.replace(line, "  shared sums: f32[1][4x64] at 65536\n" + line)
    found = operands(parse_kernel(text))
    assert found.verdict is (Verdict.REFUTED if said else Verdict.PROVED), found.why
    assert said in found.why, found.why
