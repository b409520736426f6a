"""What extents are called."""

from __future__ import annotations

import pytest

from wsched.fusion.names import blocks_of, in_blocks


@pytest.mark.parametrize(("axis", "size"), [("K", 128), ("N", 2)])
def test_blocks_of_an_axis(axis: str, size: int) -> None:
    assert blocks_of(in_blocks(axis, size)) == (axis, size)


@pytest.mark.parametrize("name", [in_blocks("K", 1), "K_", "K_a", "k_128", "KN_2", "K_2_4"])
def test_what_counts_no_blocks(name: str) -> None:
    assert blocks_of(name) is None
