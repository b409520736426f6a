"""The table of visits: which role is where, at which stage and parity."""

from __future__ import annotations

from lowering.machine import visit_table
from tests.lowering.machine.kernels import matmul_text, run_matmul


def test_visits_of_a_ring(golden: object) -> None:
    """Two tiles of three steps on two stages; the second tile starts at stage 1, parity 1."""
    _, result = run_matmul(matmul_text(), 256, 128, 192, trace=True)
    rows = result.visits(("mbarrier.wait", "full"), ("tma.load", "a"), ("tma.store", "d"))
    assert visit_table(row for row in rows if row.cta == 0) == golden


def test_seed_changes_the_run_but_not_the_visits() -> None:
    runs = [run_matmul(matmul_text(), 128, 64, 128, trace=True, seed=s)[1] for s in range(3)]
    assert len({run.counts["steps"] for run in runs}) > 1
    assert len({run.visits(("mbarrier.wait", "full")) for run in runs}) == 1


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = (
        run_matmul(matmul_text(), 128, 64, 128, trace=True, seed=5)[1] for _ in range(2)
    )
    assert first == second
