"""A sample of broken kernels: what the proof rejects, what the machine kills, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import pytest

from lowering.kernel.nodes import CtaSync, MBarrierWait, Stmt, WgmmaWait
from tests.mutants.edits import Mutant, mutants
from tests.mutants.harmless import argument
from tests.mutants.judge import Fate, Judge, sampled
from tests.mutants.many import CHUNK, chunks, drawn
from tests.mutants.score import BEGIN, END, Line, cost, open_ones, report, score, write
from tests.mutants.subjects import HOPPER, SUBJECTS, family, subject
from tests.tiers import in_tiers

NUMBERS = frozenset({
    "bytes", "carry", "parity", "pending", "trips",
})  # fmt: skip
"""Classes of edits that a kernel without open claims and partial sums never survives: others, such
as a statement that stands twice or behind the next one, may change nothing.
"""

EVERY = 4


@cache
def judge(name: str) -> Judge:
    return Judge(subject(name))


FIRST = {
    "coop_2_stages": 0, "cluster_2x1": 1, "pingpong_64x128": 2, "dynamic": 3, "tile_per_cta": 0,
    "coop_in_flight_2": 1, "exchanged": 2,
}  # fmt: skip
"""The first of the mutants of a kernel that are judged."""


@pytest.mark.slow
@pytest.mark.parametrize("name", in_tiers(FIRST, ("coop_2_stages", "tile_per_cta")))
def test_numbers_are_rejected(name: str) -> None:
    """Each edit of a byte, a parity or a loop is rejected by the proof."""
    broken = [m for m in sampled(judge(name), EVERY, FIRST[name]) if m.kind in NUMBERS]
    assert len(broken) > 3
    fates = {(m.kind, m.what): judge(name).judged(m, machine=False).fate for m in broken}
    assert not [m for m, fate in fates.items() if fate is Fate.NEITHER]


def test_a_dropped_wait_dies_on_the_machine_too() -> None:
    """The second judge sees what it should: the machine, of a mutant that the proof rejects."""
    right = judge("coop_2_stages")
    (dropped,) = (
        m
        for m in right.mutants
        if m.kind == "drop" and m.what.startswith("mbarrier.wait ring_full")
    )
    assert right.judged(dropped).fate is Fate.PROOF
    assert right.ran(dropped.kernel).fate in (Fate.RACE, Fate.MACHINE)


@pytest.mark.slow
def test_a_wrong_tile_dies_on_the_machine_too() -> None:
    """A row of another group of tiles: the last launch has more rows of tiles than one has."""
    right = judge("cluster_2x1")
    wrong = [m for m in right.mutants if m.kind == "scalar" and "% 4, select" in m.what]
    assert len(wrong) == 2
    for mutant in wrong:
        assert right.judged(mutant, machine=False).fate is Fate.PROOF
        assert right.ran(mutant.kernel).fate is Fate.MACHINE
        assert not right.wrong(mutant.kernel, 2, adversary="eager")


@pytest.mark.sampled
@pytest.mark.parametrize("name", in_tiers(SUBJECTS, [*SUBJECTS][::3]))
def test_no_alarm(name: str) -> None:
    """No claim is open and no race is seen where nothing is wrong."""
    right = judge(name)
    assert not right.open
    assert (name in HOPPER) == (subject(name).kernel.target.arch == "sm_90a")
    assert not right.wrong(subject(name).kernel, 0, races=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coop_2_stages", "dynamic"])
def test_no_alarm_in_the_orders_that_judge(name: str) -> None:
    assert judge(name).ran(subject(name).kernel).fate is Fate.NEITHER


SAMPLED = "coop_1_stage", "cluster_pingpong", "dynamic", "pairs"
"""Kernels that have mutants of all classes between them."""

CLASSES = (
    "array", "barrier", "bytes", "carry", "condition", "copy", "count", "decide", "descriptor",
    "double", "drop", "exchange", "further", "index", "move", "name", "nest", "offset", "order",
    "parity", "pending", "registers", "role", "scalar", "scope", "stage", "swap", "swizzle",
    "target", "threads", "trips", "value",
)  # fmt: skip

SEED = 1
"""Any other will do: what a class has that is drawn with it is no hole."""


def picked(keep: Callable[[Mutant], bool], seed: int = SEED) -> tuple[str, Mutant]:
    """One of all mutants of the sampled kernels that are kept."""
    every = [(name, m) for name in SAMPLED for m in mutants(subject(name).kernel) if keep(m)]
    return Random(seed).choice(every)


@pytest.mark.slow
@pytest.mark.parametrize("kind", CLASSES)
def test_a_sample_has_no_hole(kind: str) -> None:
    """One of each class is caught, or known to be harmless."""
    name, mutant = picked(lambda m: m.kind == kind)
    fate = judge(name).judged(mutant).fate
    assert fate is not Fate.NEITHER or argument(mutant), mutant.what


def test_all_classes_are_sampled() -> None:
    assert {m.kind for name in SAMPLED for m in mutants(subject(name).kernel)} == {*CLASSES}


FATES: dict[Fate, tuple[str, type[Stmt]]] = {
    Fate.VERIFY: ("drop", WgmmaWait),  # what it settles is used
    Fate.PROOF: ("parity", MBarrierWait),
    Fate.NEITHER: ("double", CtaSync),
}
"""Mutants that have one fate, whichever is drawn."""


@pytest.mark.parametrize("fate", in_tiers(FATES, (Fate.VERIFY,)))
def test_each_fate_is_given(fate: Fate) -> None:
    kind, of = FATES[fate]
    name, mutant = picked(lambda m: m.kind == kind and isinstance(m.stmt, of))
    assert judge(name).judged(mutant).fate is fate


IDLE: list[tuple[str, str, tuple[str | None, ...]]] = [
    ("pending", "gated", ("the wait beside it covers as many groups", None)),
    ("carry", "grouped", ("nobody reads what the loop carries there", None)),
    ("carry", "deferred_cluster", (
        "nobody reads what the loop begins with: there is no tile yet", None,
    )),
    ("stage", "coop_1_stage", ("the one barrier that there is", None)),
    ("scalar", "grouped", (
        "trips for nearly all tiles of a grid; one cluster has all of few tiles only",
        "trips for the whole tiles of all groups, beside one for each group",
        "of tiles and steps behind the end zeros are loaded, and nothing is stored",
        None,
    )),
    ("scalar", "dynamic_cluster_pingpong", (
        "the same number, whatever the names in it stand for",
        "of tiles and steps behind the end zeros are loaded, and nothing is stored",
        None,
    )),
    ("scalar", "cluster_2x1", (
        "the rest is the same: the sum is more by a multiple of what it is taken modulo",
        "of tiles and steps behind the end zeros are loaded, and nothing is stored",
        "a CTA takes tiles behind the last one, too: nothing of them is in the result",
        "there are no more CTAs than tiles, so the first of each is there",
        "what is divided by is a multiple of that, or nothing is",
        "what is left is a whole divisor: a first tile, which both orders begin with",
        "what is left is a whole divisor, which leaves no rest modulo its factor either",
        None,
    )),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "wanted"), IDLE)
def test_an_argument_is_about_the_place(
    kind: str, name: str, wanted: tuple[str | None, ...]
) -> None:
    """Of one class of edits some are harmless for a reason, and the others are known to be none."""
    found = [m for m in mutants(subject(name).kernel) if m.kind == kind]
    assert {argument(m) for m in found} == set(wanted)


FOUND = [
    ("grouped", "tiles: i32 = n_tiles + n_No * B -> n_tiles + (n_No + B)", "trips for words"),
    ("split_2", "n_k: i32 = ceildiv(K, 64) -> K // 64", "operands"),
    (
        "qkv_pingpong",
        "reciprocal2: i32 = 2147483647 // max(n_No, 1) -> 2147483647 // max(n_No, 2)",
        "operands",
    ),
    ("two_pairs", "n_k: i32 = ceildiv(K, 64) -> ceildiv(K, 65)", "circles of waits"),
    (
        "grouped_first",
        "ceildiv(part_size, 40) -> ceildiv(N, 64) * ceildiv(part_size, 41)",
        "results",
    ),
    ("grouped_second", "n_No: i32 = ceildiv(M, 32) -> ceildiv(M, 33)", "trips for words"),
    ("stream_k", "max(share, 1) -> 2147483647 // max(share, 2)", "circles of waits"),
    ("grouped", "n_No: i32 = ceildiv(N, 16) -> N // 16", "trips for words"),
    ("tensor_memory_grouped", "select(%nctaid.x < rest, 2, 0)", "trips for words"),
    ("cluster_pingpong", "select(divisor3 <= rest3, rest3, rest3 - divisor3)", "circles of waits"),
]
"""Kernels, scalars, and the claim that fails: for many groups of few rows, at a size with an almost
empty last tile of several, of a list with one part, of a list that is divided by another number
than its parts, on as many CTAs as steps, for one group of all rows, for two large groups, by a
negative quotient.
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("name", "what", "claim"), FOUND)
def test_a_number_that_is_right_at_most_sizes_is_rejected(name: str, what: str, claim: str) -> None:
    right = judge(name)
    found = [m for m in right.mutants if m.kind == "scalar" and what in m.what]
    said = [right.judged(m, machine=False) for m in found]
    assert said and all(s.fate is Fate.PROOF and f" {claim} (" in s.why for s in said)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "harmless"), [("reductions", True), ("coop_2_stages", False)])
