"""The load loop as a number: taken up to what compute knows, and down to compute's loops."""

from __future__ import annotations

from lowering.ground.expr import ONE
from lowering.ground.poly import poly
from tests.schedule.fusions import linear
from wsched.fusion import TensorView
from wsched.schedule import Schedule, TransformGraph
from wsched.schedule.graph import Group
from wsched.schedule.proof.digits import Digits, compute_digits, load_digits

LOAD, COMPUTE = "T4", "T5"
"""Two tensors with the same M and N; what they are to each other does not matter here."""


class Two:
    """Their schedules, and what is counted of the first in loops of the second."""

    def __init__(self) -> None:
        self.s = Schedule(linear())

    @property
    def graph(self) -> TransformGraph:
        return TransformGraph(self.s.fusion)

    def tensor(self, name: str) -> TensorView:
        return self.s.tensor(name)

    def counted(self, loops: int, known: bool = True) -> tuple[list[str], list[str]]:
        """Labels of what the first loops of the load count, and of what they cut short."""
        graph = self.graph
        mine = [graph.group(d) for d in self.tensor(LOAD).loop[:loops]]
        knows = graph.known(self.tensor(COMPUTE)) if known else frozenset[Group]()
        found, cut = load_digits(graph, mine, knows)
        return [g.label for g in found], [g.label for g in cut]

    def digits(self, loops: int) -> Digits:
        """Those of compute for the first loops of the load."""
        graph = self.graph
        mine = [graph.group(d) for d in self.tensor(LOAD).loop[:loops]]
        found, _ = load_digits(graph, mine, graph.known(self.tensor(COMPUTE)))
        weights = [poly(ONE)]
        for g in reversed(found[1:]):
            weights.insert(0, weights[0] * poly(g.extent))
        return compute_digits(graph, list(zip(found, weights, strict=True)), self.tensor(COMPUTE))


def said(found: Digits) -> list[tuple[str, str]]:
    return [(d.group.label, str(d.weight.expr())) for d in found.digits]


def test_parts_in_order_are_put_together() -> None:
    two = Two()
    two.s.split(LOAD, 0, 8, labels=("a", "b"))
    assert two.counted(2) == (["M"], ["M"])  # 8 need not divide M
    two.s.reorder(LOAD, {0: 1})
    assert two.counted(2) == (["b", "a"], [])


def test_a_loop_of_one_iteration_between_parts_counts_nothing() -> None:
    two = Two()
    two.s.split(LOAD, 1, 1, inner_split=False, labels=("one", "N"))
    two.s.split(LOAD, 0, 8, labels=("a", "b"))
    two.s.reorder(LOAD, {2: 1})
    assert [d.label for d in two.tensor(LOAD).loop[:4]] == ["a", "one", "b", "N"]
    assert two.counted(3) == (["one", "M"], ["M"])
    two.s.reorder(LOAD, {3: 2})
    assert two.counted(4) == (["a", "N", "b"], [])


def test_merges_are_taken_apart_but_those_that_compute_has() -> None:
    two = Two()
    two.s.merge(LOAD, 0)
    assert two.counted(1) == (["M", "N"], [])
    two.s.merge(COMPUTE, 0)
    assert two.counted(1) == (["M·N"], [])
    assert two.counted(1, known=False) == (["M", "N"], [])


def test_a_traversal_is_one_count() -> None:
    """Its order is none of its parts'."""
    two = Two()
    two.s.merge(LOAD, 0, traversal=2, label="tiles")
    assert two.counted(1) == (["tiles"], [])


def test_what_is_dealt_out_is_not_put_together() -> None:
    two = Two()
    two.s.split(LOAD, 0, 4, labels=("a", "b"), dynamic=True)
    assert two.counted(2) == (["a", "b"], [])


def test_down_to_the_loops_of_compute() -> None:
    """Weights are those of a number with these digits; a tail is compute's to mind."""
    two = Two()
    two.s.split(COMPUTE, 0, 8, labels=("a", "b"))
    found = two.digits(2)
    assert said(found) == [("a", "N * 8"), ("b", "N"), ("N", "1")]
    assert [g.label for g in found.tails] == ["M"] and not found.lost


def test_neighbours_merge_others_do_not() -> None:
    """A digit merges with the next one, where that ends as it begins."""
    two = Two()
    two.s.merge(COMPUTE, 0, label="both")
    assert said(two.digits(2)) == [("both", "1")]
    apart = Two()
    apart.s.reorder(LOAD, {0: 1})
    apart.s.merge(COMPUTE, 0, label="both")
    assert said(apart.digits(2)) == [("N", "M"), ("M", "1")]


def test_parts_that_are_merged_again_have_no_index_of_their_own() -> None:
    """8 x ceildiv(M, 8) indices count in M as before, but in which eight they are is no sum."""
    two = Two()
    two.s.split(COMPUTE, 0, 8, labels=("a", "b"))
    two.s.merge(COMPUTE, 0, label="again")
    assert said(two.digits(2)) == [("again", "N"), ("N", "1")]
    found = two.digits(1)
    assert said(found) == [("again", "1")]
    assert sorted(g.label for g in found.lost) == ["a", "b"]
    (again,) = found.digits
    assert {g.label for g in again.weights if g is not None} == {"M", "again"}
