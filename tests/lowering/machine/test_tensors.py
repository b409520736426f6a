"""Boxes of global tensors."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Const
from lowering.ground.types import Swizzle
from lowering.kernel.kernel import TensorMap
from lowering.kernel.tensors import Ragged
from lowering.machine.errors import FaultError
from lowering.machine.tensors import MappedArray, box_chunks


def tensor(array: np.ndarray, box: tuple[int, ...] = (4, 8), **options: Swizzle) -> MappedArray:
    map_ = TensorMap("a", DType.F16, tuple(map(Const, array.shape)), box, **options)
    return MappedArray(map_, array, array.shape)


def numbers(rows: int = 6, cols: int = 16) -> np.ndarray:
    return np.arange(1, rows * cols + 1, dtype=np.float16).reshape(rows, cols)


@pytest.mark.parametrize("at", [(0, 0), (1, 8), (4, 8), (-2, -8), (5, 8), (6, 0), (90, 88)])
def test_load_fills_with_zero(at: tuple[int, int]) -> None:
    array = numbers()
    padded = np.zeros((200, 200), np.float16)
    padded[8:14, 8:24] = array
    want = padded[8 + at[0] : 12 + at[0], 8 + at[1] : 24 + at[1]]
    got = tensor(array, (4, 16)).load(at).view(np.float16).reshape(4, 16)
    assert np.array_equal(got, want)


@pytest.mark.parametrize("at", [(0, 0), (1, 8), (4, 8), (-2, -8), (6, 0)])
def test_store_drops_what_lies_outside(at: tuple[int, int]) -> None:
    array, box = numbers(), numbers(4, 16) + 100
    want = np.zeros((100, 100), np.float16)
    want[8:14, 8:24] = array
    want[8 + at[0] : 12 + at[0], 8 + at[1] : 24 + at[1]] = box
    tensor(array, (4, 16)).store(at, box.view(np.uint64).reshape(4, 2, 2))
    assert np.array_equal(array, want[8:14, 8:24])


@pytest.mark.parametrize(("rows", "height"), [(6, 4), (4, 4), (3, 3), (1, 1), (0, 1)])
def test_a_clipped_box_has_no_more_rows_than_the_tensor(rows: int, height: int) -> None:
    """It still has every row of the tensor that the whole box had."""
    array = numbers(rows)
    map_ = TensorMap("a", DType.F16, (Const(rows), Const(16)), (4, 8), clipped=True)
    clipped = MappedArray(map_, array, (rows, 16))
    assert clipped.box_bytes == height * 16
    for at in ((0, 0), (1, 8), (4, 8), (90, 0)):
        whole = tensor(array).load(at)
        assert np.array_equal(clipped.load(at), whole[:height])
        assert not whole[height:].any()
    assert clipped.chunks(1024).shape == (height, 1)


def test_box_is_permuted_by_address() -> None:
    """Line 1 of a 128-byte swizzle has its chunks exchanged in pairs."""
    chunks = box_chunks(2048, 2, 128, Swizzle.B128) - 128
    assert chunks.tolist() == [[0, 1, 2, 3, 4, 5, 6, 7], [9, 8, 11, 10, 13, 12, 15, 14]]
    moved = box_chunks(2048 + 128, 1, 128, Swizzle.B128) - 136
    assert moved.tolist() == [[1, 0, 3, 2, 5, 4, 7, 6]]


def test_box_that_is_not_aligned() -> None:
    with pytest.raises(FaultError) as error:
        box_chunks(2048 + 16, 1, 128, Swizzle.B128)
    assert str(error.value) == "a box at shared address 2064 is not aligned to 128 bytes"


def refused(array: np.ndarray, box: tuple[int, ...] = (4, 8), **options: Swizzle) -> str:
    with pytest.raises(UnsupportedError) as error:
        tensor(array, box, **options)
    return str(error.value)


def test_refusals() -> None:
    assert refused(numbers().astype(np.int8)) == (
        "tensor a of int8 and 2 dimensions is not supported; "
        "supported: 2-D arrays of float16 or uint16"
    )
    assert refused(numbers(6, 12)) == (
        "tensor a with strides of 24 and 2 bytes is not supported; "
        "supported: rows a multiple of 16 bytes apart"
    )
    assert refused(numbers(16, 16).T) == (
        "tensor a with strides of 2 and 32 bytes is not supported; "
        "supported: rows a multiple of 16 bytes apart"
    )
    assert refused(numbers(), (257, 8)) == (
        "a box of 257x8 for tensor map a is not supported; "
        "supported: 1 to 256 elements in each dimension"
    )
    assert refused(numbers(), (4, 4)) == (
        "a box line of 8 bytes for tensor map a is not supported; supported: multiples of 16 bytes"
    )
    assert refused(numbers(), (4, 32), swizzle=Swizzle.B128) == (
        "a box line of 64 bytes for tensor map a is not supported; supported: 128 bytes"
    )


def test_shape_must_be_the_parameters() -> None:
    map_ = TensorMap("a", DType.F16, (Const(6), Const(16)), (4, 8))
    with pytest.raises(UnsupportedError) as error:
        MappedArray(map_, numbers(), (6, 24))
    assert str(error.value) == (
        "tensor a of shape 6x16 is not supported; supported: 6x24, as the parameters say"
    )


def test_strides_of_one_row_mean_nothing() -> None:
    assert tensor(numbers(6, 12)[2:3]).load((0, 8)).view(np.float16)[0, 0, 0] == 33


@pytest.mark.parametrize("at", [(0, 0, 0), (1, 4, 8), (-1, -2, -8), (2, 5, 8), (3, 0, 0)])
def test_boxes_of_three_dimensions(at: tuple[int, int, int]) -> None:
    """Lines in the order of memory; what lies outside along any dimension is zero, or dropped."""
    array = np.arange(1, 3 * 6 * 16 + 1, dtype=np.float16).reshape(3, 6, 16)
    padded = np.zeros((9, 16, 40), np.float16)
    padded[3:6, 4:10, 8:24] = array
    window = tuple(
        slice(o + a, o + a + n) for o, a, n in zip((3, 4, 8), at, (2, 4, 8), strict=True)
    )
    got = tensor(array, (2, 4, 8)).load(at)
    assert got.shape == (8, 1, 2)
    assert np.array_equal(got.view(np.float16).reshape(2, 4, 8), padded[window])
    box = np.arange(500, 500 + 64, dtype=np.float16)
    padded[window] = box.reshape(2, 4, 8)
    tensor(array, (2, 4, 8)).store(at, box.view(np.uint64).reshape(8, 1, 2))
    assert np.array_equal(array, padded[3:6, 4:10, 8:24])


@pytest.mark.parametrize("col", [1, 4, -3])
def test_a_box_begins_at_16_bytes(col: int) -> None:
    array = tensor(numbers())
    for move in (array.load, lambda at: array.store(at, np.zeros((4, 1, 2), np.uint64))):
        with pytest.raises(FaultError) as caught:
            move((0, col))
        assert str(caught.value) == f"column {col} of a is no multiple of 8, 16 bytes"


def test_boxes_of_one_dimension() -> None:
    got = tensor(np.arange(12, dtype=np.float16), (8,)).load((8,))
    assert got.view(np.float16).ravel().tolist() == [8, 9, 10, 11, 0, 0, 0, 0]


def test_refusals_of_three_dimensions() -> None:
    array = np.zeros((3, 4, 16), np.float16)
    assert refused(array[:, :, :12][:, :, ::2], (1, 4, 8)) == (
        "tensor a with strides of 128, 32 and 4 bytes is not supported; "
        "supported: rows a multiple of 16 bytes apart"
    )
    assert refused(array, (4, 8)) == (
        "a box of 4x8 for tensor map a is not supported; "
        "supported: 1 to 256 elements in each dimension"
    )


def ragged(array: np.ndarray, rows: int, cols: int, by: Ragged = Ragged.END) -> MappedArray:
    """A map whose matrices end, or begin, where the caller says."""
    high, wide = array.shape
    sizes = (Const(high + 1), Const(high), Const(wide))
    map_ = TensorMap("a", DType.F16, sizes, (1, rows, cols), ragged=by)
    return MappedArray(map_, array, array.shape)


@pytest.mark.parametrize(("begin", "end"), [(0, 6), (1, 4), (3, 4), (2, 2), (5, 6), (0, 0)])
def test_boxes_of_a_ragged_map_end_with_the_matrix(begin: int, end: int) -> None:
    """Row r of a matrix of n rows is row (rows of the tensor) - n + r of the map."""
    first = 6 - (end - begin)
    for row in range(0, 8, 2):
        written, wanted, box = numbers(), numbers(), numbers(4, 16) + 100
        ragged(written, 4, 16).store((end, first + row, 0), box.view(np.uint64).reshape(4, 2, 2))
        mine = wanted[begin + row : max(end, begin + row)][:4]
        mine[:] = box[: len(mine)]
        assert np.array_equal(written, wanted)


@pytest.mark.parametrize("end", [-1, 7])
def test_ends_that_no_tensor_has_are_out_of_bounds(end: int) -> None:
    array = numbers()
    ragged(array, 4, 16).store((end, 0, 0), numbers(4, 16).view(np.uint64).reshape(4, 2, 2))
    assert np.array_equal(array, numbers())


def test_rows_in_front_of_a_ragged_tensor_are_a_fault() -> None:
    with pytest.raises(FaultError) as e:
        ragged(numbers(), 4, 16).store((2, 3, 0), numbers(4, 16).view(np.uint64).reshape(4, 2, 2))
    assert str(e.value) == "row -1 of a lies in front of it"


def test_loads_through_a_ragged_map_are_a_fault() -> None:
    """Its address lies in front of the tensor, perhaps of all memory that is mapped."""
    with pytest.raises(FaultError) as e:
        ragged(numbers(), 4, 16).load((6, 0, 0))
    assert str(e.value) == "a load through a, which begins in front of its tensor"


@pytest.mark.parametrize(("begin", "end"), [(0, 6), (1, 4), (3, 4), (5, 6)])
def test_boxes_of_a_ragged_map_begin_with_the_matrix(begin: int, end: int) -> None:
    """What is in front of a matrix is zeros, though it has rows of the tensor there."""
    array = numbers()
    for row in range(-4, end - begin - 3):
        box = ragged(array, 4, 16, Ragged.BEGIN).load((begin, row, 0))
        wanted = np.zeros((4, 16), array.dtype)
        mine = array[begin + max(row, 0) : begin + row + 4]
        wanted[4 - len(mine) :] = mine
        assert np.array_equal(box.view(array.dtype).reshape(4, 16), wanted)


def test_rows_behind_a_ragged_tensor_are_a_fault() -> None:
    with pytest.raises(FaultError) as e:
        ragged(numbers(), 4, 16, Ragged.BEGIN).load((4, 0, 0))
    assert str(e.value) == "row 7 of a lies behind it"
