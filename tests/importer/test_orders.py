"""Orders in memory as nvFuser prints them, and as many names as there are results."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from tests.importer.test_spellings import X, body


def test_an_order_in_memory_of_rows() -> None:
    """nvFuser prints an empty list for it, of inputs and of operations alike."""
    found = body(
        f"T0 = {X.replace('dtype', 'stride_order=[], dtype')}",
        "T1 = fd.ops.broadcast(T0, is_broadcast_dim=[True, False, False])",
        "T2 = fd.ops.stride_order(T1, stride_order=[])",
        "fd.add_output(T2)",
    )
    assert found.nodes[0].get("stride_order") == (1, 0)
    assert found.nodes[2].get("stride_order") == (2, 1, 0)


def test_two_names_for_one_result() -> None:
    with pytest.raises(UnsupportedError) as error:
        body(f"T0 = {X}", "a, b = fd.ops.linear(T0, T0)")
    assert str(error.value) == (
        "line 3: 2 results in `a, b = fd.ops.linear(T0, T0)` is not supported; supported: one, "
        "of fd.ops.linear"
    )
