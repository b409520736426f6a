"""Texts that are numbers, and those that only look like one."""

from __future__ import annotations

import pytest

from lowering.ground.natural import natural


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), ("007", 7), ("128", 128), ("9" * 18, 10**18 - 1), ("", None), ("-1", None),
        ("1.0", None), (" 1", None), ("1_000", None), ("²", None), ("٣", None), ("9" * 19, None),
        ("9" * 5000, None),
    ],
)  # fmt: skip
def test_natural(text: str, number: int | None) -> None:
    assert natural(text) == number
