"""The cost model against what was measured on an H200 (tests/data, design/performance.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from math import log
from pathlib import Path
from statistics import median

import pytest

from wsched.bench.method.correlation import rank_correlation
from wsched.bench.method.statistic import geometric_mean
from wsched.choose.copy_engine import promotions
from wsched.choose.cost import Cost
from wsched.choose.cost_model import _share, cost, places
from wsched.choose.memory import BYTES_PER_US
from wsched.choose.problem import Problem
from wsched.fusion import DataType
from wsched.schedule.matmul.params import (
    ClusterDims,
    GemmTile,
    L2Promotions,
    MatmulParams,
    TensorMapL2Promotion,
    TilingStrategy,
)
from wsched.schedule.matmul.tiles import fit_stages, with_tile

BF16 = DataType.BFloat16
DATA = json.loads((Path(__file__).parents[1] / "data" / "h200_schedules.json").read_text())

Measured = dict[str, tuple[float, float]]
"""Name of a schedule -> microseconds predicted and measured."""


@cache
def params_of(name: str) -> MatmulParams:
    s = DATA["schedules"][name]
    base = MatmulParams(
        cluster_dims=ClusterDims(*s["cluster"]),
        grid_traversal_factor=(s["traversal"], 1),
        programmatic_dependent_launch=s["dependent"],
    )
    made = with_tile(base, GemmTile(s["m"], s["n"], s["k"]), s["warpgroups"], s["ping_pong"])
    found = fit_stages(made, BF16, (BF16,), ())
    assert found is not None
    return found


@cache
def shapes() -> dict[str, Measured]:
    """What was predicted and measured of each shape."""

    def one(shape: str, us: dict[str, float]) -> Measured:
        m, n, k = map(int, shape.split("x"))
        problem = Problem(m, n, k, BF16, (BF16,), 132)
        names = [name for name in us if name in DATA["schedules"]]
        return {name: (cost(problem, params_of(name)).us, us[name]) for name in names}

    return {shape: one(shape, us) for shape, us in DATA["us"].items()}


def ratios() -> Iterator[float]:
    """Of the fastest schedule's time to that of the one with the least prediction."""
    for us in shapes().values():
        chosen = min(us.values())[1]
        yield min(measured for _, measured in us.values()) / chosen


def spearman(us: Measured) -> float:
    """Rank correlation of what was predicted and measured."""
    found = rank_correlation(*zip(*us.values(), strict=True))
    assert found is not None
    return found


def test_the_least_prediction_is_close_to_the_best() -> None:
    found = list(ratios())
    assert len(found) >= 70
    assert min(found) > 0.87
    assert sum(r < 0.97 for r in found) <= 12
    assert geometric_mean(found) > 0.985


def test_the_order_is_right() -> None:
    assert median(map(spearman, shapes().values())) > 0.89


def test_the_times_are_about_right() -> None:
    errors = [abs(log(p / m)) for us in shapes().values() for p, m in us.values()]
    assert median(errors) < 0.07


# --- the parts ------------------------------------------------------------------------------------


def costed(m: int, n: int, k: int, name: str = "p128x128", **changes: object) -> Cost:
    problem = Problem(m, n, k, BF16, (BF16,), 132)
    return cost(replace(problem, **changes), params_of(name))  # type: ignore[arg-type]


def test_the_parts_add_up() -> None:
    found = costed(8192, 8192, 8192)
    parts = (found.launch_us, found.main_us, found.epilogue_us, found.memory_us, found.power_us)
    assert found.us == pytest.approx(sum(parts)) and min(parts) >= 0
    assert str(found).startswith(f"{found.us:.1f} us: start {found.launch_us:.1f}, k loops ")


def test_one_tile_more_than_fit_is_a_round_more() -> None:
    full, more = (costed(128 * tiles, 128, 4096) for tiles in (132, 133))
    assert (full.rounds, more.rounds) == (1, 2)
    assert more.main_us == pytest.approx(2 * full.main_us)


