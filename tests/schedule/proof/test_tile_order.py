"""A tile as its warpgroups go through it: who is stopped, and for which numbers of stages."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from lowering.ground.expr import Const, Var
from tests.schedule.proof.test_tile_steps import of_two
from wsched.fusion import IterType, ParallelType
from wsched.schedule.plan import Plan, make_plan
from wsched.schedule.proof.nest import nest
from wsched.schedule.proof.tile_order import TileRing, stopped

Y = ParallelType.TIDy
BY_ROWS, FOR_ALL, OPERANDS = "aux1", "aux", "ring"
"""Rings of ``of_two``: four chunks of each of two warpgroups, four for both, and of the sums."""


@cache
def proved() -> Plan:
    """``of_two`` with stages for all that a warpgroup is ahead."""
    return make_plan(of_two(4))


def waited(
    stages: dict[str, int], roles: int = 2, chunks: int = 4, *, turns: bool = True
) -> frozenset[str]:
    """What is waited for in the end with so many stages, warpgroups and chunks for all."""
    p = proved()
    tile = frozenset(p.graph.group(s.domain) for s in p.operands.digits[: p.operands.outside])
    rings = [
        TileRing(
            e.name,
            frozenset(e.relation.readers),
            tuple(s.domain for s in e.relation.digits[e.relation.outside :]),
            stages.get(e.name, e.relation.buffer.stages),
        )
        for e in p.edges
    ]
    if chunks == 1:
        rings = [replace(r, loops=()) if r.name == FOR_ALL else r for r in rings]
    nodes = nest(p.fusion, p.graph, p.parts[p.computing[0]].tensors)
    return stopped(p.graph, nodes, tile, {Y: roles}, rings, turns=turns)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("both", [1, 2, 3])
def test_who_is_ahead_needs_stages_for_its_whole_turn(rows: int, both: int) -> None:
    """The second warpgroup begins its turn with ``aux1`` behind that of the first, which goes
    through all chunks of ``aux``: stages of ``aux1`` change nothing.
    """
    assert waited({BY_ROWS: rows, FOR_ALL: both}) == {BY_ROWS, FOR_ALL}
    assert not waited({BY_ROWS: rows, FOR_ALL: 4})


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
@pytest.mark.parametrize("both", [1, 2, 3, 4])
def test_without_turns_stages_of_either_ring_are_enough(rows: int, both: int) -> None:
    """Four chunks: who is ahead has those in stages of the one ring or of the other."""
    found = waited({BY_ROWS: rows, FOR_ALL: both}, turns=False)
    assert found == (frozenset() if rows + both >= 4 else {BY_ROWS, FOR_ALL})


def test_one_warpgroup_waits_for_nobody() -> None:
    assert not waited({BY_ROWS: 1, FOR_ALL: 1}, roles=1)


def test_a_step_for_all_of_a_tile_is_waited_for_once() -> None:
    assert not waited({BY_ROWS: 1, FOR_ALL: 1}, chunks=1)


def test_slices_of_k_are_any_number() -> None:
    """No number of stages is enough to be ahead through a main loop, nor is it needed."""
    p = proved()
    k = next(s.domain for s in p.operands.digits if s.domain.label == "k")
    ring = TileRing(OPERANDS, frozenset({p.operands.compute}), (k,), 3)
    assert ring.endless
    assert ring.steps == 2
    assert not waited({OPERANDS: 1})
    (known,) = (replace(d, extent=Const(4)) for d in ring.loops)
    assert replace(ring, loops=(known,)).endless
    deals = replace(known, iter_type=IterType.Iteration, parallel=Y)
    assert not replace(ring, loops=(deals,)).endless
    assert replace(ring, loops=(deals,)).turns == 4
    assert replace(ring, loops=(replace(deals, extent=Var("n")),)).endless
