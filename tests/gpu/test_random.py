"""Random fusions, schedules and sizes, none wrong: a short run of ``wsched stress``."""

from __future__ import annotations

import pytest

from tests.gpu.watchdog import watchdog
from wsched.stress.launches import Where
from wsched.stress.results import summary
from wsched.stress.run import Plan, rows

pytestmark = pytest.mark.gpu

RATE = 200
"""Launches a second that a run has at least."""


def test_a_short_run(terminal: int) -> None:
    plan = Plan(Where("cuda", 2048, 0), 10_000, 40, 256, 8)
    with watchdog(58, "a short run of wsched stress", terminal):
        found = list(rows(plan, ()))
    seconds = sum(r.seconds for r in found)
    print(summary(found, seconds))
    assert [(r.name, f) for r in found for f in r.failures] == []
    assert sum(r.launches for r in found) > RATE * seconds
