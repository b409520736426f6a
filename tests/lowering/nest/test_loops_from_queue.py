"""A queue of tiles that several parts read: one ring, an entry for all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Const
from lowering.kernel.kernel import Kernel, MBarrierArray, Ring
from lowering.kernel.nodes import FetchTiles, NextTile, OnWarp, Role, Roles, Section
from lowering.kernel.visit import walk
from lowering.nest.computing import computing_parts
from lowering.nest.counter import Counter, counters
from lowering.nest.loops_from_queue import Queue
from lowering.nest.lower import lower
from lowering.nest.scope import Namer, Shared
from lowering.nest.tiles_by_counter import TilesByCounter
from tests.grouped import FORMS, grouped
from tests.schedules import (
    cooperative,
    definition,
    dynamic,
    in_tensor_memory,
    ping_pong,
    stream_k,
)
from wsched.front.known import import_fusion
from wsched.run.compiled import compile_fusion
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.scheduler import plan_matmul
from wsched.schedule.plan import Plan
from wsched.schedule.proof.relation import StepLoop

THREE = dynamic(in_tensor_memory(256, 32, 32, stages=2, epilogue_stages=1))


def planned(params: MatmulParams) -> Plan:
    return plan_matmul(import_fusion(definition()), params)


def tripled(loop: StepLoop) -> StepLoop:
    """A loop that three warpgroups take turns in."""
    return replace(loop, domain=replace(loop.domain, extent=Const(3)))


def final(params: MatmulParams) -> Kernel:
    return compile_fusion(import_fusion(definition()), params).kernel


def test_each_part_asks_one_queue() -> None:
    """Who loads, who multiplies and who stores, in loops of their own over the same entries."""
    kernel = lower(planned(THREE), "queue")
    sections = [s for s in kernel.body if isinstance(s, Section)]
    asking = [s.name for s in sections if any(isinstance(x, NextTile) for x in walk(s.body))]
    assert asking == ["load", "compute", "epilogue"]
    assert sum(isinstance(s, FetchTiles) for s in walk(kernel.body)) == 1
    assert [r.name for r in kernel.rings if r.name.startswith("queue")] == ["queue"]


def test_an_entry_is_given_back_by_all_who_read_it() -> None:
    """The two warpgroups that store, the warp that loads, and the one whose thread multiplies."""
    kernel = final(THREE)
    (empty,) = (b for b in kernel.of(MBarrierArray) if b.name == "queue_empty")
    assert empty.arrivals == 4 + 4 + 1 + 1
    (roles,) = (s for s in kernel.body if isinstance(s, Roles))
    load = next(r for r in roles.roles if r.name == "load")
    assert isinstance(load, Role) and sum(isinstance(s, OnWarp) for s in load.body) == 3


def test_a_part_takes_turns_or_reads_every_entry() -> None:
    """The queue has an entry for each of those who take turns; as many in all parts that do."""
    plans = [
        planned(dynamic(p))
        for p in (cooperative(64, 64, groups=1, registers=None), ping_pong(64, 64))
    ]
    alone, two = (counters(p.operands, p.graph) for p in plans)
    three = tuple(replace(c, roles=tuple(map(tripled, c.roles))) for c in two)
    dealt = plans[0].operands.nest[0].group

    def queue(*parts: tuple[Counter, ...]) -> Ring:
        return Queue.of(Shared(Namer([])), parts, dealt, TilesByCounter(dealt, Const(4))).ring

    found = [queue(alone), queue(two), queue(three), queue(alone, two), queue(two, alone)]
    assert [(r.teams, r.stages) for r in found] == [(1, 2), (2, 2), (3, 3), (2, 2), (2, 2)]
    with pytest.raises(UnsupportedError) as error:
        queue(three, alone, two)
    assert error.value.what == "parts of 2 and 3 turns with tiles of a queue"
    assert error.value.supported == "as many turns in all parts that take turns"


def test_parts_that_read_a_ring_in_other_turns_are_refused() -> None:
    """Of the ring that they read; sums have another one."""
    plan = planned(in_tensor_memory(256, 32, 32, stages=2, epilogue_stages=1))
    assert [e.name for e in plan.edges] == ["ring", "acc"]
    read = plan.edges[0].relation
    turns = replace(plan.edges[1].relation.warpgroups, taking=1)  # of two warpgroups
    others = replace(plan.edges[0], relation=replace(read, warpgroups=turns))
    with pytest.raises(UnsupportedError) as error:
        computing_parts(replace(plan, edges=(*plan.edges, others)))
    assert error.value.what == "T6, T7 read by parts of [1, 2] turns"
    assert error.value.supported == "as many turns in all parts that read a ring"


def test_sums_over_groups_are_refused() -> None:
    ranks = FORMS["sums"]
    fusion = import_fusion(grouped(ranks=ranks))
    with pytest.raises(UnsupportedError) as error:
        lower(plan_matmul(fusion, THREE), "sums")
    assert error.value.what == "2 parts that compute, of sums over groups"
    assert error.value.supported == "groups of rows or columns"


def test_parts_of_tiles_that_ctas_share_are_refused() -> None:
    """Several parts run whole tiles: none hands the rest of one to another CTA."""
    plan, shared = planned(THREE), planned(stream_k(cooperative(128, 128))).relations[0].work
    edges = (replace(e, relation=replace(e.relation, work=shared)) for e in plan.edges)
    with pytest.raises(UnsupportedError) as error:
        computing_parts(replace(plan, edges=tuple(edges)))
    assert error.value.what == "2 parts that compute, of tiles that CTAs share"
    assert error.value.supported == "whole tiles"
