"""Numbers of compute warpgroups: along which axis each has which index."""

from __future__ import annotations

from itertools import product

from lowering.ground.expr import Var, evaluate
from wsched.fusion import ParallelType
from wsched.schedule.warpgroups import ROLES, Warpgroups

Y, Z = ROLES
GROUP = Var("group")


def indices(w: Warpgroups) -> list[tuple[int, ...]]:
    """(TIDy, TIDz) of each warpgroup, in the order of their numbers."""
    axes = [w.index(axis, GROUP) for axis in (Y, Z)]
    return [tuple(evaluate(e, {"group": n}) for e in axes) for n in range(w.count)]


def test_one_axis_is_the_number_itself() -> None:
    w = Warpgroups(((Y, 3),), 3)
    assert (w.count, w.teams, w.index(Y, GROUP)) == (3, 1, GROUP)


def test_the_first_axis_is_the_fastest() -> None:
    assert indices(Warpgroups(((Y, 2), (Z, 3)), 6)) == [
        (y, z) for z, y in product(range(3), range(2))
    ]
    assert indices(Warpgroups(((Z, 3), (Y, 2)), 6)) == [
        (y, z) for y, z in product(range(2), range(3))
    ]


def test_who_shares_a_tile_are_neighbours() -> None:
    """Two share each tile, three such teams take turns."""
    w = Warpgroups(((Z, 2), (Y, 3)), 2)
    assert (w.count, w.teams) == (6, 3)
    assert [y for y, _ in indices(w)] == [0, 0, 1, 1, 2, 2]


def test_threads_are_no_warpgroups() -> None:
    assert ParallelType.TIDx not in ROLES