def test_a_meeting_that_another_one_makes_up_for(name: str, harmless: bool) -> None:
    """Buffers in turns: what one meeting does not part, those of the next buffer do."""
    found = [m for m in mutants(subject(name).kernel) if m.kind == "move"]
    rows = [m for m in found if m.what.startswith(("bar.sync rows", "bar.sync T5_store"))]
    assert rows and {argument(m) is not None for m in rows} == {harmless}


def test_a_word_behind_the_arrival_for_it() -> None:
    """Who is told of a word before it is stored may load the one before."""
    right = judge("dynamic")
    late = [m for m in right.mutants if m.kind == "move" and m.what.startswith("st.word")]
    found = [right.judged(m, machine=False).fate for m in late]
    assert late and found == [Fate.PROOF] * len(late)


def test_more_of_them_are_the_same_and_others() -> None:
    """A run goes on with what it has: so many more are drawn beside those, each one once."""
    counts = [("a", range(30)), ("b", range(20))]
    few, many = (set(drawn(counts, n, seed=3)) for n in (10, 40))
    assert len(few) == 10 and len(many) == 40 and few < many
    assert drawn(counts, 99, seed=3) == [(name, n) for name, c in counts for n in c]


def test_a_process_gets_mutants_of_one_kernel() -> None:
    places = [(name, n) for name, count in (("a", CHUNK + 1), ("b", 2)) for n in range(count)]
    assert [len(some) for some in chunks(places)] == [CHUNK, 1, 2]
    assert [place for some in chunks(places) for place in some] == places


