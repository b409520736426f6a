"""Calls in CUDA graphs that take turns, each way in several graphs.

A graph keeps the memory that its results lie in, and where that is moves the same kernel by up to
3 % (design/performance.md, 2026-11-29): what a way takes is the mean over graphs that lie apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import mean, median
from typing import TypeVar

from wsched.bench.method.gpu import elapsed_us
from wsched.bench.method.statistic import in_turns

__all__ = ["Way", "graph_of", "of_each", "timed"]

T = TypeVar("T")

_GRAPHS, _ROUNDS, _REPLAY_US = 3, 13, 1e4

Calls = Sequence[Callable[[], object]]
"""Calls that are alike on other operands."""

Way = Callable[[], Calls]
"""Its calls, asked for once for each graph: what they bind lies apart, too."""


def graph_of(calls: Calls, repeats: int) -> Callable[[], object]:
    """A function that replays a graph of these calls, one after the other, so many times over. It
    keeps them, since what they bind is theirs.
    """
    import torch

    for call in calls:
        call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            for call in calls:
                call()

    def replay() -> Calls:
        graph.replay()
        return calls

    return replay


def of_each(run: Callable[[T], object], operands: Sequence[T]) -> Way:
    """The calls of a function with one set of operands after the other."""
    return lambda: [partial(run, values) for values in operands]


def timed(ways: Mapping[str, Way]) -> dict[str, float]:
    """Microseconds of a call of each way: the mean over its graphs of the median of rounds, in each
    of which all graphs run once, in an order that is drawn.
    """
    graphs, counts = dict[str, Callable[[], object]](), dict[str, int]()
    for name, way in ways.items():
        calls = way()
        repeats = max(1, round(_REPLAY_US / elapsed_us(graph_of(calls, 1))))
        counts[name] = repeats * len(calls)
        graphs |= {f"{name} {place}": graph_of(way(), repeats) for place in range(_GRAPHS)}
    seen = in_turns(list(graphs), _ROUNDS, "ways in turn", lambda name: elapsed_us(graphs[name]))
    return {
        name: mean(median(seen[f"{name} {place}"]) for place in range(_GRAPHS)) / count
        for name, count in counts.items()
    }
