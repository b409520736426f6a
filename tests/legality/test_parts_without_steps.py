"""Parts of K of which the last one has no steps: what it completes is the others' sums alone."""

from __future__ import annotations

import pytest

from tests.legality.builder import matmul
from tests.legality.by_hand.tiles import parts_of_k
from tests.legality.machine import Problem, compiled, run_wrong
from tests.proofs import proved
from wsched.run.counts import require_countable
from wsched.schedule.plan import Plan, make_plan


def thirds_of_k() -> Plan:
    """Of slices in an order that ends with what exists."""
    m = matmul()
    m.tile(64, 32, 32)
    m.deal()
    summed = (*m.loads, m.acc)
    m.split(summed, "k", 1, "ko ki")
    m.merge(summed, "ki ko", "k")
    parts_of_k(m, 3, runs=True)
    m.order(m.loads, "cta part tile k")
    m.steps("tile k")
    m.stage(3, 1)
    m.order(m.compute, "cta tile part k")
    m.fragments("tile", 32)
    m.inline("tile")
    return make_plan(m.s.fusion)


@pytest.mark.parametrize("k", [64, 96, 128, 160])
def test_sums_do_not_go_on_from_tile_to_tile(k: int) -> None:
    """Several tiles for a CTA; of two to five slices of K the third part has none, or one."""
    plan = thirds_of_k()
    assert run_wrong(plan.fusion, compiled(plan), Problem(57, 72, k, 3)) is None


@pytest.mark.slow
def test_steps_are_counted_where_they_are_most() -> None:
    """How many they are depends on the part."""
    plan = thirds_of_k()
    require_countable(plan, {"M": 57, "N": 72, "K": 64}, 1)
    proved(compiled(plan), plan)
