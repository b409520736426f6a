"""Other orders of the load loops: those that the proof accepts, and no other."""

from __future__ import annotations

from collections.abc import Sequence

from lowering.ground.errors import ScheduleError
from tests.schedule.fusions import linear
from wsched.schedule import Schedule, TransformGraph
from wsched.schedule.graph import Group
from wsched.schedule.proof.orders import Misordered, legal_orders


def merged(parts: int) -> tuple[TransformGraph, Group]:
    """``a b c ...`` of the result merged into one loop from the outside."""
    s = Schedule(linear())
    labels = "abcdef"[:parts]
    for n in range(parts - 1):
        s.split("T5", n, 2, labels=(labels[n], labels[n + 1]))
    for _ in range(parts - 1):
        s.merge("T5", 0)
    graph = TransformGraph(s.fusion)
    return graph, graph.group(s.tensor("T5").loop[0])


def test_those_that_are_accepted_are_named() -> None:
    graph, loop = merged(3)
    asked = []

    def prove(order: Sequence[Group]) -> None:
        asked.append("".join(g.label for g in order))
        if order[-1].label == "a":
            raise Misordered("load-order", "a is the slowest")
        if order[0].label == "b":
            raise ScheduleError("role", "", "another rule is against it")

    assert legal_orders(graph, loop, prove) == (
        "merge the load loops as a·b·c",
        "merge the load loops as a·c·b",
        "merge the load loops as c·a·b",
    )
    assert sorted(asked) == ["abc", "acb", "bac", "bca", "cab", "cba"]


def test_a_loop_that_nothing_was_merged_into_has_one() -> None:
    s = Schedule(linear())
    graph = TransformGraph(s.fusion)
    assert legal_orders(graph, graph.group(s.tensor("T5").loop[0]), len) == (
        "merge the load loops as M",
    )


def test_many_are_not_tried() -> None:
    graph, loop = merged(5)

    def prove(order: Sequence[Group]) -> None:
        raise AssertionError("asked")

    assert legal_orders(graph, loop, prove) == ()
