"""Numbers of blocks of K, and of groups of columns: what is computed with them, and how."""

from __future__ import annotations

from functools import cache

import pytest

import wsched
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.kernel.verify import verify
from lowering.proof.agent import agents
from lowering.proof.circles import circles
from lowering.proof.obligation import Obligation, Verdict
from tests.run.test_block_scales import WAYS, call
from tests.run.test_group_scales import WAYS as OF_GROUPS
from tests.run.test_group_scales import given, made

SCALED = "scaled: frag<f32, 64x128> = frag.pointwise mul, sum, scale3"
IN_PLACE = SCALED.replace("pointwise", "update")
GIVEN_ON = ("yield promoted, sum,", "yield promoted, scaled,")
NEXT = "T2[k + 1, Mo * 128"
LAST_FIRST = "T2[n_k - 1 - k, Mo * 128"
PROMOTED = "frag.update add, acc, scaled"

SCALES: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "in place": ("", ((SCALED, IN_PLACE), GIVEN_ON)),
    "in another order": ("a sum of other blocks than ", ((NEXT, LAST_FIRST),)),
    "in place, in another order": (
        "a sum of other blocks than ", ((SCALED, IN_PLACE), GIVEN_ON, (NEXT, LAST_FIRST))),
    "in place, always the first": (
        "a sum of other blocks than 0",
        ((SCALED, IN_PLACE), GIVEN_ON, (NEXT, "T2[0, Mo * 128"))),
    "divided": (" of a block make a div", (("mul, sum, scale3", "div, sum, scale3"),)),
    "what they divide": (" of a block make a div", (("mul, sum, scale3", "div, scale3, sum"),)),
    "divided in place": (
        " of a block make a div", ((SCALED, IN_PLACE.replace("mul", "div")), GIVEN_ON)),
    "added": (" of a block make a add", (("mul, sum, scale3", "add, sum, scale3"),)),
    "times the others": (
        "a sum of other blocks than ", ((PROMOTED, PROMOTED.replace("add", "mul")),)),
}  # fmt: skip

SHIFTED = "k{0}: frag<f32, 64x32> = frag.pointwise sub, t6_k{0}, zero2"
HERE = "k{0}: frag<f32, 64x32> = frag.update sub, raw_k{0}, zero2"
RAW = (
    "t6_k{0}: frag<bf16, 64x32> = frag.cast t11_k{0}",
    "t6_k{0}: frag<bf16, 64x32> = frag.cast t11_k{0}\n"
    "raw_k{0}: frag<f32, 64x32> = frag.cast t6_k{0}",
)
UPDATED = [(a.format(at), b.format(at)) for a, b in (RAW, (SHIFTED, HERE)) for at in (0, 32)]


@cache
def scaled() -> str:
    """Sums whose steps are scaled."""
    return print_kernel(wsched.compile(*call((1, 128))[0], params=WAYS["cooperative"]).kernel)


@cache
def shifted() -> str:
    """Weights whose groups of K have zero points."""
    group, tile, groups, along_k, _ = OF_GROUPS["a group in two steps"]
    text = given("int32", group, shifted=True)[0]
    return print_kernel(made(text, *tile, groups, along_k).kernel)


def claim(text: str, *edits: tuple[str, str]) -> Obligation:
    """What is found out about the operands of a kernel's results, once it is edited."""
    for before, after in edits:
        assert before in text, text
        text = text.replace(before, after)
    kernel = parse_kernel(text)
    assert not verify(kernel), verify(kernel)
    (found,) = (o for o in circles(kernel, agents(kernel)) if o.name == "operands")
    return found


@pytest.mark.parametrize("name", SCALES)
def test_sums_times_numbers_of_blocks(name: str) -> None:
    """Products of each block are multiplied by its own scale, in whatever registers."""
    said, edits = SCALES[name]
    found = claim(scaled(), *edits)
    assert found.verdict is (Verdict.REFUTED if said else Verdict.PROVED), found.why
    assert said in found.why, found.why


@pytest.mark.parametrize(
    ("next_", "said"),
    [
        ("T2[(k + 1) // 2", ""),
        ("T2[k // 2", "columns of other blocks than 0 are computed with T2"),
        ("T2[max(ceildiv(K, 64) - 2 - k, 0) // 2", "columns of other blocks than "),
    ],
    ids=["right", "the step before", "in another order"],
)
@pytest.mark.parametrize("edits", [[], UPDATED], ids=["pointwise", "in place"])
def test_columns_and_numbers_of_groups(edits: list[tuple[str, str]], next_: str, said: str) -> None:
    """Each group of columns has its own zero points, in whatever registers."""
    found = claim(shifted(), *edits, ("T2[(k + 1) // 2", next_))
    assert found.verdict is (Verdict.REFUTED if said else Verdict.PROVED), found.why
    assert said in found.why, found.why
