"""Behind the end of a split: what lies there, and what follows from the whole being in range."""

from __future__ import annotations

from tests.schedule.fusions import linear
from wsched.schedule import Schedule, TransformGraph
from wsched.schedule.graph import Group
from wsched.schedule.proof.splits import ends_with_tensor, is_outer_of, wrote


def of_result(s: Schedule) -> tuple[TransformGraph, dict[str, Group]]:
    """The graph, and the groups of the result by label."""
    graph, t = TransformGraph(s.fusion), s.tensor("T5")
    made = [d for x in t.transforms for d in x.outputs]
    return graph, {d.label: graph.group(d) for d in (*t.logical, *made)}


def in_two_levels() -> Schedule:
    """Rows in tiles, these in pairs."""
    s = Schedule(linear())
    s.split("T5", 0, 64, labels=("tile", "row"))
    s.split("T5", 0, 2, labels=("pair", "half"))
    return s


def test_outer_parts_end_with_the_tensor() -> None:
    """Behind the last tile or pair is nothing; behind the last row of a tile comes the next."""
    graph, g = of_result(in_two_levels())
    ends = {label for label, group in g.items() if ends_with_tensor(graph, group)}
    assert ends == {"M", "N", "tile", "pair"}


def test_of_two_dimensions_merged_nothing_ends_with_the_tensor() -> None:
    s = Schedule(linear())
    s.merge("T5", 0, label="both")
    s.split("T5", 0, 64, labels=("some", "rest"))
    graph, g = of_result(s)
    assert not any(ends_with_tensor(graph, g[label]) for label in ("both", "some", "rest"))


def test_what_is_merged_again_ends_with_what_a_split_added() -> None:
    s = in_two_levels()
    s.merge("T5", 0, label="tiles")
    graph, g = of_result(s)
    assert graph.padded(g["tiles"]) == g["tile"] and ends_with_tensor(graph, g["tiles"])


def test_an_outer_part_is_in_range_with_the_whole() -> None:
    graph, g = of_result(in_two_levels())
    pairs = {(a, b) for a in g for b in g if is_outer_of(graph, g[a], g[b])}
    outer = {(a, b) for a, b in pairs if a != b}
    assert outer == {("pair", "tile"), ("pair", "M"), ("tile", "M")}
    assert all((a, a) in pairs for a in g)


def test_the_call_that_made_a_split() -> None:
    s = in_two_levels()
    t = s.tensor("T5")
    first, second = t.transforms
    assert wrote(s.fusion, t, first) == "split('T5', 0, 64, labels=('tile', 'row'))"
    assert wrote(s.fusion, t, second) == "split('T5', 0, 2, labels=('pair', 'half'))"
    assert wrote(Schedule(linear()).fusion, t, first) == str(first)