def lines() -> list[Line]:
    fates = [("PROOF", "a claim"), ("NEITHER", "a hint"), ("NEITHER", ""), ("ERROR", "KeyError")]
    return [
        Line("dynamic", n, "drop", "cta.sync", fate, why, 0.1, "the machine")
        for n, (fate, why) in enumerate(fates)
    ]


def test_score() -> None:
    """What nobody catches is harmless with an argument and open without; so is a crash."""
    verdicts = ["verify", "proof", "race", "machine", "adversary", "harmless", "open"]
    numbers = ["0", "1", "0", "0", "0", "1", "2"]
    assert score(lines(), lambda line: family(line.name), "family") == [
        ["family", *verdicts], ["queues", *numbers], ["all", *numbers]
    ]  # fmt: skip
    assert [line.number for line in open_ones(lines())] == [2, 3]
    assert cost([*lines(), replace(lines()[1], number=4, seconds=0.5)]) == (
        "1 s of processor time, a mutant: harmless 0.30, open 0.10, proof 0.10; "
        "most 0.5 (dynamic 4)"
    )
    told = report(lines())
    assert told.startswith("4 mutants of 1 kernels, 2 open:")
    assert "| drop | a hint | the machine | 1 |" in told


def test_an_argument_without_a_second_method_is_open() -> None:
    assert replace(lines()[1], method="").verdict == "open"


def test_a_note_gets_the_score(tmp_path: Path) -> None:
    note = tmp_path / "note.md"
    note.write_text(f"a\n{BEGIN}\nold\n{END}\nb\n")
    write(note, "new")
    assert note.read_text() == f"a\n{BEGIN}\nnew\n{END}\nb\n"
