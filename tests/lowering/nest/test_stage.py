"""Where in a stage an element lies."""

from __future__ import annotations

import pytest

from lowering.ground.expr import Expr, Var
from lowering.nest.stage import Stage
from lowering.nest.tile import tile_of
from tests.schedule.fusions import linear
from wsched.fusion import ParallelType
from wsched.schedule.graph import TransformGraph
from wsched.schedule.schedule import Schedule


@pytest.mark.parametrize("parallel", [ParallelType.Serial, ParallelType.Mma])
def test_pieces_of_a_tile_are_the_tile_where_its_index_is_known(parallel: ParallelType) -> None:
    """Whatever the pieces run on: a reader of other pieces knows the index of the whole."""
    s = Schedule(linear())
    s.split("T4", "N", 64, labels=("No", "Ni"))
    whole = s.tensor("T4").loop[s.axis("T4", "Ni")]
    s.split("T4", "Ni", 32, labels=("chunk", "n"))
    s.parallelize("T4", "n", parallel)
    t = s.tensor("T4")
    chunk, n = (t.loop[s.axis("T4", label)] for label in ("chunk", "n"))
    stage = Stage(tile_of(t, [chunk, n]), ())
    graph = TransformGraph(s.fusion)
    found: dict[object, Expr] = {graph.group(chunk): Var("c"), graph.group(n): Var("n")}
    columns = t.logical[1]
    assert str((stage.offsets(graph, found) or {})[columns]) == "c * 32 + n"
    found[graph.group(whole)] = Var("at")
    assert (stage.offsets(graph, found) or {})[columns] == Var("at")
