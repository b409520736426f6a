"""Integers of 4 bits in words of 32."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType
from wsched.run.words import in_words, of_words, sizes_of

NUMBERS = np.random.default_rng(0).integers(0, 16, (3, 5, 24), np.uint8)


def test_the_first_of_eight_is_in_the_lowest_bits() -> None:
    words = in_words(NUMBERS)
    assert words.shape == (3, 5, 3) and words.dtype == np.int32
    for place in range(8):
        assert np.array_equal(words >> 4 * place & 15, NUMBERS[..., place::8])


@pytest.mark.parametrize("shape", [(3, 5, 24), (2, 8), (0, 16), (4, 0)])
def test_there_and_back(shape: tuple[int, ...]) -> None:
    numbers = np.resize(NUMBERS, shape)
    words = in_words(numbers)
    assert sizes_of(DataType.UInt4, words) == shape
    assert np.array_equal(of_words(words), numbers)


def test_words_that_lie_apart() -> None:
    words = in_words(NUMBERS[0])
    wide = np.zeros((5, 8), np.int32)
    wide[:, :3] = words
    assert np.array_equal(of_words(wide[:, :3]), NUMBERS[0])


def test_rows_that_end_within_a_word() -> None:
    with pytest.raises(UnsupportedError, match="rows of 20 integers of 4 bits in words of 32"):
        in_words(NUMBERS[..., :20])


def test_the_sizes_of_other_types_are_those_of_the_tensor() -> None:
    torch = pytest.importorskip("torch")
    for kind, dtype in ((DataType.Int32, torch.int32), (DataType.Int8, torch.int8)):
        assert sizes_of(kind, torch.empty(3, 8, dtype=dtype)) == (3, 8)
    assert sizes_of(DataType.UInt4, torch.empty(3, 8, dtype=torch.int32)) == (3, 64)
