"""Which role visits which tile, k slice, stage and parity, as the machine saw it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowering.machine import run_kernel
from lowering.machine.trace import TraceRow
from tests.lowering.ground.expressions import budget
from tests.lowering.nest.kernels import CLUSTER_2X1, SMALL, final, schedule

# cta, group (-1 for the load role), (m, n), k, stage, parity
Visit = tuple[int, int, tuple[int, int], int, int, int]
DEPTH = 64


def run(name: str, m: int, n: int, k: int, grid: int) -> list[Visit]:
    """Every step of every role of ``m x n`` tiles and ``k`` slices on ``grid`` CTAs."""
    kernel, tile = final(name), schedule(name).output_tile
    sizes = {"M": m * tile.m, "N": n * tile.n, "K": k * DEPTH}
    tensors = {
        t.name: np.zeros((sizes[str(t.rows)], sizes[str(t.cols)]), np.uint16)
        for t in kernel.tensor_maps
    }
    trace = run_kernel(kernel, tensors, sizes, grid, trace=True, adversary="lazy")
    a, b, d = (t.name for t in kernel.tensor_maps)
    waits = [("mbarrier.wait", bar.name) for bar in kernel.mbarriers]
    rows = trace.visits(*waits, *(("tma.load", x) for x in (a, b)), ("tma.store", d))
    return list(visits(rows, (a, b), (tile.m, tile.n)))


def visits(
    rows: Iterable[TraceRow], operands: tuple[str, str], tile: tuple[int, int]
) -> Iterable[Visit]:
    """Each wait, with the tile that the loads or the store behind it name."""
    filled: list[TraceRow] = []
    steps: list[TraceRow] = []
    first = [0, 0]
    for row in rows:
        if row.op == "mbarrier.wait":
            (filled if row.target.endswith("empty") else steps).append(row)
        elif row.op == "tma.load":
            first[operands.index(row.target)] = row.row
            if row.target == operands[1]:
                (wait,) = filled
                at = first[0] // tile[0], first[1] // tile[1]
                yield row.cta, -1, at, row.col // DEPTH, wait.index, wait.parity
                filled = []
        else:  # a tile may be stored in several boxes
            for k, wait in enumerate(steps):
                at = row.row // tile[0], row.col // tile[1]
                yield row.cta, row.group, at, k, wait.index, wait.parity
            steps = []


def table(found: list[Visit]) -> str:
    """A line for each visit; tiles are numbered as the CTA's load role comes to them."""
    lines = []
    for cta, group, tile, k, stage, parity in found:
        loaded = list(dict.fromkeys(v[2] for v in found if v[:2] == (cta, -1)))
        who = "load   " if group < 0 else f"group {group}"
        lines.append(
            f"cta {cta} {who}  tile {loaded.index(tile)} (m {tile[0]}, n {tile[1]})"
            f"  k {k}  stage {stage} parity {parity}\n"
        )
    return "".join(lines)


def test_pingpong_three_tiles_on_one_cta(golden: object) -> None:
    assert table(run("ping_pong", 1, 3, 2, grid=1)) == golden


def test_pingpong_five_tiles_on_two_ctas(golden: object) -> None:
    assert table(run("ping_pong", 5, 1, 2, grid=2)) == golden


def test_pingpong_with_an_idle_group(golden: object) -> None:
    assert table(run("ping_pong", 1, 1, 4, grid=1)) == golden


def test_cluster_with_three_tiles(golden: object) -> None:
    """CTA 1 has no second tile (m 3 of 3): it loads its half of B, waits and arrives all the same.

    What it loads and stores of tile m 3 is out of bounds: zeros, and nothing.
    """
    assert table(run(CLUSTER_2X1, 3, 1, 2, grid=2)) == golden


@pytest.mark.slow
@budget(12)
@given(
    st.sampled_from(tuple(SMALL)),
    st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 4)),
    st.integers(1, 3),
)
def test_every_load_step_is_consumed_once_with_its_stage(
    name: str, extents: tuple[int, int, int], grid: int
) -> None:
    """By one group in ping-pong, by both in a cooperative kernel; and all tiles are visited."""
    m, n, k = extents
    if name == "non_persistent":
        grid = m * n
    found = run(name, *extents, grid=grid)
    loads = [(cta, *step) for cta, group, *step in found if group < 0]
    by_group = [[(c, *s) for c, g, *s in found if g == group] for group in (0, 1)]
    assert len(set(loads)) == len(loads) == m * n * k
    assert {step[1] for step in loads} == {(i, j) for i in range(m) for j in range(n)}
    for cta in range(grid):
        mine = [step for step in loads if step[0] == cta]
        assert [s[3:] for s in mine] == [(i % 3, i // 3 % 2) for i in range(len(mine))]
        groups = [[s for s in of if s[0] == cta] for of in by_group]
        if name == "ping_pong":
            turns = [mine[i : i + k] for i in range(0, len(mine), k)]
            assert groups == [[step for turn in turns[g::2] for step in turn] for g in (0, 1)]
        else:
            assert groups == [mine, mine]


@pytest.mark.parametrize("name", SMALL)
def test_without_k_no_step_is_visited(name: str) -> None:
    assert run(name, 1, 2, 0, grid=2) == []
