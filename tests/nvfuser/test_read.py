"""Schedules written with nvFuser's primitives, read into wsched's IR; nvFuser needs no GPU here."""

from __future__ import annotations

from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.fusion import MemoryType, Merge, ParallelType, Split
from wsched.nvfuser.read import read_schedule


@pytest.fixture(scope="module")
def nvf() -> Any:
    return pytest.importorskip("nvfuser_direct")


@pytest.fixture
def by_hand(nvf: Any) -> Any:
    """A linear with a relu, its operands cached by TMA, tiled 128 x 256 x 64."""
    bf16 = nvf.DataType.BFloat16
    with nvf.FusionDefinition() as fd:
        a, b = (
            fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=bf16) for _ in range(2)
        )
        y = fd.ops.relu(fd.ops.cast(fd.ops.linear(a, b), dtype=nvf.DataType.Float))
        out = fd.ops.cast(y, dtype=bf16)
        fd.add_output(out)
        for operand, rows in ((a, 128), (b, 256)):
            cached = operand.cache_after(nvf.LoadStoreOpType.tma)
            cached.set_memory_type(nvf.MemoryType.shared)
            cached.split(0, rows)
            cached.split(2, 64)
            cached.reorder({1: 2, 2: 1})
            cached.axis(2).parallelize(nvf.ParallelType.tma)
            cached.axis(3).parallelize(nvf.ParallelType.tma)
        out.split(0, 128)
        out.split(2, 256)
        out.reorder({1: 2, 2: 1})
        out.merge(0, 1)
        out.split(0, 132, inner_split=False)
        out.axis(0).parallelize(nvf.ParallelType.grid_x)
        fd.sched.inline_at(out, 2)
    return fd


def test_by_hand(by_hand: Any, golden: Any) -> None:
    assert str(read_schedule(by_hand)) == golden


def test_objects(by_hand: Any) -> None:
    read = read_schedule(by_hand)
    cached = read.tensor("T6")
    assert (cached.view.memory, cached.operation, cached.inputs) == (
        MemoryType.Shared,
        "CpAsyncBulkTensorTile",
        ("T0",),
    )
    assert [d.parallel for d in cached.view.loop[2:]] == [ParallelType.Bulk] * 2
    out = read.tensor("T5").view
    kinds = [type(t) for t in out.transforms]
    assert kinds == [Split, Split, Merge, Split]
    assert not out.transforms[3].inner_split  # type: ignore[union-attr]
    assert str(out.loop[1].extent) == "ceildiv(ceildiv(i0, 128) * ceildiv(i3, 256), 132)"
    assert read.tensor("T2").inputs == ("T6", "T7")


def test_transforms_are_what_the_primitives_make(by_hand: Any) -> None:
    """Every domain of a loop nest is a dimension or comes out of exactly one transform."""
    for tensor in read_schedule(by_hand).tensors:
        alive = {d.id for d in tensor.view.logical}
        for step in tensor.view.transforms:
            alive -= {d.id for d in step.inputs}
            alive |= {d.id for d in step.outputs}
        assert alive == {d.id for d in tensor.view.loop}


def test_a_swizzle_is_opaque(nvf: Any) -> None:
    with nvf.FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=nvf.DataType.Float)
        y = fd.ops.relu(x)
        fd.add_output(y)
        y.split(1, 8)
        y.split(0, 8)
        y.swizzle(1, 3)
    read = read_schedule(fd).tensor("T1")
    (opaque,) = read.opaque
    assert opaque.startswith("Xor(2D): ")
    assert str(read).endswith(f"\n  {opaque}")


def test_what_a_swizzle_is_of_is_read(nvf: Any) -> None:
    """Nothing but the swizzle leads to it."""
    with nvf.FusionDefinition() as fd:
        x = fd.define_tensor(shape=[2, 4, 8], contiguity=True, dtype=nvf.DataType.Float)
        y = fd.ops.relu(x)
        fd.add_output(y)
        y.merge(0, 1)
        y.swizzle(0, 1)
    view = read_schedule(fd).tensor("T1").view
    assert [type(t) for t in view.transforms] == [Merge]
    assert {d.id for d in view.loop}.isdisjoint(d.id for t in view.transforms for d in t.outputs)


def test_a_parallel_type_without_a_word(nvf: Any) -> None:
    with nvf.FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=nvf.DataType.Float)
        y = fd.ops.relu(x)
        fd.add_output(y)
        y.axis(0).parallelize(nvf.ParallelType.stream)
    with pytest.raises(UnsupportedError) as error:
        read_schedule(fd)
    assert str(error.value) == (
        "the parallel type 'streamIdx' of a loop of T1 in nvFuser's schedule is not supported; "
        "supported: S, UR, V, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, "
        "threadIdx.z, B, MMA"
    )


def test_a_text_has_no_schedule() -> None:
    with pytest.raises(UnsupportedError) as error:
        read_schedule("def nvfuser_fusion(fd : FusionDefinition) -> None :\n")
    assert str(error.value) == (
        "the schedule of a str is not supported; supported: nvfuser_direct.FusionDefinition: its "
        "text does not tell the schedule"
    )