def test_a_large_problem_is_held_by_power_and_a_small_one_is_not() -> None:
    assert costed(8192, 8192, 8192).power_us > 0.2 * costed(8192, 8192, 8192).us
    assert costed(512, 512, 256).power_us < 0.05 * costed(512, 512, 256).us


def test_one_row_of_tiles_waits_for_memory() -> None:
    found = costed(64, 8192, 8192, "w64x32")
    assert found.us >= 2 * 8192 * 8192 / BYTES_PER_US


def test_ping_pong_hides_an_epilogue_that_a_cooperative_kernel_shows() -> None:
    slower = [
        costed(8192, 8192, 4096, name, work=17).us / costed(8192, 8192, 4096, name).us
        for name in ("p128x128", "c128x256")
    ]
    assert 1 < slower[0] < slower[1]


@pytest.mark.parametrize(
    ("name", "limit"),
    [("c128x256", "tensor cores"), ("p128x128", "shared memory"), ("w64x16", "copies")],
)
def test_what_a_step_waits_for(name: str, limit: str) -> None:
    assert costed(8192, 8192, 8192, name).step == limit


def test_results_of_two_types_cost_their_bytes() -> None:
    both = costed(4096, 4096, 512, results=(BF16, DataType.Float))
    assert both.us > costed(4096, 4096, 512).us


def test_a_smaller_l2_reads_an_operand_again() -> None:
    """B has 134 MB: 8 of 64 rows of tiles at a time. With an L2 that holds it, once."""
    once = costed(8192, 8192, 8192, l2_bytes=2**30)
    assert costed(8192, 8192, 8192).power_us > once.power_us


def test_n_major_tiles_across_lines_cost_more_unless_a_cluster_shares_them() -> None:
    """160 columns are two and a half lines, 192 three, 32 a half one that costs as much."""

    def more(name: str) -> float:
        return costed(8192, 8192, 512, name, n_major=True).us / costed(8192, 8192, 512, name).us

    assert more("p128x160") > 1.02
    assert more("p128x192") == 1.0 < more("w64x32")
    assert more("p128x160_21") < more("p128x160")


def test_unaligned_rows_cost_twice_the_copies_and_clusters_bring_half_of_it_back() -> None:
    """Of 128x128 an aligned step waits for shared memory; an SM asks for half in a cluster."""

    def more(name: str, **rows: int) -> float:
        rows = rows or {"align_a": 16, "align_b": 16}
        return costed(4096, 4096, 4096, name, **rows).us / costed(4096, 4096, 4096, name).us

    assert (
        more("p128x128") > 1.5 and costed(4096, 4096, 4096, align_a=16, align_b=16).step == "copies"
    )
    assert 1 < more("p128x128_21") < 0.85 * more("p128x128")
    assert 1 < more("p128x128", align_b=16) < more("p128x128")
    assert 1 < more("p128x128", align_a=32, align_b=32) < more("p128x128")
    assert 1 < more("p128x128", align_a=64, align_b=64) < more("p128x128", align_a=32, align_b=32)


def test_the_l2_fetches_no_more_than_a_line_of_unaligned_rows() -> None:
    problem = Problem(4096, 4096, 4096, BF16, (BF16,), 132, align_a=16)
    assert promotions(problem) == L2Promotions(a=TensorMapL2Promotion.B128)
    plain, line = (replace(params_of("p128x128"), l2_promotions=p)
                   for p in (L2Promotions(), promotions(problem)))  # fmt: skip
    assert cost(problem, line).us < cost(problem, plain).us


@pytest.mark.parametrize(
    ("sizes", "operand", "narrow"),
    [
        ((16, 8192, 8192), BF16, (False, True)),  # 16 FLOP for a byte of 134 MB
        ((8192, 16, 8192), BF16, (True, False)),
        ((128, 8192, 8192), BF16, (False, True)),
        ((256, 8192, 8192), BF16, (False, False)),
        ((16, 4096, 4096), BF16, (False, False)),  # which stay in the L2
        ((128, 8192, 8192), DataType.Float8_e4m3fn, (False, True)),
    ],
)
def test_the_l2_fetches_single_lines_of_what_streams_by(
    sizes: tuple[int, int, int], operand: DataType, narrow: tuple[bool, bool]
) -> None:
    found = promotions(Problem(*sizes, operand, (BF16,), 132))
    line = TensorMapL2Promotion.B128
    assert (found.a is line, found.b is line) == narrow


