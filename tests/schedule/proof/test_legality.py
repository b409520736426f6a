"""The relation between load and compute side of legal schedules."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lowering.ground.expr import Const, Var, evaluate
from tests.schedule.fusions import (
    CLASSES,
    COOPERATIVE,
    LOADS,
    NON_PERSISTENT,
    PING_PONG,
    buffered,
    linear,
    merged,
    split_tile,
    tiled,
)
from tests.schedule.relation import load_relation
from wsched.fusion import IterType, ParallelType
from wsched.schedule import (
    ClusterDims,
    FromQueue,
    InTurn,
    TilingStrategy,
    schedule_matmul,
)
from wsched.schedule.proof.legality import _tiles
from wsched.schedule.proof.relation import StepLoop


def test_cooperative() -> None:
    r = load_relation(schedule_matmul(linear(), COOPERATIVE))
    assert (r.loads, r.compute, r.warpgroups.count) == (LOADS, "T4", 2)
    assert (r.cooperative, r.warp_specialized, r.roles) == (True, True, ())
    assert [(s.domain.label, str(s.coefficient)) for s in r.steps] == [
        ("tile", "ceildiv(K, 64)"),
        ("k", "1"),
    ]
    assert r.tail is not None and r.tail.ended == {r.digits[0].var}
    assert str(r.digits[0].stop) == (
        "ceildiv(max(ceildiv(M, 128) * ceildiv(N, 256) - %ctaid.x, 0), %nctaid.x)"
    )
    assert str(r.load_stop) == f"{r.digits[0].stop} * ceildiv(K, 64)"


def test_ping_pong() -> None:
    r = load_relation(schedule_matmul(linear(), PING_PONG))
    assert (r.cooperative, r.warpgroups.count) == (False, 2)
    assert [(s.domain.label, str(s.coefficient), s.role) for s in r.steps] == [
        ("tile", "ceildiv(K, 64) * 2", False),
        ("group", "ceildiv(K, 64)", True),
        ("k", "1", False),
    ]
    assert r.tail is not None and r.tail.ended == {r.digits[0].var} and len(r.roles) == 1
    # 5 tiles on 2 CTAs: CTA 0 has 3 of them, 2 for group 0 and 1 for group 1; CTA 1 has one each.
    env = {"M": 128 * 5, "N": 128, "K": 256, "%nctaid.x": 2}
    stops = {
        (cta, group): evaluate(
            r.digits[0].stop, {**env, "%ctaid.x": cta, r.roles[0].var.name: group}
        )
        for cta in (0, 1)
        for group in (0, 1)
    }
    assert stops == {(0, 0): 2, (0, 1): 1, (1, 0): 1, (1, 1): 1}
    assert [evaluate(r.load_stop, {**env, "%ctaid.x": cta}) for cta in (0, 1)] == [12, 8]


def test_idle_group_and_idle_cta() -> None:
    r = load_relation(schedule_matmul(linear(), PING_PONG))
    assert r.tail is not None and r.tail.ended == {r.digits[0].var} and len(r.roles) == 1
    env = {"M": 1, "N": 1, "K": 64, "%nctaid.x": 4}
    for cta, stop in ((0, 1), (1, 0), (3, 0)):
        assert evaluate(r.load_stop, {**env, "%ctaid.x": cta}) == stop
    group_one = {**env, "%ctaid.x": 0, r.roles[0].var.name: 1}
    assert evaluate(r.digits[0].stop, group_one) == 0


def test_non_persistent() -> None:
    r = load_relation(schedule_matmul(linear(), NON_PERSISTENT))
    assert [s.domain.label for s in r.steps] == ["k"]
    assert r.tail is None
    assert str(r.load_stop) == "ceildiv(K, 64)"


def test_pipelined() -> None:
    r = load_relation(schedule_matmul(linear(), CLASSES["pipelined"]))
    assert (r.warp_specialized, r.cooperative, r.warpgroups.count) == (False, True, 2)


def test_cluster() -> None:
    r = load_relation(schedule_matmul(linear(), replace(COOPERATIVE, cluster_dims=ClusterDims(2))))
    assert r.tail is not None
    assert str(r.tail.index) == "%ctaid.x // 2 + %nctaid.x // 2 * i66"
    # 3 rows of tiles are 2 rows of clusters; 2 clusters of 2 CTAs take one column each.
    env = {"M": 128 * 3, "N": 256, "K": 64, "%nctaid.x": 4}
    assert [evaluate(r.load_stop, {**env, "%ctaid.x": cta}) for cta in range(4)] == [1] * 4


def test_compute_may_split_further() -> None:
    """The load side keeps one tile loop; compute deals its tiles out to two warpgroups."""
    s = tiled()
    split_tile(s, ("T4",), 2)
    s.parallelize("T4", 2, ParallelType.TIDy)
    for tv in LOADS:
        s.merge(tv, 1)
    r = load_relation(buffered(s))
    assert [str(x.coefficient) for x in r.steps] == ["ceildiv(K, 64) * 2", "ceildiv(K, 64)", "1"]


def test_neighbouring_tiles() -> None:
    r = load_relation(buffered(merged(strided=False)))
    assert r.tail is not None
    share = "ceildiv(ceildiv(M, 128) * ceildiv(N, 256), %nctaid.x)"
    assert str(r.tail.index) == f"%ctaid.x * {share} + i47"
    env = {"M": 128 * 5, "N": 256, "K": 64, "%nctaid.x": 3}
    assert [evaluate(r.load_stop, {**env, "%ctaid.x": cta}) for cta in range(3)] == [2, 2, 1]


def test_tiles_that_are_dealt_out() -> None:
    """The load index counts the CTA's tiles, whichever they are; only its end is not known."""
    for base, item in ((COOPERATIVE, "i50"), (PING_PONG, "i57 + 2 * i56")):
        strategy = TilingStrategy.DistributeTilesDynamically
        static = load_relation(schedule_matmul(linear(), base))
        r = load_relation(schedule_matmul(linear(), replace(base, tiling_strategy=strategy)))
        assert (type(r.work), type(static.work)) == (FromQueue, InTurn)
        assert r.tail is not None and static.tail is not None
        assert r.tail == static.tail
        assert (str(r.tail.item), str(r.tail.steps)) == (item, "ceildiv(K, 64)")
        assert str(r).splitlines()[-1] == (f"  while dealt[{item}] < {r.tail.extent}")


@pytest.mark.parametrize(
    ("digits", "found"),
    [
        ("", (0, 0)),
        ("c", (0, 0)),
        ("cc", (0, 0)),
        ("u", (1, 1)),
        ("cuc", (2, 2)),
        ("uuc", (2, 2)),
        ("r", (0, 1)),
        ("crc", (0, 2)),
        ("urc", (1, 2)),
        ("ruc", (2, 2)),
        ("urcr", (1, 4)),
        ("s", (0, 0)),
        ("us", (1, 1)),
        ("rcsu", (2, 2)),
        ("usus", (1, 1)),
    ],
)
def test_how_many_digits_choose_a_tile(digits: str, found: tuple[int, int]) -> None:
    """Of known numbers, unknown ones, roles and sums, from the slowest."""

    def digit(kind: str) -> StepLoop:
        iter_type = IterType.Reduction if kind == "s" else IterType.Iteration
        stop = Var("n") if kind in "us" else Const(4)
        domain = SimpleNamespace(iter_type=iter_type)
        return cast(Any, SimpleNamespace(domain=domain, role=kind == "r", stop=stop))

    assert _tiles([digit(kind) for kind in digits]) == found
