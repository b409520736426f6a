from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from passes.allocate_named_barriers import allocate_named_barriers
from tests.passes.texts import full, lowered, unchanged

BEFORE = """
named_barrier order[2] threads 256
named_barrier fixed[2] id 4 threads 64
named_barrier D_store[2] threads 128
named_barrier wide[8] threads 128
"""
AFTER = """
named_barrier order[2] id 1 threads 256
named_barrier fixed[2] id 4 threads 64
named_barrier D_store[2] id 6 threads 128
named_barrier wide[8] id 8 threads 128
"""


def test_runs_of_free_ids_beside_those_that_are_given() -> None:
    """Id 3 stays free: no array of one barrier wants it."""
    assert lowered(allocate_named_barriers, BEFORE) == full(AFTER)
    assert unchanged(allocate_named_barriers, AFTER)


def test_more_than_there_are() -> None:
    with pytest.raises(UnsupportedError) as error:
        lowered(allocate_named_barriers, BEFORE + "named_barrier more[2] threads 64\n")
    assert str(error.value) == (
        "16 named barriers (order[2], fixed[2], D_store[2], wide[8], more[2]) is not supported; "
        "supported: at most 15 beside the CTA's own: fewer warpgroups, or fewer that meet"
    )
