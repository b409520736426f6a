from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from tests.explore.pages import compiled
from tests.schedules import SCHEDULES
from wsched.explore.graph import graph_of


def test_a_matmul_is_cut_between_copies_and_mma() -> None:
    graph = graph_of(compiled("coop_128x128").plan)
    assert [(p.title, p.loads) for p in graph.parts] == [
        ("load T6, T7 (ring, 6 stages)", True),
        ("compute", False),
    ]
    cut = {(e.source, e.target, e.ring) for e in graph.edges if e.ring}
    assert cut == {("T6", "T4", "ring"), ("T7", "T4", "ring")}
    by_name = {n.name: n for n in graph.nodes}
    assert (by_name["T6"].memory, by_name["T4"].memory) == ("shared", "registers")
    assert (by_name["T6"].part, by_name["T4"].part) == (0, 1)
    assert by_name["T0"].made == "input"
    assert by_name["T4"].loops[:4] == ("cta BIDx", "tile", "group TIDy", "k")
    assert graph.relation[0] == "T6, T7: tile·k = ceildiv(K, 64) * i50 + i43"


def test_sums_in_tensor_memory_are_a_third_part() -> None:
    graph = graph_of(compiled("sm_100a").plan)
    by_name = {n.name: n for n in graph.nodes}
    cut = {(e.source, e.target, e.ring) for e in graph.edges if e.ring}
    assert cut == {("T6", "T4", "ring"), ("T7", "T4", "ring"), ("T4", "T10", "acc")}
    assert [by_name[n].part for n in ("T6", "T4", "T10")] == [0, 1, 2]
    assert by_name["T4"].memory == "tensor memory"


@pytest.mark.parametrize("name", [*SCHEDULES, "sm_100a"])
def test_places_are_apart_and_edges_lead_down(name: str) -> None:
    graph = graph_of(compiled(name).plan)
    by_name = {n.name: n for n in graph.nodes}
    places = Counter((n.column, n.row) for n in graph.nodes)
    assert max(places.values()) == 1
    for e in graph.edges:
        above, below = by_name[e.source], by_name[e.target]
        assert below.row >= above.row + (2 if e.ring else 1)
    columns = [
        {n.column for n in graph.nodes if n.part == part} for part in range(len(graph.parts))
    ]
    assert all(max(a) < min(b) for a, b in pairwise(columns))


@pytest.mark.parametrize("name", ["coop_128x128", "stream_k", "sm_100a"])
def test_no_column_is_empty(name: str) -> None:
    columns = {n.column for n in graph_of(compiled(name).plan).nodes}
    assert columns == set(range(len(columns)))
