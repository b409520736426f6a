"""The tree of loops: what is one loop, and what stands in it in which order."""

from __future__ import annotations

from dataclasses import replace

from tests.schedule.fusions import COOPERATIVE, LOADS, PING_PONG, buffered, linear, tiled
from wsched.fusion import Fusion
from wsched.schedule import schedule_matmul
from wsched.schedule.graph import TransformGraph
from wsched.schedule.parts import find_parts
from wsched.schedule.proof.nest import Leaf, Loop, Node, leaves, loops, nest, waits


def shape(nodes: tuple[Node, ...]) -> list[object]:
    """Labels of loops with what is in them, names of leaves."""
    return [
        n.tensor.name if isinstance(n, Leaf) else (n.domain.label, shape(n.body)) for n in nodes
    ]


def tree(fusion: Fusion, load: bool = False) -> tuple[Node, ...]:
    loading, computing = find_parts(fusion)
    return nest(fusion, TransformGraph(fusion), (loading if load else computing).tensors)


def test_compute() -> None:
    """What is inlined shares loops; the accumulator is complete before what reads it."""
    fusion = schedule_matmul(linear(), COOPERATIVE)
    main = ("k", [("k16", [("m64", ["T4"])])])
    chunks = ("chunk", [("m64", ["T9", "T8"]), "T5"])
    assert shape(tree(fusion)) == [("cta", [("tile", [("group", [main, chunks])])])]


def test_loads_that_fill_a_stage_share_its_loops() -> None:
    fusion = schedule_matmul(linear(), PING_PONG)
    assert shape(tree(fusion, load=True)) == [("cta", [("tile·group·k", ["T6", "T7"])])]


def test_loops_of_a_node() -> None:
    """Those of all that stands in it, as they are met."""
    (cta,) = tree(schedule_matmul(linear(), COOPERATIVE))
    found = [d.label for d in loops(cta)]
    assert found == ["cta", "tile", "group", "k", "k16", "m64", "chunk", "m64"]
    assert [list(loops(Leaf(t))) for t in leaves(cta)] == [[]] * 4


def test_loads_with_their_loops_in_another_order_fill_a_stage_together() -> None:
    """A loop on CTAs counts wherever it stands, and merges of merges count alike."""
    s = tiled()
    for tv in LOADS:
        s.merge(tv, 1, label="step")
    s.reorder("T7", {0: 1})
    fusion = buffered(s)
    assert [d.label for d in fusion.tensor("T7").loop[:2]] == ["step", "cta"]
    assert shape(tree(fusion, load=True)) == [("cta", [("step", ["T6", "T7"])])]


def test_loads_whose_loops_count_alike_fill_a_stage_together() -> None:
    """Though k was split and merged again, so that their loops were made in other ways."""
    s = tiled()
    s.split("T7", 2, 4, labels=("ko", "ki"))
    for tv in ("T6", "T7", "T7"):
        s.merge(tv, 1, label="step")
    assert shape(tree(buffered(s), load=True)) == [("cta", [("step", ["T6", "T7"])])]


def test_the_tree_of_a_schedule_is_found_once() -> None:
    """Of a graph and the fusion that it is asked about; another one has another tree."""
    fusion = schedule_matmul(linear(), COOPERATIVE)
    graph, names = TransformGraph(fusion), find_parts(fusion)[1].tensors
    found = nest(fusion, graph, names)
    assert nest(fusion, graph, names) is found
    apart = fusion.updated([replace(fusion.tensor("T8"), compute_at=0)])
    assert graph.describes(apart) and nest(apart, graph, names) == tree(apart) != found
    assert nest(fusion, graph, names) == found and not waits(fusion, graph, names)


def test_what_is_not_inlined_has_loops_of_its_own() -> None:
    fusion = schedule_matmul(linear(), COOPERATIVE)
    names = ("T4", "T9", "T8")
    apart = fusion.updated(replace(fusion.tensor(name), compute_at=0) for name in names)
    roots = tree(apart)
    assert [[t.name for t in leaves(n)] for n in roots] == [["T4"], ["T9"], ["T8"], ["T5"]]


def test_a_producer_stands_in_front_of_its_reader() -> None:
    """Though its expression comes later among those of the fusion."""
    fusion = schedule_matmul(linear(), COOPERATIVE)
    order = list(fusion.exprs)
    mma = next(e for e in order if e.output == "T4")
    order.remove(mma)
    moved = fusion.updated(exprs=(*order[:-1], mma, order[-1]))
    (cta,) = tree(moved)
    assert isinstance(cta, Loop)
    assert next(leaves(cta)).name == "T4"
