"""Trips of who reads a grouped matmul's words: as many as those may be, and one for the end."""

from __future__ import annotations

import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.obligation import Verdict
from lowering.proof.prove import prove
from tests.mutants.subjects import subject

GROUPED = (
    "grouped", "grouped_pingpong", "grouped_cluster", "grouped_columns", "grouped_sums",
    "tensor_memory_grouped",
)  # fmt: skip


def claimed(kernel: Kernel) -> dict[str, tuple[Verdict, str]]:
    """The claim about each buffer of words."""
    found = (o for o in prove(kernel).obligations if o.name == "trips for words")
    return {o.subject: (o.verdict, o.why) for o in found}


@pytest.mark.sampled
@pytest.mark.parametrize("name", GROUPED)
def test_groups(name: str) -> None:
    """Of rows, of columns, and of K, where each group has all tiles."""
    assert claimed(subject(name).kernel) == {"queue_B": (Verdict.PROVED, "")}


def test_no_groups() -> None:
    """Each trip of who stores them is one of who reads them."""
    assert not claimed(subject("dynamic").kernel)


FEW = "trips may not be enough for words of all groups, and an end"

FAULTS = {
    "of a few groups alone": (  # which are all that are followed
        "grouped", "n_tiles + n_No * B", "n_tiles + n_No * min(B, 64)", FEW),
    "a tile for each group": (
        "grouped", "n_tiles + n_No * B", "n_tiles + n_No // 64 + max(n_No, 64) * B - 64 * B", FEW),
    "none for the end": ("grouped", "in 0 .. tiles + 1 carry", "in 0 .. tiles carry", FEW),
    "from the second on": ("grouped", "in 0 .. tiles + 1 carry", "in 1 .. tiles + 1 carry", FEW),
    "every other one": (
        "grouped", "in 0 .. tiles + 1 carry", "in 0 .. tiles + 1 step 2 carry", FEW),
    "of a few groups' sums": ("grouped_sums", "n_tiles * B", "n_tiles * min(B, 64)", FEW),
    "of rows in place of columns": (
        "grouped_columns", "n_tiles + n_Mo * B", "n_tiles + n_No * B", FEW),
    "groups that overlap": (
        "grouped", "min(max(end_read, begin), M)", "max(min(end_read, M), begin - 8)",
        "in all groups is not known"),
    "tiles from elsewhere": (
        "grouped", "tiles_before: i32 = 0 ", "tiles_before: i32 = B - B + 1 ",
        "the tiles that are dealt out do not begin with the first one"),
    "turns that are not counted": (
        "grouped", "for turn in 0 .. turns ", "for turn in 0 .. turns + 1 ",
        "words are stored that are of no tiles which are dealt out"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_words_that_nobody_reads(fault: str) -> None:
    """The first one of them, and that of sums, had nothing open by any other claim."""
    name, before, after, why = FAULTS[fault]
    text = print_kernel(subject(name).kernel)
    assert before in text
    verdict, said = claimed(parse_kernel(text.replace(before, after)))["queue_B"]
    assert verdict is Verdict.UNPROVED
    assert why in said


def test_more_trips_than_words() -> None:
    text = print_kernel(subject("grouped").kernel)
    more = text.replace("n_tiles + n_No * B", "n_tiles + n_No * B * 2 + K")
    assert claimed(parse_kernel(more)) == {"queue_B": (Verdict.PROVED, "")}
