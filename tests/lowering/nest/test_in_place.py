"""Loads that who reads them does: one part, a ring of one stage, the right product."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from lowering.ground.errors import UnsupportedError
from lowering.kernel.nodes import Consume, LoadTile, MBarrierWait, Produce, Section
from lowering.kernel.visit import walk
from lowering.machine.adversary import Adversary, adversaries
from tests.lowering.nest.in_place import AHEAD, IN_PLACE, TWICE
from tests.on_machine import NUMPY, Problem, exact, operands, run
from tests.tiers import dealt
from wsched.front.own import kernel_of
from wsched.run.compiled import CompiledFusion

PROBLEMS = {
    "tails": Problem(201, 136, 200, 2),
    "one_tile": Problem(64, 64, 64, 1),
    "no_k": Problem(136, 72, 0, 2),
}


@lru_cache
def kernel(name: str) -> CompiledFusion:
    return kernel_of(IN_PLACE[name]())


@pytest.mark.parametrize(("name", "kind"), dealt(IN_PLACE, list(PROBLEMS)))
def test_integers_are_exact(name: str, kind: str) -> None:
    orders: tuple[Adversary, ...] = ("lazy", "random")
    for order in orders:
        a, b = operands(PROBLEMS[kind], "bf16", 3, integer=True)
        d = run(kernel(name), PROBLEMS[kind], a, b, "bf16", adversary=order)
        assert np.array_equal(d, exact(a, b).astype(NUMPY["bf16"])), order


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", IN_PLACE)
def test_kernels_are_proved_and_do_not_spill(name: str) -> None:
    assert kernel(name).proof().proved
    found = kernel(name).resources
    assert found.spill_stores == found.spill_loads == found.stack == 0


def test_one_part_loads_and_multiplies() -> None:
    """It has no load warps, and a ring that begins and ends in it."""
    plan = IN_PLACE["tma"]().plan()
    (part,), (edge,) = plan.parts, plan.edges
    assert (part.name, part.fills, part.loads) == ("compute", ("T6", "T7"), False)
    assert (edge.producer, edge.consumer, edge.in_place) == (0, 0, True)
    assert (edge.relation.buffer.stages, plan.threads) == (1, 128)


def test_parts_beside_a_ring() -> None:
    """What is loaded ahead is a part of its own, whose warps are not those that multiply."""
    plan = IN_PLACE["beside_a_ring"]().plan()
    assert [(p.name, p.fills) for p in plan.parts] == [("load", ("T7",)), ("compute", ("T6",))]
    assert [e.in_place for e in plan.edges if e.relation.loads == ("T6",)] == [True]
    assert plan.threads == 256


def test_a_step_is_filled_in_front_of_its_use() -> None:
    (section,) = (s for s in kernel("tma").tile_level.body if isinstance(s, Section))
    steps = [type(s) for s in walk(section.body) if isinstance(s, Produce | LoadTile | Consume)]
    assert steps == [Produce, LoadTile, LoadTile, Consume]


@pytest.mark.parametrize(("name", "alone"), [("tma", True), ("both", False), ("threads", False)])
def test_who_waits_for_the_stage(name: str, alone: bool) -> None:
    """Of TMA the thread that starts the copies; where threads copy, all of them."""
    text = kernel(name).dump("kernel")
    before = text[: text.index("mbarrier.wait ring_empty")].splitlines()
    assert (before[-2].split() == ["elect", "{"]) is alone
    waits = [s for s in walk(kernel(name).kernel.body) if isinstance(s, MBarrierWait)]
    assert len(waits) == 2


def test_peers_come_behind_what_threads_have_stored() -> None:
    """A peer copies into a stage that the threads of this CTA have stored to."""
    relaxed, ordered = (kernel(n).dump("kernel") for n in ("pair", "pair_of_both"))
    assert "order=relaxed.cluster" in relaxed
    assert "order=relaxed.cluster" not in ordered and "order=release.cluster" in ordered


def test_in_place_beside_loads_ahead_by_the_same_warps() -> None:
    with pytest.raises(UnsupportedError) as error:
        kernel_of(AHEAD())
    assert str(error.value).startswith(
        "T6 loaded in place beside Pipelined loads is not supported; "
        "supported: all loads in place, or WarpSpecialized ones beside them."
    )


def test_what_each_warpgroup_would_copy() -> None:
    with pytest.raises(UnsupportedError) as error:
        kernel_of(TWICE())
    assert str(error.value).startswith(
        "T6 = Set(T2) in place, of which each of 2 warpgroups copies all, is not supported; "
        "supported: rows of T6 shared out to them on TIDy or TIDz"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_PLACE)
def test_no_accesses_race(name: str) -> None:
    """One statement or one warp is as late as can be, everything else as early."""
    problem = Problem(130, 72, 136, 1)
    a, b = operands(problem, "bf16", 3, integer=True)
    for order in list(adversaries(kernel(name).kernel))[::10]:
        d = run(kernel(name), problem, a, b, "bf16", adversary=order, races=True)
        assert np.array_equal(d, exact(a, b).astype(NUMPY["bf16"])), order


def test_what_is_in_place_has_a_known_size() -> None:
    """Inlined at the tile it would be all of K."""
    s = IN_PLACE["tma"]()
    s[s.a, s.b].inline_at("No")
    assert "would hold all of loop Ko" in str(s.check())
