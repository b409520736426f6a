"""What is claimed of numbers that CTAs take, and each way in which it may be wrong."""

from __future__ import annotations

from functools import cache

import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.numbers import numbered, words
from lowering.proof.obligation import Verdict
from tests.on_machine import kernel as compiled
from tests.schedules import cooperative, split_k, stream_k

SMALL = cooperative(64, 16, 16, stages=3, groups=1, registers=None)
CLUSTER = cooperative(64, 16, 16, stages=3, groups=1, registers=None, cluster=(2, 1))


@cache
def text(name: str) -> str:
    params = {"one": stream_k(SMALL), "cluster": split_k(CLUSTER, 2)}[name]
    return print_kernel(compiled(params).kernel)


def claim(made: Kernel) -> tuple[Verdict, str]:
    (found,) = numbered(made)
    return found.verdict, found.why


@pytest.mark.parametrize("name", ["one", "cluster"])
def test_it_holds(name: str) -> None:
    made = parse_kernel(text(name))
    assert claim(made) == (Verdict.PROVED, "")
    assert words(made) == {"ticket"}


def test_of_kernels_whose_ctas_wait_for_nobody_nothing_is_claimed() -> None:
    assert numbered(compiled(SMALL).kernel) == []
    assert words(compiled(SMALL).kernel) == frozenset()


def test_places_are_no_numbers() -> None:
    made = parse_kernel(text("one").replace("  cta.number number\n", ""))
    assert claim(made) == (
        Verdict.UNPROVED, "CTAs wait for CTAs of other places, which need not have started"
    )  # fmt: skip


TAKEN = "a number is not taken once, behind a sync, on the outermost level"
ALONE = "not one thread takes a number and stores it"
WAIT = "    griddepcontrol.wait\n"
STORED = "what is stored is not the number that was taken, where it is loaded"


@pytest.mark.parametrize(
    ("name", "old", "new", "why"),
    [
        ("one", "atom inc, tickets", "atom add, tickets", "the number is not taken by atom.inc"),
        ("one", "%nctaid.x - 1\n", "%nctaid.x\n",
         "the counter comes back to zero behind %nctaid.x requests, not the grid's"),
        ("one", "st.word ticket[0, 0, 0], taken", "st.word ticket[0, 0, 0], 0", STORED),
        ("one", "  cta.number number", "  cta.number 0", "the number is 0, not what was loaded"),
        ("one", "  cta.sync\n  number", "  number",
         "no sync of all who share a number between its store and its load"),
        ("one", "  cta.number number", "  cta.number number\n  cta.number number", TAKEN),
        ("one", "tickets[0], %nctaid", "ready[0], %nctaid", "ready is used by 4 statements"),
        ("one", f"on %warp 0 {{\n{WAIT}", f"on %warpgroup.warp 0 {{\n{WAIT}", ALONE),
        ("one", f"on %warp 0 {{\n{WAIT}", f"on %warp 8 {{\n{WAIT}", ALONE),
        ("cluster", f"on %warp 0 {{\n  {WAIT}", f"on %warpgroup.warp 0 {{\n  {WAIT}", ALONE),
        ("cluster", "%cluster.ctarank == 0", "%cluster.ctarank == 1",
         "not the first CTA of the cluster alone takes a number"),
        ("cluster", "for rank in 0 .. 2", "for rank in 0 .. 1",
         "not every CTA of the cluster gets the number"),
        ("cluster", "taken, cta=rank", "taken, cta=0", STORED),
        ("cluster", "  cluster.sync\n  if", "  if",
         "a number is stored into CTAs that may not have started"),
        ("cluster", "  cluster.sync\n  number", "  cta.sync\n  number",
         "no sync of all who share a number between its store and its load"),
    ],
)  # fmt: skip
def test_what_may_be_wrong(name: str, old: str, new: str, why: str) -> None:
    whole = text(name)
    assert whole.count(old) >= 1
    assert claim(parse_kernel(whole.replace(old, new, 1))) == (Verdict.REFUTED, why)


def test_a_place_that_is_read_before() -> None:
    whole = text("one").replace("  on %warp 1 {", "  let early: i32 = %ctaid.x\n  on %warp 1 {", 1)
    assert claim(parse_kernel(whole)) == (
        Verdict.REFUTED, "%ctaid is read before the number is taken"
    )  # fmt: skip
