"""A sample of broken kernels: what the proof has to reject without running anything."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.mutants.edits import mutants
from tests.mutants.judge import Fate, dies, judged, sampled
from tests.on_machine import kernel
from tests.schedules import SCHEDULES

NUMBERS = frozenset({
    "bytes", "carry", "count", "parity", "pending", "registers", "stage", "threads", "trips",
})  # fmt: skip
"""Classes of edits that a kernel without open claims and partial sums never survives: others, such
as a statement that stands twice or behind the next one, may change nothing.
"""

EVERY = 7


@pytest.mark.parametrize(
    ("name", "first"),
    [("coop_2_stages", 0), ("cluster_2x1", 1), ("pingpong_64x128", 2), ("dynamic", 3),
     ("tile_per_cta", 4), ("coop_in_flight_2", 5), ("exchanged", 6)],
)  # fmt: skip
def test_numbers_are_rejected(name: str, first: int) -> None:
    """Each edit of a count, a byte, a stage, a parity or a loop is rejected by the proof."""
    compiled = kernel(SCHEDULES[name])
    broken = [m for m in sampled(compiled.kernel, EVERY, first) if m.kind in NUMBERS]
    assert len(broken) > 5
    found = judged(compiled, broken, machine=False)
    assert not [f"{j.mutant.kind}: {j.mutant.what}" for j in found if j.fate is not Fate.PROOF]


def test_a_dropped_wait_dies_on_the_machine_too() -> None:
    """The second judge sees what it should: the machine, of a mutant that the proof rejects."""
    compiled = kernel(SCHEDULES["coop_2_stages"])
    (dropped,) = (
        m
        for m in mutants(compiled.kernel)
        if m.kind == "drop" and m.what.startswith("mbarrier.wait ring_full")
    )
    assert dies(replace(compiled, kernel=dropped.kernel))
    assert not dies(compiled)


def test_a_word_behind_the_arrival_for_it() -> None:
    """Who is told of a word before it is stored may load the one before."""
    compiled = kernel(SCHEDULES["dynamic"])
    late = [
        m for m in mutants(compiled.kernel) if m.kind == "move" and m.what.startswith("st.word")
    ]
    found = judged(compiled, late, machine=False)
    assert late and [j.fate for j in found] == [Fate.PROOF] * len(late)
