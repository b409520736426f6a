"""The two sides of an edge: what fills a ring, what reads it, and what both run on."""

from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError
from lowering.target.targets import DEFAULT
from tests.schedule.fusions import LOADS, ON_TIDY, buffered, cached, linear, merged, tiled
from tests.schedule.gated import gated, two_results
from tests.schedule.gated import scheduled as gated_schedule
from wsched.fusion import Fusion, ParallelType, Pipelined
from wsched.schedule import TransformGraph
from wsched.schedule.proof.sides import Readers, find_sides


def sides(fusion: Fusion) -> tuple[Readers, ...]:
    return find_sides(fusion, TransformGraph(fusion), DEFAULT)


def refused(fusion: Fusion) -> tuple[str, str, tuple[str, ...]]:
    with pytest.raises(ScheduleError) as error:
        sides(fusion)
    return error.value.rule, error.value.why, error.value.legal


def test_one_ring_and_what_reads_it() -> None:
    (readers,) = sides(buffered(merged()))
    (found,) = readers.sides
    assert tuple(t.name for t in found.loads) == LOADS and found.ring == found.loads
    assert (found.compute.name, found.load_loop, found.alone) == ("T4", "tile·k", True)
    assert readers.sums
    assert {g.label: str(e) for g, e in found.on_ctas.items()} == {"cta": "%ctaid.x"}


def test_loops_merged_into_one_on_ctas_are_on_them_too() -> None:
    s = tiled()
    for tv in (*LOADS, "T4"):
        s.parallelize(tv, 0, ParallelType.Serial)
        s.split(tv, 0, 2, labels=("pair", "half"))
        s.merge(tv, 0, label="cta")
        s.parallelize(tv, 0, ParallelType.BIDx)
    for tv in LOADS:
        s.merge(tv, 1)
    ((found,),) = (r.sides for r in sides(buffered(s)))
    assert {g.label: str(e) for g, e in found.on_ctas.items()} == {
        "cta": "%ctaid.x", "pair": "%ctaid.x // 2", "half": "%ctaid.x % 2",
    }  # fmt: skip


def test_readers_of_one_part_and_of_two() -> None:
    """Two sums of one part take steps together, those of two parts each for themselves."""
    (together,) = sides(gated_schedule(gated()).fusion)
    assert [s.compute.name for s in together.sides] == ["T4", "T8"]
    apart = sides(gated_schedule(two_results()).fusion)
    assert [[s.compute.name for s in r.sides] for r in apart] == [["T4"], ["T8"]]
    assert not apart[0].sides[0].alone


def test_nothing_is_loaded() -> None:
    why = "no tensor is loaded by TMA: cache_after the operands of the mma"
    assert refused(linear()) == ("ring", why, ())


def test_a_load_without_stages() -> None:
    s = merged()
    s.circular_buffer("T6", 4, 2, ON_TIDY)
    why = "every TMA cacheAfter tensor is circular-buffered; T7 is not"
    assert refused(s.fusion) == ("ring", why, ())
    assert refused(cached().fusion)[1].endswith("T6, T7 are not")


def test_stages_of_one_ring_are_alike() -> None:
    s = merged()
    s.circular_buffer("T6", 4, 2, ON_TIDY)
    s.circular_buffer("T7", 4, 2, Pipelined())
    why = "the operands of one mma are circular-buffered alike, these are not"
    legal = (f"circular_buffer('T7', 4, 2, {str(s.history[-2]).split(', ', 3)[3]}",)
    assert refused(s.fusion) == ("ring", why, legal)


def test_what_is_split_and_merged_again_fills_the_same_stages() -> None:
    s = tiled()
    s.split("T7", 2, 4, labels=("ko", "ki"))
    for tv in ("T6", "T7", "T7"):
        s.merge(tv, 1)
    (readers,) = sides(buffered(s))
    assert readers.sides[0].ring == readers.sides[0].loads


def test_what_counts_otherwise_does_not() -> None:
    s = tiled()
    s.merge("T6", 1)
    s.merge("T7", 2, 1)
    assert refused(buffered(s)) == (
        "load-loop",
        "T6 and T7 fill one stage together, but their loops left of the stage differ: cta [BIDx], "
        "tile·k [Serial] and cta [BIDx], k·tile [Serial]",
        (),
    )
