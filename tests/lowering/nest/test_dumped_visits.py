"""What is dumped is what runs: the tree of loops, enumerated, against the machine's record."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import pytest

from tests.lowering.nest.own import OWN
from tests.lowering.nest.visits import Visits, dumped, recorded
from tests.schedules import SCHEDULES, definition
from tests.tiers import dealt
from wsched.front.known import import_fusion
from wsched.front.own import kernel_of
from wsched.run.compiled import CompiledFusion, compile_fusion

BUILT_IN = (
    "coop_128x64", "coop_traversal_odd", "coop_1_group_2_rows", "coop_3_groups", "tile_per_cta",
    "pipelined_1_group", "pingpong_64x128", "pingpong_in_flight_0",
)  # fmt: skip
WRITTEN = tuple(n for n in OWN if n not in ("a_in_registers", "no_chunks") and "parts" not in n)
"""But for those whose CTAs add up parts, and those without TMA stores, which the record lacks; and
where A and B have rings of their own, since a visit is of one box of both.
"""


@lru_cache
def kernel(name: str) -> CompiledFusion:
    if name in OWN:
        return kernel_of(OWN[name]())
    return compile_fusion(import_fusion(definition()), SCHEDULES[name])


def sizes(m: int, n: int, k: int) -> dict[str, int]:
    return {"M": m, "N": n, "K": k}


@pytest.mark.parametrize(
    ("name", "problem"),
    dealt([*BUILT_IN, *WRITTEN], [((200, 392, 264), 2), ((136, 72, 456), 5)]),
)
def test_each_role_goes_through_the_nest(
    name: str, problem: tuple[tuple[int, int, int], int]
) -> None:
    compiled, (shape, ctas) = kernel(name), problem
    grid = compiled.grid(sizes(*shape), ctas)
    said = dumped(compiled, sizes(*shape), grid)
    assert any(v.loads for v in said) and all(v.computes for v in said)
    assert recorded(compiled, sizes(*shape), grid) == said


def test_another_nest_is_found() -> None:
    """Kernels whose tiles go by columns do not match what is dumped of those that go by rows."""
    shape, by_rows = sizes(264, 264, 72), kernel("coop_1_group_2_rows")
    columns = SCHEDULES["coop_columns"].cta_order
    params = replace(SCHEDULES["coop_1_group_2_rows"], cta_order=columns)
    by_columns = compile_fusion(import_fusion(definition()), params)
    said = dumped(by_rows, shape, 1)
    assert recorded(by_rows, shape, 1) == said
    assert recorded(by_columns, shape, 1) == dumped(by_columns, shape, 1) != said


def test_what_a_visit_is() -> None:
    """Two warpgroups with 64 rows each, three slices of K, four stages."""
    steps = [(0, 0), (1, 0), (2, 0)]
    boxes = [(0, 0, 0), (0, 0, 64), (0, 0, 128)]
    expected = Visits(boxes, [[(0, 0, steps)], [(64, 0, steps)]])
    assert dumped(kernel("coop_traversal_odd"), sizes(64, 64, 136), 1) == [expected]