@pytest.mark.parametrize(("ctas", "clusters"), [(1, 132), (2, 66), (4, 30)])
def test_clusters_of_four_leave_sms_idle(ctas: int, clusters: int) -> None:
    """A GPC has no multiple of four SMs."""
    assert places(132, ctas) == clusters and places(1, ctas) == 1


def test_clusters_of_any_size_have_places() -> None:
    """Those of three and of six, which nobody chooses, are legal: they have what four and eight do
    of the multiprocessors.
    """
    assert [places(132, ctas) for ctas in range(1, 9)] == [132, 66, 40, 30, 22, 18, 16, 14]
    assert places(4, 8) == 1


def test_tiles_for_more_clusters_than_have_a_place_take_another_round() -> None:
    wide = replace(params_of("p128x128"), cluster_dims=ClusterDims(4, 1))
    problem = Problem(30 * 512, 128, 4096, BF16, (BF16,), 132)
    rounds = [cost(replace(problem, m=problem.m + more), wide).rounds for more in (0, 1)]
    assert rounds == [1, 2]


def test_an_m_major_operand_is_loaded_whole() -> None:
    few, whole = (costed(16, 4096, 4096, "w64x32", m_major=major).us for major in (False, True))
    assert few < whole


@pytest.mark.parametrize(("ctas", "close"), [(66, False), (67, True), (96, True), (132, False)])
def test_two_kernels_in_a_row_share_more_than_half_of_the_sms_unevenly(
    ctas: int, close: bool
) -> None:
    dependent, alone = (costed(64, 64 * ctas, 4096, n) for n in ("w64x64", "w64x64_no"))
    assert (dependent.us > alone.us + 0.5) is close


def test_power_does_not_slow_memory() -> None:
    """Weights that are streamed take as long whatever the tensor cores take of the power."""
    one, many = (costed(m, 8192, 8192, "w64x64") for m in (1, 64))
    assert many.power_us < 0.03 * many.us and one.power_us < 0.03 * one.us
    assert costed(8192, 8192, 8192).power_us > 0.2 * costed(8192, 8192, 8192).us


def test_columns_of_a_tile_count_by_sixteen() -> None:
    """152 columns take the time of 160 of the tensor cores."""
    problem = Problem(8192, 8192, 8192, BF16, (BF16,), 132)
    loops = []
    for n in (152, 160):
        made = with_tile(MatmulParams(), GemmTile(128, n, 64), 2, True)
        found = fit_stages(made, BF16, (BF16,), ())
        assert found is not None
        loops.append(cost(problem, found))
    assert loops[0].step == loops[1].step == "tensor cores"
    rounds = [found.rounds for found in loops]
    assert loops[0].main_us / rounds[0] == pytest.approx(loops[1].main_us / rounds[1])


def test_matrices_cost_their_bytes_whoever_reads_them() -> None:
    by_tma = costed(8192, 8192, 512, matrices=(BF16,), inputs=(BF16,))
    by_threads = costed(8192, 8192, 512, matrices=(BF16,), inputs=None)
    assert by_tma.us == by_threads.us > costed(8192, 8192, 512).us


@pytest.mark.parametrize(("share", "steps"), [(5, 7), (7, 5), (3, 16), (16, 3), (9, 11), (4, 4)])
def test_ctas_that_share_a_tile_of_stream_k(share: int, steps: int) -> None:
    """Counted where each has so many steps of tiles that have so many."""
    ctas = steps * 12
    tiles = share * ctas // steps
    met = [t * steps // share for t in range(tiles)]
    last = [((t + 1) * steps - 1) // share for t in range(tiles)]
    dealt_out = MatmulParams(tiling_strategy=TilingStrategy.DistributeStagesAcrossSMs)
    found = _share(dealt_out, 1, tiles, steps, ctas)
    most = max(b - a + 1 for a, b in zip(met, last, strict=True))
    assert (found.steps, found.parts) == (share, most)
