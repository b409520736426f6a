"""The transform graph."""

from __future__ import annotations

import pytest

from lowering.ground.expr import ZERO, Const, Expr, Special, Var, ceildiv, evaluate
from tests.schedule.fusions import COOPERATIVE, linear, tiled
from tests.schedules import SCHEDULES
from wsched.fusion import Fusion, IterDomain, ParallelType, Split
from wsched.schedule import Schedule, TransformGraph, plan_matmul, schedule_matmul, split
from wsched.schedule.graph import divides
from wsched.schedule.proof.indices import indices


def test_of_a_part_of_one_iteration_the_index_is_known() -> None:
    """What is split into one part is that part."""
    s = Schedule(linear())
    s.split("T5", 0, 64, labels=("Mo", "Mi"))
    s.split("T5", 1, 64, labels=("one", "whole"))
    graph, (_, one, whole, _) = TransformGraph(s.fusion), s.tensor("T5").loop
    inner = s.tensor("T5").transforms[0].outputs[1]
    found = indices(graph, {graph.group(inner): Var("i")})
    assert found[graph.group(one)] == ZERO and found[graph.group(whole)] == Var("i")


def test_logical_dimensions_are_mapped_through_broadcast_and_mma() -> None:
    f = linear()
    graph = TransformGraph(f)
    by_label = {
        label: {graph.group(d) for t in f.tensors for d in t.logical if d.label == label}
        for label in "MNK"
    }
    assert [len(groups) for groups in by_label.values()] == [1, 1, 1]
    assert [str(g) for g in graph.groups] == ["M{M}", "K{K}", "N{N}"]


def test_equal_transforms_are_mapped_different_ones_are_not() -> None:
    s = Schedule(linear())
    s.split("T4", 0, 128)
    s.split("T5", 0, 128)
    graph = TransformGraph(s.fusion)
    assert graph.group(s.tensor("T4").loop[0]) == graph.group(s.tensor("T5").loop[0])
    s = Schedule(linear())
    s.split("T4", 0, 128)
    s.split("T5", 0, 64)
    graph = TransformGraph(s.fusion)
    assert graph.group(s.tensor("T4").loop[0]) != graph.group(s.tensor("T5").loop[0])


def test_a_merge_that_undoes_a_split_is_its_input() -> None:
    """Where the split divides; else it is that and what the split added."""
    s = Schedule(linear())
    s.split("T4", 0, 128)
    s.split("T4", 1, 32)
    s.merge("T4", 1)
    s.merge("T4", 0)
    graph = TransformGraph(s.fusion)
    t = s.tensor("T4")
    (m, _), whole = t.transforms[0].outputs, graph.group(t.loop[0])
    inner = t.transforms[0].outputs[1]
    assert graph.group(t.transforms[2].outputs[0]) == graph.group(inner)
    assert graph.padded(whole) == graph.group(t.logical[0])
    assert whole != graph.group(t.logical[0])
    assert graph.padded(graph.group(inner)) is None and graph.padded(graph.group(m)) is None


def test_what_divides() -> None:
    ctas = Special("nctaid.x")
    tiles = ceildiv(Var("M"), 128)
    found = {
        (str(extent), str(factor)): divides(Split(IterDomain(0, extent, "x"), *parts(factor)))
        for extent, factor in (
            (Const(64), Const(16)), (Const(64), Const(48)), (tiles * 4, Const(2)),
            (tiles * 4 + 2, Const(4)), (tiles * ctas, ctas), (tiles, Const(1)), (tiles, ctas),
        )
    }  # fmt: skip
    assert [key for key, whole in found.items() if whole] == [
        ("64", "16"), ("ceildiv(M, 128) * 4", "2"), ("ceildiv(M, 128) * %nctaid.x", "%nctaid.x"),
        ("ceildiv(M, 128)", "1"),
    ]  # fmt: skip


def parts(factor: Expr) -> tuple[IterDomain, IterDomain]:
    return IterDomain(1, Const(1), "o"), IterDomain(2, factor, "i")


def test_index_is_composed_from_parts() -> None:
    s = tiled()
    s.merge("T6", 1)
    graph = TransformGraph(s.fusion)
    cta, tile, k = (graph.group(d) for d in s.tensor("T4").loop[:3])
    known = {cta: Special("ctaid.x"), tile: Var("t"), k: Var("k")}
    m = indices(graph, known)[graph.group(s.tensor("T6").loop[1])]
    assert str(m) == "t * ceildiv(K, 64) + k"


def test_index_is_decomposed_from_the_whole() -> None:
    s = tiled()
    s.merge("T6", 1)
    graph = TransformGraph(s.fusion)
    m = graph.group(s.tensor("T6").loop[1])
    tile, k = (graph.group(d) for d in s.tensor("T4").loop[1:3])
    assert str(indices(graph, {m: Var("m")})[tile]) == "m // ceildiv(K, 64)"
    assert str(indices(graph, {m: Var("m")})[k]) == "m % ceildiv(K, 64)"
    assert m not in indices(graph, {tile: Var("t")})


