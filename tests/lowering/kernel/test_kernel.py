"""Storage declarations and types: sizes, places of elements, lookups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.ground.expr import ONE, ZERO, Const, Var
from lowering.ground.types import FragmentType, Swizzle
from lowering.kernel.kernel import (
    Kernel,
    MBarrierArray,
    NamedBarrierArray,
    Ring,
    SharedBuffer,
)
from lowering.kernel.nodes import GmemRef, SmemRef
from lowering.kernel.text import parse_kernel
from tests.lowering.kernel.samples import ALL_NODES


@pytest.mark.parametrize(
    ("swizzle", "place", "byte"),
    [
        (Swizzle.NONE, (0, 1, 1), 258),  # a row of 128 elements, then one
        (Swizzle.B128, (0, 0, 8), 16),
        (Swizzle.B128, (0, 1, 0), 128 + 16),  # line 1: chunk 0 is stored as chunk 1
        (Swizzle.B128, (0, 7, 56), 7 * 128),  # chunk 7 of line 7 as chunk 0
        (Swizzle.B128, (0, 8, 0), 1024),  # the pattern begins anew
        (Swizzle.B128, (0, 0, 64), 64 * 128),  # the second box of 64 columns
        (Swizzle.B128, (1, 0, 0), 64 * 256),
        (Swizzle.B64, (0, 2, 0), 128 + 16),
        (Swizzle.B32, (0, 4, 8), 128),
    ],
)
def test_place_of_an_element(swizzle: Swizzle, place: tuple[int, int, int], byte: int) -> None:
    assert SharedBuffer("s", DType.BF16, 2, (64, 128), swizzle).byte(*place) == byte


@pytest.mark.parametrize("swizzle", Swizzle)
def test_every_element_has_a_place_of_its_own(swizzle: Swizzle) -> None:
    buffer = SharedBuffer("s", DType.F32, 2, (16, 64), swizzle)
    places = {buffer.byte(s, r, c) for s in range(2) for r in range(16) for c in range(64)}
    assert places == set(range(0, 2 * buffer.stage_bytes, 4))


def test_matrices_of_a_tile_lie_one_behind_the_other() -> None:
    """Within each box of columns; TMA writes a box of several so."""
    buffer = SharedBuffer("s", DType.BF16, 2, (3, 2, 16, 128), Swizzle.B128)
    assert (buffer.rows, buffer.cols, buffer.lines) == (16, 128, 96)
    assert buffer.byte(0, 2, 1, 8, 0) == ((2 * 2 + 1) * 16 + 8) * 128
    assert buffer.byte(1, 0, 1, 0, 64) == 96 * 256 + (96 + 16) * 128
    vector = SharedBuffer("v", DType.F32, 2, (64,))
    assert (vector.rows, vector.lines, vector.byte(1, 3)) == (1, 1, 268)


def test_references_move_within_their_matrix() -> None:
    place = SmemRef("s", ZERO, (Var("b"), Const(1), Const(2)))
    assert place.moved(4, 8).coords == (Var("b"), Const(5), Const(10))
    assert place.moved(2, 0, 0).coords == (Var("b") + 2, Const(1), Const(2))
    assert GmemRef("v", (Const(3),)).moved(0, 8).coords == (Const(11),)
    assert (place.row, place.col, GmemRef("v", (Const(3),)).row) == (Const(1), Const(2), ZERO)


def test_fragment_registers() -> None:
    kind = FragmentType(DType.F32, 64, 256)
    assert (kind.registers, FragmentType(DType.BF16, 128, 64).registers) == (128, 32)
    assert str(kind.flying()) == "frag<f32, 64x256, async>"
    assert kind.flying().settled() == kind != kind.flying()


def test_lookups() -> None:
    kernel = parse_kernel(ALL_NODES)
    found = (
        kernel.tensor_map("D"), kernel.buffer("D_s"), kernel.mbarrier("empty"),
        kernel.named_barrier("turn"), kernel.ring("ring2"),
    )  # fmt: skip
    assert [x.name for x in found] == ["D", "D_s", "empty", "turn", "ring2"]


def test_storage_that_is_missing() -> None:
    kernel = parse_kernel(ALL_NODES)
    assert kernel.find(MBarrierArray, "D_s") is None
    with pytest.raises(InternalError) as error:
        kernel.mbarrier("D_s")
    assert error.value.why == f"{kernel.name} has no MBarrierArray named D_s"


def test_changes_of_storage() -> None:
    """What is new stands behind its kind, what is changed in its place."""
    a, b = MBarrierArray("a", 2, 1), MBarrierArray("b", 2, 1)
    buffer, turn = SharedBuffer("s", DType.F16, 2, (8, 64)), NamedBarrierArray("t", 2, 256)
    kernel = Kernel("k", 128, ONE, (), (buffer, a, turn), ())
    assert kernel.declare(b).storage == (buffer, a, b, turn)
    assert kernel.declare(b).mbarriers == (a, b)
    moved = replace(a, offset=8)
    assert kernel.redeclare(moved, b).storage == (buffer, moved, turn)
    assert kernel.redeclare(MBarrierArray("s", 1, 1)) == kernel
    assert kernel.undeclare(MBarrierArray).storage == (buffer, turn)


def test_shared_bytes() -> None:
    """Up to the end of the last thing that has a place."""
    buffers = (
        SharedBuffer("a", DType.F16, 2, (8, 64), offset=1024),
        SharedBuffer("b", DType.F32, 1, (8, 8)),
    )
    kernel = Kernel("k", 128, ONE, (), buffers, ())
    assert kernel.shared_bytes == 3072
    assert parse_kernel(ALL_NODES).shared_bytes == 81956
    bare = Kernel("k", 128, ONE, (), (MBarrierArray("b", 4, 1, 16),), ())
    assert bare.shared_bytes == 48


def test_shares_of_a_cluster() -> None:
    alone = Ring("r", ("a", "b"), 4)
    shared = Ring("r", ("a", "b"), 4, shares=((2, 1), (1, 2)))
    assert (alone.multicast, alone.share("b")) == (False, (1, 1))
    assert (shared.multicast, shared.share("a"), shared.share("b")) == (True, (2, 1), (1, 2))
