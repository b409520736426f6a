"""One order of steps for all parts: what may stand beside what, and what would be a circle."""

from __future__ import annotations

from itertools import combinations

import pytest

from tests.schedule.fusions import COOPERATIVE, linear
from wsched.schedule import schedule_matmul
from wsched.schedule.graph import TransformGraph
from wsched.schedule.parts import find_parts
from wsched.schedule.proof.nest import Loop, Node, nest
from wsched.schedule.proof.step_order import StepOrder, Taken

FUSION = schedule_matmul(linear(), COOPERATIVE)
GRAPH = TransformGraph(FUSION)


def loop(label: str, nodes: tuple[Node, ...]) -> tuple[Loop, ...]:
    """The serial loops down to that with a label."""
    for n in (x for x in nodes if isinstance(x, Loop)):
        own = (n,) if n.domain.label in ("tile", "k", "chunk") else ()
        if n.domain.label == label:
            return own
        if found := loop(label, n.body):
            return own + found
    return ()


NODES = nest(FUSION, GRAPH, find_parts(FUSION)[1].tensors)
TILE, K, CHUNK = (loop(label, NODES) for label in ("tile", "k", "chunk"))


def said(*parts: tuple[tuple[str, tuple[Loop, ...]], ...]) -> str:
    """The first problem, where each part takes steps of rings in these loops, in this order."""
    order = StepOrder(GRAPH)
    for at, part in enumerate(parts):
        for pair in combinations(part, 2):
            first, second = (Taken(ring, f"{ring}{at}", loops, (0, 0)) for ring, loops in pair)
            if problem := order.add(first, second):
                return problem
    return ""


a, b, c = (("a", TILE), ("b", TILE), ("c", TILE))
chunks = {ring: (ring, CHUNK) for ring in "abc"}
slices = {ring: (ring, K) for ring in "abc"}


def test_the_loops_that_they_are_in() -> None:
    assert [[x.domain.label for x in loops] for loops in (TILE, K, CHUNK)] == [
        ["tile"], ["tile", "k"], ["tile", "chunk"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    "parts",
    [
        ((a, b), (a, b)),
        ((a, b), (b, a)),  # a step of each in an iteration: none has more to wait for
        ((a, b), (b, c), (c, a)),
        ((slices["a"], chunks["b"]), (slices["a"], chunks["b"])),  # all slices, then all chunks
        ((slices["a"], b), (b, chunks["c"]), (slices["a"], chunks["c"])),
        ((slices["a"], slices["b"]), (slices["b"], chunks["c"]), (slices["a"], chunks["c"])),
    ],
)
def test_one_order(parts: tuple[tuple[tuple[str, tuple[Loop, ...]], ...], ...]) -> None:
    assert said(*parts) == ""


OTHERWISE = "other parts otherwise: each could wait for what the other holds"


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (
            ((slices["a"], chunks["b"]), (chunks["b"], slices["a"])),
            "b1 and a1 take the steps of b and a one before the other inside tile",
        ),
        (
            ((a, b), (slices["a"], chunks["b"])),
            "a1 and b1 take the steps of a and b one before the other inside tile",
        ),
        (
            ((slices["a"], chunks["b"]), (b, a)),
            "b1 and a1 take the steps of b and a together inside tile",
        ),
        (  # no two parts contradict each other
            (
                (slices["a"], chunks["b"]), (slices["b"], chunks["c"]),
                (slices["c"], chunks["a"]),
            ),
            "c2 and a2 take the steps of c and a one before the other inside tile",
        ),
        (
            ((slices["a"], chunks["b"]), (b, c), (slices["c"], chunks["a"])),
            "c2 and a2 take the steps of c and a one before the other inside tile",
        ),
        (
            ((slices["a"], chunks["b"]), (c, b), (slices["c"], chunks["a"])),
            "c2 and a2 take the steps of c and a one before the other inside tile",
        ),
        (  # of all tiles, and of each
            ((slices["a"], chunks["b"]), (("b", ()), c)),
            "b1 and c1 take the steps of b and c one before the other inside no loop",
        ),
    ],
)  # fmt: skip
def test_no_order(parts: tuple[tuple[tuple[str, tuple[Loop, ...]], ...], ...], why: str) -> None:
    assert said(*parts) == f"{why}, {OTHERWISE}"