def test_what_is_padded_has_the_index_of_what_it_was() -> None:
    """Levels of tiles that one side makes and merges again count as tiles do, without quotients."""
    s = Schedule(linear())
    s.split("T4", 0, 4, labels=("to", "ti"))
    s.merge("T4", 0)
    graph = TransformGraph(s.fusion)
    whole, dim = graph.group(s.tensor("T4").loop[0]), graph.group(s.tensor("T4").logical[0])
    assert indices(graph, {whole: Var("t")})[dim] == Var("t")
    assert indices(graph, {dim: Var("t")})[whole] == Var("t")


def test_tile_coordinates_follow_from_the_tile() -> None:
    f = schedule_matmul(linear(), COOPERATIVE)
    graph = TransformGraph(f)
    cta, tile = (graph.group(d) for d in f.tensor("T4").loop[:2])
    found = indices(graph, {cta: Special("ctaid.x"), tile: Var("t")})
    rows = next(g for g in graph.groups if g.label == "Mo")
    env = {"%ctaid.x": 1, "%nctaid.x": 4, "t": 2, "M": 300, "N": 700, "K": 64}
    assert evaluate(found[rows], env) == 9 // 3


def test_networkx_view() -> None:
    s = Schedule(linear())
    s.split("T5", 0, 128)
    graph = TransformGraph(s.fusion).networkx()
    assert [str(n) for n, kind in graph.nodes(data="kind") if kind == "step"] == ["split by 128"]
    assert [(str(a), str(b)) for a, b in graph.edges] == [
        ("M{M}", "split by 128"),
        ("split by 128", "Mo{ceildiv(M, 128)}"),
        ("split by 128", "Mi{128}"),
    ]


def test_what_is_dealt_out_at_run_time() -> None:
    """Another transform than the same split in turn; its parts do not follow from the whole."""
    f = split(split(linear(), "T5", 0, 4, dynamic=True), "T4", 0, 4)
    graph = TransformGraph(f)
    parts = {t: [graph.group(d) for d in f.tensor(t).loop[:2]] for t in ("T4", "T5")}
    assert parts["T4"] != parts["T5"]
    whole = graph.group(f.tensor("T5").logical[0])
    found = indices(graph, {whole: Var("m")})
    assert [g in found for g in (*parts["T4"], *parts["T5"])] == [True, True, False, False]
    assert str(next(s for s in graph.steps if s.outputs == tuple(parts["T5"]))) == (
        "split by 4, dynamic"
    )


@pytest.mark.parametrize("name", ["coop_128x128", "pingpong_128x128", "stream_k_cluster"])
def test_one_graph_for_a_compile(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    made: list[Fusion] = []
    original = TransformGraph.__init__

    def counted(self: TransformGraph, fusion: Fusion) -> None:
        made.append(fusion)
        original(self, fusion)

    monkeypatch.setattr(TransformGraph, "__init__", counted)
    planned = plan_matmul(linear(), SCHEDULES[name])
    assert len(made) == 1
    assert planned.graph.describes(planned.fusion)


def test_a_graph_describes_what_it_was_made_from() -> None:
    s = Schedule(linear())
    graph = TransformGraph(s.fusion)
    assert graph.describes(s.fusion)
    s.parallelize("T4", 0, ParallelType.BIDx)
    assert graph.describes(s.fusion)
    s.split("T4", 1, 64)
    assert not graph.describes(s.fusion)


def test_digits_of_a_number_that_was_split_in_several_ways() -> None:
    """By 16, and by 32 and then by 16: the fastest are the same loop, the slowest not, but made of
    two.
    """
    s = Schedule(linear())
    for tv, sizes in (("T4", (64, 16)), ("T5", (64, 32, 16))):
        for axis, size in enumerate(sizes):
            s.split(tv, axis, size)
    graph = TransformGraph(s.fusion)
    one = [graph.group(d) for d in s.tensor("T4").loop[:3]]
    two = [graph.group(d) for d in s.tensor("T5").loop[:4]]
    assert [one[0], one[2]] == [two[0], two[3]]
    assert graph.tiled(one[1], two) == ((two[1], 2), (two[2], 1))
    assert graph.tiled(two[1], one) == graph.tiled(one[1], two[:2]) == ()
    found = indices(graph, {two[1]: Var("a"), two[2]: Var("b")})
    assert str(found[one[1]]) == "a * 2 + b"


def test_a_split_with_a_tail_has_digits_of_its_own() -> None:
    s = Schedule(linear())
    for tv, sizes in (("T4", (96, 16)), ("T5", (96, 64, 16))):
        for axis, size in enumerate(sizes):
            s.split(tv, axis, size)
    graph = TransformGraph(s.fusion)
    assert graph.group(s.tensor("T4").loop[2]) != graph.group(s.tensor("T5").loop[3])
