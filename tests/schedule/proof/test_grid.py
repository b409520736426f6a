"""The grid is what the schedule says, and a cluster shares what it loads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import ExprLike, Special
from lowering.target.targets import DEFAULT
from tests.schedule.fusions import COOPERATIVE, NON_PERSISTENT, linear
from tests.schedule.whole import Tiling, result, whole
from tests.schedules import cooperative, split_k
from wsched.fusion import ParallelType
from wsched.schedule import ClusterDims, MatmulParams, Schedule, make_plan, plan_matmul
from wsched.schedule.proof.grid import cluster_size, largest_numbers

CTAS = Special("nctaid.x")


def dealt_to(ctas: ExprLike, parallel: ParallelType = ParallelType.BIDx) -> Tiling:
    """Every n-th tile to each of ``ctas``."""

    def tiles(s: Schedule, tv: str) -> None:
        s.merge(tv, 0, label="tiles")
        s.split(tv, 0, ctas, labels=("tile", "cta"))
        s.reorder(tv, {1: 0})
        s.parallelize(tv, 0, parallel)

    return Tiling(tiles, lambda s, tv: s.merge(tv, 1), size=(128, 64, 64), rows=64)


def test_a_constant_grid() -> None:
    p = make_plan(whole(dealt_to(4)).fusion)
    assert (str(p.grid), p.cluster) == ("4", ())
    for m in (100, 128 * 7):
        got, wanted = result(p, m, 72, 72, sms=2)
        assert (got == wanted).all()


def test_numbers_that_have_to_fit() -> None:
    """What a split and a merge count together, and what factors and traversals are computed of."""
    s = Schedule(linear())
    s.split("T5", 0, CTAS * 2, labels=("Mo", "Mi"))
    s.split("T5", 2, 64, labels=("No", "Ni"))
    s.reorder("T5", {2: 1})
    s.merge("T5", 0, traversal=8, label="tiles")
    assert [str(e) for e in largest_numbers(s.fusion)] == [
        "ceildiv(M, %nctaid.x * 2) * (%nctaid.x * 2)",
        "%nctaid.x * 2",
        "%nctaid.x",
        "ceildiv(N, 64) * 64",
        "ceildiv(M, %nctaid.x * 2) * ceildiv(N, 64)",
        "ceildiv(N, 64) * 8",
    ]


REFUSED: dict[str, Tiling] = {
    "twice_as_many": dealt_to(CTAS * 2),
    "a_few_more": dealt_to(CTAS + 1),
    "pairs_without_a_cluster": dealt_to(CTAS // 2 * 2),
    "on_another_axis": dealt_to(CTAS, ParallelType.BIDy),
}


def test_a_loop_of_one_iteration_where_ctas_have_parts_of_a_sum() -> None:
    """It is on the first of them, and who adds up the parts is the last."""
    s = Schedule(plan_matmul(linear(), split_k(cooperative(128, 128), 2)).fusion)
    s.parallelize("T9", s.axis("T9", "m64"), ParallelType.BIDz)
    with pytest.raises(ScheduleError) as error:
        make_plan(s.fusion)
    assert (error.value.rule, error.value.why, error.value.legal) == (
        "grid",
        "loop m64 of T9 has one iteration, and along BIDz 2 CTAs have a part of T4 each",
        ("parallelize('T9', 4, ParallelType.Serial)",),
    )
    s.parallelize("T9", 4, ParallelType.Serial)
    assert make_plan(s.fusion).work.splits == 2


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, golden: object) -> None:
    with pytest.raises(ScheduleError) as error:
        make_plan(whole(REFUSED[name]).fusion)
    assert str(error.value) == golden


@pytest.mark.parametrize(
    ("params", "grid"),
    [
        (COOPERATIVE, None),
        (NON_PERSISTENT, "ceildiv(M, 128) * ceildiv(N, 256)"),
        (replace(COOPERATIVE, cluster_dims=ClusterDims(2, 1)), None),
        (
            replace(NON_PERSISTENT, cluster_dims=ClusterDims(1, 2)),
            "ceildiv(M, 128) * ceildiv(ceildiv(N, 256), 2) * 2",
        ),
    ],
)
def test_grids_of_the_scheduler(params: MatmulParams, grid: str | None) -> None:
    p = plan_matmul(linear(), params)
    assert (None if p.grid is None else str(p.grid)) == grid
    dims = params.cluster_dims
    wanted = (dims.m, dims.n) if dims.m * dims.n > 1 else ()
    assert tuple(int(str(g.extent)) for g in p.cluster) == wanted


def test_neighbours_that_share_nothing_are_no_cluster() -> None:
    """Four tiles in a row, of all tiles: no operand is the same for all four."""

    def tiles(s: Schedule, tv: str) -> None:
        s.merge(tv, 0, label="tiles")
        s.split(tv, 0, 4, labels=("four", "one"))
        s.merge(tv, 0, label="cta")
        s.parallelize(tv, 0, ParallelType.BIDx)

    p = make_plan(
        whole(Tiling(tiles, lambda s, tv: None, size=(128, 64, 64), rows=64, inline=2)).fusion
    )
    assert p.cluster == ()


@pytest.mark.slow
def test_a_cluster_is_one_that_the_target_runs() -> None:
    """Neighbours share what they load as far as they can be launched together."""

    def tiles(s: Schedule, tv: str) -> None:
        s.split(tv, s.axis(tv, "No"), 4, labels=("No", "four"))
        s.split(tv, s.axis(tv, "Mo"), 4, labels=("Mo", "rows"))
        s.reorder(
            tv, {s.axis(tv, label): n for n, label in enumerate(("Mo", "No", "rows", "four"))}
        )
        for _ in range(3):
            s.merge(tv, 0, label="cta")
        s.parallelize(tv, 0, ParallelType.BIDx)

    tiling = Tiling(tiles, lambda s, tv: None, size=(128, 64, 64), rows=64, inline=2)
    fusion = whole(tiling).fusion
    for most, labels in ((16, ["rows", "four"]), (8, ["four"]), (4, ["four"]), (2, [])):
        made = make_plan(fusion, target=replace(DEFAULT, max_cluster=most))
        assert [g.label for g in made.cluster] == labels
    got, wanted = result(make_plan(fusion), 700, 304, 104, sms=8)
    assert (got == wanted).all()


def test_clusters_of_the_scheduler_are_those_of_the_target() -> None:
    params = replace(COOPERATIVE, cluster_dims=ClusterDims(4, 4))
    assert (
        cluster_size(plan_matmul(linear(), params, replace(DEFAULT, max_cluster=16)).cluster) == 16
    )
    with pytest.raises(ScheduleError) as error:
        plan_matmul(linear(), params)
    assert error.value.why == "a cluster of 4 x 4 CTAs, at most 8 fit"
