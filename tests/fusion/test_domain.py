"""Merge and split as relations between indices."""

from __future__ import annotations

import pytest

from lowering.ground.expr import Const, Var, evaluate
from wsched.fusion import (
    IterDomain,
    IterType,
    Merge,
    ParallelType,
    Split,
    merge_index,
    split_extents,
    unmerge_index,
)


def merged(n_outer: int, n_inner: int, traversal: int) -> Merge:
    outer = IterDomain(0, Const(n_outer), "Mo")
    inner = IterDomain(1, Const(n_inner), "No")
    return Merge(outer, inner, IterDomain(2, Const(n_outer * n_inner), "tiles"), traversal)


@pytest.mark.parametrize("traversal", [0, 1, 2, 3, 8])
@pytest.mark.parametrize(("n_outer", "n_inner"), [(1, 1), (5, 3), (4, 7), (3, 1)])
def test_merge_is_a_bijection(n_outer: int, n_inner: int, traversal: int) -> None:
    t = merged(n_outer, n_inner, traversal)
    flat = Var("t")
    outer, inner = unmerge_index(t, flat)
    visited = [
        (evaluate(outer, {"t": n}), evaluate(inner, {"t": n})) for n in range(n_outer * n_inner)
    ]
    assert sorted(visited) == [(o, i) for o in range(n_outer) for i in range(n_inner)]
    back = merge_index(t, Var("o"), Var("i"))
    assert [evaluate(back, {"o": o, "i": i}) for o, i in visited] == list(range(len(visited)))


def test_traversal_visits_narrower_last_group() -> None:
    t = merged(3, 2, 2)
    outer, inner = unmerge_index(t, Var("t"))
    order = [(evaluate(outer, {"t": n}), evaluate(inner, {"t": n})) for n in range(6)]
    assert order == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]


def test_split_rounds_up_the_extent_not_asked_for() -> None:
    assert split_extents(Const(10), Const(4), True) == (Const(3), Const(4))
    assert split_extents(Const(10), Const(4), False) == (Const(4), Const(3))


def test_text() -> None:
    d = IterDomain(9, Var("N"), "N", IterType.Broadcast)
    assert str(d) == "bS9{1 ex N}"
    assert str(IterDomain(7, Var("M"), "cta").on(ParallelType.BIDx)) == "iblockIdx.x7{M}"
    outer, inner = IterDomain(1, Const(4), "o"), IterDomain(2, Const(3), "i")
    whole = IterDomain(0, Const(10), "x")
    assert (
        str(Split(whole, outer, inner, inner_split=False))
        == "Split: iS0{10} by 4, inner_split=False -> iS1{4}, iS2{3}"
    )
    assert str(merged(3, 2, 2)) == "Merge: iS0{3}, iS1{2}, traversal 2 -> iS2{6}"
