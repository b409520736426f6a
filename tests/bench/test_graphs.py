"""Ways in graphs that take turns: what is timed, how often, and what comes of it."""

from __future__ import annotations

from collections import Counter

import pytest

from wsched.bench.method import graphs


def test_a_way_is_the_mean_of_its_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the medians of theirs, for each call, however many of them a graph has."""
    made, replayed = list[tuple[str, int, int]](), Counter[tuple[str, int, int]]()

    def graph_of(calls: graphs.Calls, repeats: int) -> object:
        (name,) = {str(call()) for call in calls}
        graph = name, repeats, sum(g[:2] == (name, repeats) for g in made)
        made.append(graph)
        return lambda: graph

    def elapsed_us(replay: object) -> float:
        name, repeats, place = replay()  # type: ignore[operator]
        replayed[name, repeats, place] += 1
        late = 1000.0 if replayed[name, repeats, place] % 5 == 0 else 0.0
        return repeats * {"aa": 2 * 100.0, "b": 400.0}[name] * (1 + place / 10) + late

    monkeypatch.setattr(graphs, "graph_of", graph_of)
    monkeypatch.setattr(graphs, "elapsed_us", elapsed_us)
    found = graphs.timed({name: graphs.of_each(str, (name,) * len(name)) for name in ("aa", "b")})
    assert found == pytest.approx({"aa": 110.0, "b": 440.0})
    assert Counter(name for name, repeats, _ in made if repeats > 1) == {"aa": 3, "b": 3}
    assert {repeats for _, repeats, _ in made} == {1, 25, 50}
