"""Kernels that share groups out: what each of them has to write, and what is refuted."""

from __future__ import annotations

import pytest

from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.obligation import Obligation, Verdict
from lowering.proof.prove import prove
from tests.mutants.subjects import subject
from tests.run.test_siblings import KERNELS, kernel
from wsched.run.counts import admitted_by

FAULTS = {
    "from the group's begin on": (
        "begin + part_front", "begin", "is written, which is no part of its own"),
    "all of the group": (
        "part_size: i32 of size", "other: i32 of size\nlet part_size: i32 = size",
        "is written, which is no part of its own"),
    "whole tiles alone": (
        "* ceildiv(part_size, 32)", "* (part_size // 32)", "of T5 are written"),
    "tiles of a row more": (
        "* ceildiv(part_size, 32)", "* ceildiv(part_size, 33)", "of T5 are written"),
    "of a group without its last row": (
        "i32 of size", "i32 of max(size - 1, 0)", "of T5 are written"),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", KERNELS)
def test_each_writes_its_part(name: str) -> None:
    k = kernel(name)
    for one in (k, *k.siblings):
        assert not prove(one.kernel, admitted_by(one.plan)).open


@pytest.mark.parametrize("fault", FAULTS)
def test_another_part(fault: str) -> None:
    before, after, why = FAULTS[fault]
    said = refuted("grouped_second", (before, after))
    assert any(why in s for s in said), said


def refuted(name: str, *changes: tuple[str, str]) -> list[str]:
    """What is said of the results and operands of a kernel whose text was changed."""
    found = changed(name, *changes)
    return [o.why for o in found if o.verdict is Verdict.REFUTED]


def changed(name: str, *changes: tuple[str, str]) -> tuple[Obligation, ...]:
    text = print_kernel(subject(name).kernel)
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return prove(parse_kernel(text)).open


GROUP = ("st.word queue_B[stage_turn, 0], group5", "st.word queue_B[stage_turn, 0], {}")


@pytest.mark.parametrize("wrong", ["select(0 < part_front, 0, group5)",
                                   "select(part_size < size, 0, group5)"])  # fmt: skip
def test_matrices_of_another_group(wrong: str) -> None:
    """Where nobody else has a part of it they are the group's own."""
    before, after = GROUP
    said = refuted("grouped_second", (before, after.format(wrong)))
    assert said and all("of which coordinate 0 is" in s or "0 < part_front" in s for s in said)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ((GROUP[0], GROUP[1].format("select(4000 < part_size, 0, group5)")), "groups of 125"),
        (("begin + part_front", "begin + min(part_front, 4000)"), "begins is min 4000"),
        (("begin + part_front", "begin + min(part_front, 300)"), "begins is min 300"),
        (("begin + part_front", "begin + part_front // 8 * 8"), "begins is // 8"),
    ],
)
def test_numbers_that_few_parts_reach(change: tuple[str, str], why: str) -> None:
    """Nobody follows so large parts, or all places where parts begin."""
    found = changed("grouped_second", change)
    assert any(o.verdict is Verdict.UNPROVED and why in o.why for o in found), [*map(str, found)]


def test_more_clusters_than_are_followed_otherwise() -> None:
    text = print_kernel(subject("grouped_second").kernel)
    (head,) = (s for s in text.splitlines() if s.startswith("kernel "))
    many = head.replace(", sms)", ", sms * 30)")
    assert head != many and not changed("grouped_second", (head, many))
    wrong = refuted("grouped_second", (head, many), ("begin + part_front", "begin"))
    assert wrong and all("no part of its own" in s for s in wrong)


def test_ends_in_two_tables() -> None:
    """Whose are then not known."""
    read = "end_read: i32 = ld.global.scalar T6[group5]"
    found = changed("grouped_second", (read, f"{read}\nother: i32 = ld.global.scalar T6_wrong[0]"))
    assert any("where groups end that kernels share out is not known" in o.why for o in found)


def test_a_group_of_less_than_nothing() -> None:
    said = refuted("grouped_second", ("i32 of size", "i32 of size - 1"))
    assert any("a group of -1 elements is divided up" in s for s in said)


def test_a_product_of_both() -> None:
    k = subject("grouped_second")
    text = print_kernel(k.kernel).replace(
        "part_begin + part_size", "part_begin + part_size + part_front * part_size")  # fmt: skip
    found = prove(parse_kernel(text), k.admitted).open
    assert any("multiplies where a part of a group begins" in o.why for o in found)
