"""Accumulators in tensor memory: parts, edges with their relations, and refusals."""

from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.nest.lower import lower
from lowering.target.blackwell import BLACKWELL
from tests.blackwell import Tile, plan, scheduled
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


def test_a_kernel_needs_the_ring() -> None:
    """Sums that nobody hands on are refused by name."""
    p = make_plan(scheduled(Tile(sums=0)), target=BLACKWELL)
    with pytest.raises(UnsupportedError) as error:
        lower(p, "linear")
    assert str(error.value).startswith(
        "T4 in tensor memory, read by who issues its products is not supported; supported: "
        "circular_buffer of T4: others read it"
    )
