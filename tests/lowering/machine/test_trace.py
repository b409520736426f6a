"""The table of visits: which role is where, at which stage and parity."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from lowering.machine import estimate_seconds, run_kernel, visit_table
from lowering.machine.run import RunResult
from tests.lowering.machine.kernels import matmul_text, run_matmul
from tests.mutants.subjects import subject
from tests.on_machine import kernel
from tests.schedules import cooperative, dynamic, split_k


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


def test_rows_and_columns_of_places() -> None:
    """Of one dimension there is no row; a batch is neither."""
    ats = (), (3,), (3, 5), (2, 3, 5)
    row = run_matmul(matmul_text(), 128, 64, 64, trace=True)[1].trace[0]
    found = [replace(row, at=at) for at in ats]
    assert [(r.row, r.col) for r in found] == [(-1, -1), (-1, 3), (3, 5), (3, 5)]


SMALL = cooperative(64, 16, 16, stages=3, groups=1, registers=None)
KINDS = {
    "tma": SMALL,
    "registers": replace(SMALL, use_smem_epilogue=False),
    "dynamic": dynamic(SMALL),
    "split": split_k(SMALL, 2),
}


@pytest.mark.parametrize("name", KINDS)
def test_what_is_counted_and_noted(name: str, golden: object) -> None:
    """Statements, bytes and stages, of one CTA along x that computes two tiles."""
    made = kernel(KINDS[name])
    extents = {"M": 80, "N": 16, "K": 40}
    shapes = {"A": (80, 40), "B": (16, 40), "D": (80, 16)}
    names = [b.tensor for b in (*made.fusion.inputs, *made.fusion.outputs)]
    arrays = {n: np.zeros(s, np.uint16) for n, s in zip(names, shapes.values(), strict=True)}
    done = run_kernel(made.kernel, arrays, extents, 1, trace=True)
    assert told(done) == golden


def told(done: RunResult) -> str:
    """What is counted, and what is noted how often."""
    assert done.trace is not None
    rows = Counter(
        f"{r.role} {r.op} {r.target}[{r.index}] parity {r.parity} at {r.at} of {r.ctas}"
        for r in done.trace
    )
    counts = [f"{n} {done.counts[n]}" for n in sorted(done.counts) if n != "steps"]
    return "\n".join([*counts, "", *(f"{rows[r]} x {r}" for r in sorted(rows))])


FAMILIES = (
    "a_by_threads", "computed_cluster", "coop_128x128-residual", "dynamic_cluster_pingpong",
    "exchanged", "fp8_results", "four_warpgroups", "gated", "grouped_columns", "int8", "pairs",
    "reductions", "row_copy", "stream_k_cluster", "summary", "summary_long",
    "tensor_memory_grouped",
)  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_what_a_launch_does(name: str, golden: object) -> None:
    """Of each family the smallest launch: what it counts and notes, and how long it may take."""
    right = subject(name)
    _, done = right.run(right.kernel, 0, adversary="eager", trace=True)
    launch = right.launches[0]
    took = estimate_seconds(right.kernel, launch.extents, launch.grid)
    assert f"{took * 1e6:.0f} us\n{told(done)}" == golden


@pytest.mark.parametrize("name", ["grouped", "grouped_sums"])
def test_what_a_launch_does_where_ends_are_none(name: str, golden: object) -> None:
    """Ends that fall, of which a word of memory tells afterwards."""
    right = subject(name)
    _, done = right.run(right.kernel, len(right.launches) - 1, adversary="eager", trace=True)
    assert "st.global.scalar" in told(done)
    assert told(done) == golden
