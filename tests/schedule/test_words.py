"""Refusals that name two loops: where their labels coincide, something else tells them apart."""

from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError
from tests.schedule.fusions import LOADS, buffered, cached, linear, tile
from tests.schedule.relation import load_relation
from wsched.fusion import ParallelType
from wsched.schedule import (
    Schedule,
)
from wsched.schedule.graph import TransformGraph
from wsched.schedule.proof.placement import check_places
from wsched.schedule.words import labels, words

TILES = "ceildiv(ceildiv(M, 128) * ceildiv(N, 256), %nctaid.x)"


def tiled(**steps: int) -> Schedule:
    """The loads and the accumulator as [cta, tile, k, Mi, Ni, Ki], each with its own step in K."""
    s = cached()
    for tv in (*LOADS, "T4"):
        tile(s, tv, (128, 256, steps[tv]), strided=True)
        box = ParallelType.Mma if tv == "T4" else ParallelType.Bulk
        s.parallelize(tv, (3, 4, 5), box)
    for tv in LOADS:
        s.merge(tv, 1)
    return s


def why(s: Schedule) -> str:
    with pytest.raises(ScheduleError) as error:
        load_relation(buffered(s))
    return error.value.why


def rows(of: dict[str, int], parallel: ParallelType = ParallelType.Serial) -> Schedule:
    s = Schedule(linear())
    for tv, size in of.items():
        s.split(tv, 0, size)
        s.parallelize(tv, 0, parallel)
    return s


def test_loads_of_several_steps() -> None:
    assert why(tiled(T6=32, T7=64, T4=64)) == (
        "T6 and T7 fill one stage together, but their loops left of the stage differ: "
        f"cta [BIDx], tile·k [Serial] (extent {TILES} * ceildiv(K, 32)) and "
        f"cta [BIDx], tile·k [Serial] (extent {TILES} * ceildiv(K, 64))"
    )


def test_a_loop_that_compute_does_not_have() -> None:
    assert why(tiled(T6=32, T7=32, T4=64)) == (
        "the load loop tile·k counts k (extent ceildiv(K, 32)), which is no loop of T4 and made of "
        "none: those are cta, tile, k (extent ceildiv(K, 64)), Mi, Ni, Ki"
    )


def test_inlining() -> None:
    with pytest.raises(ScheduleError) as error:
        rows({"T4": 128, "T5": 64}).inline_at("T4", 1)
    assert error.value.why == (
        "loop 0 of T4 is Mo (extent ceildiv(M, 128)), that of T5 is Mo (extent ceildiv(M, 64))"
    )


def test_places() -> None:
    f = rows({"T4": 128, "T5": 64}, ParallelType.TIDy).fusion
    with pytest.raises(ScheduleError) as error:
        check_places(f, TransformGraph(f))
    assert error.value.why == (
        "T4 is computed on Mo [TIDy] (extent ceildiv(M, 128)), T5, which reads it, on "
        "Mo [TIDy] (extent ceildiv(M, 64)): what a CTA or a warpgroup holds no other one can read"
    )


def named(s: Schedule, loops: dict[str, int]) -> list[str]:
    """The words for one loop of each tensor."""
    graph = TransformGraph(s.fusion)
    sides = [labels(graph, [s.tensor(tv).loop[p]]) for tv, p in loops.items()]
    return [word for side in words(graph, *sides) for word in side]


def test_one_loop_has_one_word() -> None:
    assert named(rows({"T4": 128, "T5": 128}), {"T4": 0, "T5": 0}) == ["Mo", "Mo"]


def test_what_made_loops_of_one_extent() -> None:
    s = rows({"T4": 64, "T5": 64})
    s.split("T4", 1, 2, labels=("half", "pair"))
    s.split("T5", 2, 2, labels=("half", "pair"))
    assert named(s, {"T4": 2, "T5": 3}) == [
        "pair (inner part of Mi{64}, split by 2)",
        "pair (inner part of N{N}, split by 2)",
    ]
    s = rows({"T4": 8, "T5": 8})
    for tv, order in (("T4", (1, 2)), ("T5", (2, 1))):
        s.split(tv, 1, 4, labels=("x", "i"))
        s.split(tv, 2, 2, labels=("y", "z"))
        s.merge(tv, *order, label="pair")
    assert named(s, {"T4": 1, "T5": 1}) == [
        "pair (merge of x{2} and y{2})",
        "pair (merge of y{2} and x{2})",
    ]


def test_variables_tell_the_rest_apart() -> None:
    """The same split of loops of the same label and extent."""
    s = Schedule(linear())
    for tv, size in (("T4", 64), ("T5", 32)):
        s.split(tv, 0, size, labels=("o", "i"))
        s.split(tv, 1, 4, labels=("a", "b"))
        s.split(tv, 2, 2, labels=("c", "d"))
    found = named(s, {"T4": 3, "T5": 3})
    assert [w.split(" (i")[0] for w in found] == ["d", "d"]
    assert len(set(found)) == 2
