"""Accumulators in tensor memory: parts, edges with their relations, and refusals."""

from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.nest.lower import lower
from lowering.target.blackwell import BLACKWELL
from tests.blackwell import Tile, plan, scheduled
from tests.rungs import scheduled as rung
from tests.schedules import definition
from wsched.fusion import LoadStoreOpType, MemoryType, ParallelType, Pipelined, WarpSpecialized
from wsched.importer import build_fusion, record_text
from wsched.schedule import Schedule
from wsched.schedule.parts import titles
from wsched.schedule.plan import make_plan


def test_three_parts_and_two_edges() -> None:
    p = plan()
    assert titles(p.fusion, p.parts) == [
        "load T6, T7 (ring, 4 stages)",
        "compute T4 (acc, 2 stages)",
        "epilogue T5",
    ]
    assert [part.issued for part in p.parts] == [False, True, False]
    assert [(e.name, e.producer, e.consumer) for e in p.edges] == [("ring", 0, 1), ("acc", 1, 2)]
    assert p.threads == 256  # a warpgroup stores; of the other one a warp loads, one multiplies


def test_the_accumulators_step_is_the_tile() -> None:
    operands, sums = plan().relations
    assert (
        str(sums)
        == """\
T4: tile = i74
  i74 = tile [Serial] steps by 1
  each step is consumed by every compute warpgroup of 1
  while %ctaid.x + %nctaid.x * i74 < ceildiv(M, 128) * ceildiv(N, 64)
"""
    )
    assert operands.compute == "T4" and operands.outside == sums.outside == 1


def test_two_warpgroups_read_each_sum() -> None:
    p = plan(Tile(m=256, n=64, groups=2))
    assert p.relations[1].warpgroups.count == 2
    assert p.threads == 384


def cached(target: object = BLACKWELL) -> tuple[Schedule, str]:
    s = Schedule(build_fusion(record_text(definition())), target=target)  # type: ignore[arg-type]
    return s, s.fusion.mmas[0].output


def test_what_is_in_tensor_memory() -> None:
    s, acc = cached()
    with pytest.raises(ScheduleError, match="LdTMem reads tensor memory, T4 is in Local memory"):
        s.cache_after(acc, LoadStoreOpType.LdTMem)
    s.set_memory_type(acc, MemoryType.Tensor)
    with pytest.raises(ScheduleError, match="Set does not, T4 is in Tensor memory"):
        s.cache_after(acc)
    read = s.cache_after(acc, LoadStoreOpType.LdTMem)
    with pytest.raises(ScheduleError, match=f"{read} is no accumulator of an mma"):
        s.set_memory_type(read, MemoryType.Tensor)
    with pytest.raises(ScheduleError, match="LdTMem reads tensor memory into registers"):
        s.cache_before(s.outputs[0], LoadStoreOpType.LdTMem)


def test_each_target_has_its_memory() -> None:
    with pytest.raises(ScheduleError) as error:
        make_plan(scheduled())
    assert error.value.why == "mma writes Local memory, T4 is in Tensor memory"
    s, _ = cached()
    for tv in (s.a, s.b):
        s.set_memory_type(
            s.cache_after(tv, LoadStoreOpType.CpAsyncBulkTensorTile), MemoryType.Shared
        )
    with pytest.raises(ScheduleError) as error:
        make_plan(s.fusion, target=BLACKWELL)
    assert error.value.why == "mma writes Tensor memory, T4 is in Local memory"
    assert error.value.legal == ("set_memory_type('T4', MemoryType.Tensor)",)


def test_nothing_but_a_load_reads_it() -> None:
    s, acc = cached()
    s.set_memory_type(acc, MemoryType.Tensor)
    for tv in (s.a, s.b):
        s.set_memory_type(
            s.cache_after(tv, LoadStoreOpType.CpAsyncBulkTensorTile), MemoryType.Shared
        )
    with pytest.raises(ScheduleError, match="reads Local memory, T4 is in Tensor memory"):
        make_plan(s.fusion, target=BLACKWELL)


def test_how_it_is_circular_buffered() -> None:
    s, acc = cached()
    s.set_memory_type(acc, MemoryType.Tensor)
    s.split(acc, 0, 128, labels=("tile", "Mi"))
    ring = WarpSpecialized(ParallelType.TIDy, None, 1)
    with pytest.raises(ScheduleError, match="who reads it does not run ahead"):
        s.circular_buffer(acc, 2, 1, Pipelined())
    s.parallelize(acc, 1, ParallelType.TIDy)
    with pytest.raises(ScheduleError, match=r"loop Mi \[TIDy\] lies in a stage"):
        s.circular_buffer(acc, 2, 1, ring)


def test_sums_in_place_are_a_ring_of_their_part() -> None:
    """In no circular buffer: the part that multiplies reads them, tile by tile."""
    p = plan(Tile(sums=0))
    assert titles(p.fusion, p.parts) == ["load T6, T7 (ring, 4 stages)", "compute T4 (acc)"]
    assert [(e.name, e.producer, e.consumer) for e in p.edges] == [("ring", 0, 1), ("acc", 1, 1)]
    assert [e.in_place for e in p.edges] == [False, True]
    assert str(p.relations[1]).startswith("T4: tile = i74\n")
    assert p.threads == 256 and not any(part.issued for part in p.parts)


def test_a_ring_of_sums_has_load_warps() -> None:
    """Who issues products for others loads for nobody."""
    s = rung(6, "sm_100a")
    s.inline_at("T4", 0)
    s.circular_buffer("T4", 2, 1, WarpSpecialized(ParallelType.TIDy, None, 2))
    with pytest.raises(UnsupportedError, match="2 parts that compute, with Pipelined loads"):
        lower(s.plan(), "linear")


def test_a_tile_for_each_cta_is_one_step_of_sums() -> None:
    sums = rung(3, "sm_100a").plan().relations[1]
    assert (sums.nest, str(sums).splitlines()[0]) == ((), "T4: step = 0")


def test_sums_that_nobody_says_are_whole() -> None:
    s = rung(3, "sm_100a")
    s.inline_at("T4", 0)
    with pytest.raises(UnsupportedError) as error:
        lower(s.plan(), "linear")
    assert str(error.value).startswith(
        "T4 in tensor memory, of which nobody says when it is whole is not supported; supported: "
        "T4 inlined in the loops over tiles, or circular-buffered"
    )


def test_several_warpgroups_read_no_sums_in_place() -> None:
    """Of one that issues: others would read what is none of theirs, or have sums of their own."""
    with pytest.raises(ScheduleError, match=r"T8, which reads it, on cta \[BIDx\], group \[TIDy\]"):
        plan(Tile(m=256, groups=2, sums=0))
    s = Schedule(scheduled(Tile(m=256, groups=2, sums=0)), target=BLACKWELL)
    s.parallelize("T4", s.axis("T4", "m128"), ParallelType.TIDy)
    with pytest.raises(UnsupportedError) as error:
        lower(make_plan(s.fusion, target=BLACKWELL), "linear")
    assert str(error.value).startswith(
        "loop m128 2 [TIDy] of T4 in tensor memory, in no ring, is not supported; supported: one "
        "warpgroup, or circular_buffer of T4: others read it"
    )
