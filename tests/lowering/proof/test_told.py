"""Parts of sums, and the counters that tell of them."""

from __future__ import annotations

import re

import pytest

from lowering.kernel.text import parse_kernel, print_kernel
from lowering.kernel.verify import verify
from lowering.proof.agent import agents
from lowering.proof.circles import circles
from lowering.proof.obligation import Verdict
from lowering.proof.told import Told
from tests.mutants.subjects import subject
from tests.tiers import in_tiers

RAISED = r"(atom add, ready\[.*\* 2 \+ )group\]"
AWAITED = r"(counter\.wait ready\[.*\* 2 \+ )group\]"
SET_BACK = r"(atom exch, ready\[.*\* 2 \+ )group\]"
OTHER = r"\1(1 - group)]"
UNTOLD = "is added, and no counter that was awaited tells of it"

EDITS = {
    "the counter of the other warpgroup is raised": ((RAISED,), OTHER, UNTOLD),
    "the counter of the other warpgroup is awaited": ((AWAITED, SET_BACK), OTHER, UNTOLD),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("schedule", in_tiers(("stream_k", "stream_k_cluster"), ("stream_k",)))
@pytest.mark.parametrize("name", EDITS)
def test_counters_of_other_parts(schedule: str, name: str) -> None:
    """As many raises as are awaited, of parts that are not those that are added."""
    edits, becomes, said = EDITS[name]
    text = print_kernel(subject(schedule).kernel)
    for before in edits:
        text, n = re.subn(before, becomes, text)
        assert n == 1, text
    kernel = parse_kernel(text)
    assert not verify(kernel)
    (found,) = (o for o in circles(kernel, agents(kernel)) if o.name == "operands")
    assert found.verdict is Verdict.REFUTED
    assert found.why.startswith("at ") and said in found.why, found.why


ME, OTHERS, READY, NEXT = (0, 0), (1, 0), ("ready", 0), ("ready", 1)
PART, SECOND = ("parts", 3), ("parts", 4)


def test_a_part_is_added_once_by_who_has_waited() -> None:
    on = Told()
    on.store(OTHERS, PART)
    on.tell(OTHERS, READY)
    assert on.add(ME, PART) == f"parts[3] {UNTOLD}"
    assert on.wait(ME, READY, 1) == ""
    assert on.add(OTHERS, PART) == f"parts[3] {UNTOLD}"
    assert on.add(ME, SECOND) == f"parts[4] {UNTOLD}"
    assert on.add(ME, PART) == ""
    assert on.add(ME, PART) == f"parts[3] {UNTOLD}"


def test_a_raise_tells_of_what_was_stored_since_the_last() -> None:
    on = Told()
    on.store(OTHERS, PART)
    on.tell(OTHERS, READY)
    on.tell(OTHERS, NEXT)
    assert on.wait(ME, NEXT, 1) == ""
    assert on.add(ME, PART) == f"parts[3] {UNTOLD}"


def test_a_counter_that_is_set_back_tells_of_nothing() -> None:
    on = Told()
    on.store(OTHERS, PART)
    on.tell(OTHERS, READY)
    on.clear(READY)
    on.clear(NEXT)
    assert on.wait(ME, READY, 0) == ""
    assert on.add(ME, PART) == f"parts[3] {UNTOLD}"


def test_more_raises_than_are_awaited() -> None:
    """In another order the wait is over in front of one that it needs; of counters that tell of no
    parts that is nobody's business.
    """
    on = Told()
    for slot in (PART, SECOND):
        on.store(OTHERS, slot)
        on.tell(OTHERS, READY)
    assert on.wait(ME, READY, 1) == "ready[0] is raised 2 times, awaited is 1"
    on.tell(OTHERS, NEXT)
    on.tell(OTHERS, NEXT)
    assert on.wait(ME, NEXT, 1) == ""
