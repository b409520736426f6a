"""The generator of covers: every pair that can be, and nothing that cannot."""

from __future__ import annotations

from itertools import product

from tests.pairwise import pairs_of, pairwise

FACTORS = {"a": (0, 1, 2), "b": (0, 1, 2), "c": (0, 1), "d": (0, 1)}


def test_every_pair_in_few_rows() -> None:
    rows, impossible = pairwise(FACTORS, lambda row: True, ())
    every = {
        p for v in product(*FACTORS.values()) for p in pairs_of(dict(zip("abcd", v, strict=True)))
    }
    assert set().union(*map(pairs_of, rows)) == every
    assert impossible == []
    assert 9 <= len(rows) <= 12
    assert pairwise(FACTORS, lambda row: True, ()) == (rows, impossible)


def test_illegal_pairs_are_told_apart_from_unlucky_ones() -> None:
    """``a = 2`` excludes ``b = 2``, and wants ``c = 1``: one row of many is legal."""
    rows, impossible = pairwise(
        FACTORS, lambda r: r["a"] != 2 or (r["b"] < 2 and r["c"] == 1), ("a", "b", "c")
    )
    assert impossible == [(("a", 2), ("b", 2)), (("a", 2), ("c", 0))]
    assert all(r["a"] != 2 or (r["b"] < 2 and r["c"] == 1) for r in rows)
