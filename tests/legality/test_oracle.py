"""The oracle itself: what is known to run is legal, what is known to fail is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tests.epilogues import RESIDUAL
from tests.legality.agreement import outcome
from tests.legality.builder import CTAS, ON_TIDY, P, matmul
from tests.legality.by_hand.parts import (
    CAST,
    PARTS,
    apart,
    epilogue_apart,
    fragments,
    of_computed,
    operand_cast,
    two_products,
)
from tests.legality.by_hand.results import residual_in_ring
from tests.legality.by_hand.steps import shares_of_steps
from tests.legality.draws import made
from tests.legality.illegal import ILLEGAL, SOUND, TRIMMED
from tests.legality.oracle import NotJudged, Verdict, judge, tile_of, why_illegal
from tests.legality.parts import Parts
from tests.schedule.gated import gated, two_results
from tests.schedule.gated import scheduled as two_sums
from tests.schedule.proof.test_readers import changed
from tests.schedule.proof.test_waiting import in_a_circle, read_by_two
from tests.schedules import QUICK, SCHEDULES, definition, for_result
from tests.tiers import in_tiers
from wsched.fusion import Fusion, ParallelType, Pipelined, PrimitiveCall, WarpSpecialized
from wsched.importer import build_fusion, record_text
from wsched.schedule import Schedule
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.scheduler import schedule_matmul


def scheduled(params: MatmulParams, text: str) -> Fusion:
    return schedule_matmul(build_fusion(record_text(text)), params)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", in_tiers(SCHEDULES, QUICK))
def test_built_in_schedules_are_legal(name: str) -> None:
    assert why_illegal(scheduled(SCHEDULES[name], definition())) is None


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "name", ["coop_traversal_odd", "pingpong_64x256", "dynamic_pingpong", "cluster_pingpong"]
)
def test_so_are_rings_of_the_epilogue(name: str) -> None:
    fits = for_result(SCHEDULES[name], "bf16", inputs=("bf16",))
    fusion = scheduled(replace(fits, epilogue_input_stages=2), RESIDUAL)
    assert len(fusion.loads) == 3
    assert why_illegal(fusion) is None


def with_shares(calls: Sequence[PrimitiveCall]) -> Verdict:
    """What is said of load steps in shares with these calls, those of T7 made on T6 as well."""
    both = [replace(c, args=(tv, *c.args[1:])) for c in calls for tv in ("T6", "T7")]
    history = shares_of_steps().history
    at = next(n for n, c in enumerate(history) if c.op == "split" and c.args[2] == CTAS)
    return judge(made((*history[:at], *both, *history[at + 2 :])))


DEALT = {
    "as they are": ({"inner_split": False, "labels": ("cta", "step")}, None),
    "one step each": ({"labels": ("step", "cta")}, "T4 at CTA (0, 0, 0), role (0, 0) takes other "),
}
"""How the steps of all tiles are dealt out to CTAs, and what is wrong with that."""


@pytest.mark.parametrize("name", DEALT)
def test_steps_in_shares(name: str) -> None:
    """The shares, one behind the other, are what computes: not so of every so many steps."""
    options, why = DEALT[name]
    split = PrimitiveCall("split", ("T7", 0, CTAS), tuple(options.items()))
    on = [] if why is None else [PrimitiveCall("reorder", ("T7", {1: 0}))]
    verdict = with_shares((split, *on))
    assert verdict.why is None if why is None else (verdict.why or "").startswith(why)


@pytest.mark.slow
def test_a_loop_of_one_iteration_on_ctas_that_have_shares() -> None:
    """The loads say what a CTA's number counts; this loop counts nothing."""
    s = Schedule(shares_of_steps())
    for tv in ("T9", "T8"):
        s.parallelize(tv, s.axis(tv, "m64"), ParallelType.BIDx)
    said = outcome(s.fusion)
    assert (said.oracle, said.fault, said.ran) == (Verdict(), None, True)


def test_rings_of_the_epilogue_where_steps_are_in_shares() -> None:
    """Who has the end of a tile does not store it, and no loop says who does."""
    m = matmul(RESIDUAL, ring=True)
    m.tile(64, 32, 32)
    m.merge(m.every, "Mo No", "tile")
    m.steps("tile k")
    m.split(m.loads, "tile·k", CTAS, "cta step", outer=True)
    m.split(m.rings, "tile", CTAS, "cta tile", outer=True)
    m.run((*m.loads, *m.rings), "cta", P.BIDx)
    m.stage()
    m.fill(m.rings, 2, 1, ON_TIDY)
    m.fragments("tile")
    m.inline("tile")
    (copy,) = m.s.fusion.consumers(m.rings[0])
    why = why_illegal(m.s.fusion)
    assert why is not None
    assert why.startswith(f"{copy.name} is loaded by CTAs that may not complete the tile (")


def test_parts_that_each_have_a_share_are_not_judged() -> None:
    parts = Parts(epilogue_apart())
    dealt = scheduled(SCHEDULES["stream_k"], definition())
    assert Parts(dealt).deals_steps and not parts.deals_steps
    with pytest.raises(NotJudged, match="parts that each have a share of the load steps"):
        judge(apart_in_shares())


def apart_in_shares() -> Fusion:
    """A part stores what another one rounds, of tiles whose load steps are in shares."""
    m = matmul(by_tma=False)
    stored, after = apart(m)
    m.tile(64, 32, 32)
    m.merge(m.every, "Mo No", "tile")
    m.steps("tile k")
    m.split(m.loads, "tile·k", CTAS, "cta step", outer=True)
    m.run(m.loads, "cta", P.BIDx)
    m.stage()
    m.wgmma()
    fragments(m, stored, "tile")
    fragments(m, after, "tile")
    m.s.circular_buffer(stored[-1], 2, 1, WarpSpecialized(P.TIDy, None, 1))
    m.s.inline_at(m.acc, "tile")
    return m.s.fusion


def test_parts_of_a_share_have_no_kernel() -> None:
    said = outcome(apart_in_shares())
    assert (said.oracle, said.fault, said.ran) == (None, None, False)


def test_who_loads_may_differ_from_ring_to_ring() -> None:
    """No kernel has it yet: warps that load the operands, and others that load for themselves."""
    m = residual_in_ring()
    m.inline("group")
    (ring,) = m.rings
    t = m.s.tensor(ring)
    assert t.circular_buffer is not None
    own = replace(t, circular_buffer=replace(t.circular_buffer, type=Pipelined()))
    said = outcome(m.s.fusion.updated((own,)))
    assert (said.legal, said.fault, said.unsupported) == (True, None, True)
    assert said.why.startswith(f"{ring} loaded by Pipelined() and the operands by WarpSpecialized(")


@pytest.mark.sampled
@pytest.mark.parametrize("name", [*SOUND, *TRIMMED])
def test_legal(name: str) -> None:
    fusion = (SOUND | TRIMMED)[name]()
    assert why_illegal(fusion) is None
    assert tile_of(fusion)[2] == 32


@pytest.mark.sampled
@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal(name: str) -> None:
    make, reason = ILLEGAL[name]
    verdict = judge(make())
    assert verdict.why is not None
    assert reason in verdict.why
    assert not verdict.shape


@pytest.mark.parametrize("groups", [1, 2])
def test_two_sums_that_read_one_ring(groups: int) -> None:
    fusion = two_sums(gated(), n=64, k=32, groups=groups, stages=3).fusion
    assert why_illegal(fusion) is None
    assert tile_of(fusion) == (128, 64, 32)


def test_two_sums_that_take_a_stage_apart() -> None:
    """Each of them takes all stages in order, the second one in two loops over K."""
    verdict = judge(changed(("split", ("Ko", 2))))
    assert verdict.why is not None
    assert verdict.why.startswith("T4 and T8 take a stage apart at CTA (0, 0, 0), role (0, 0) ")


def test_two_sums_on_other_warpgroups() -> None:
    verdict = judge(
        changed(
            ("parallelize", ("Ni", ParallelType.Serial)),
            ("split", ("Ni", 64)),
            ("reorder", ({"Nio": 4},)),
            ("parallelize", ("Nio", ParallelType.TIDz)),
            ("parallelize", ("Nii", ParallelType.Mma)),
        )
    )
    assert verdict.why is not None
    assert "T9 at (0, 0, 0, 0, 1) reads what T8 does not hold there" in verdict.why


def test_operands_of_two_sums_that_are_buffered_otherwise() -> None:
    """They fill stages together, also those that different sums read."""
    fusion = two_sums(gated(), n=64, k=32, stages=3).fusion
    for name in ("T11", "T12"):
        t = fusion.tensor(name)
        assert t.circular_buffer is not None
        other = replace(t, circular_buffer=replace(t.circular_buffer, stages=2))
        verdict = judge(fusion.updated((other,)))
        assert verdict.why == "what is read by T4 and T8 is not circular-buffered alike"


def with_groups(first: int, second: int) -> Fusion:
    """Two results in tiles of 128 rows, each by so many warpgroups of its own."""
    made = two_sums(two_results(), m=128, n=32, k=32, groups=first, chunk=16, stages=2, prefetch=1)
    s = Schedule(two_results())
    for call in made.fusion.history:
        tv, *args = call.args
        if dict(call.kwargs).get("labels") == ("group", "Mg") and tv in ("T8", "T9", "T15", "T16"):
            args[1] = 128 // second
        getattr(s, call.op)(tv, *args, **dict(call.kwargs))
    return s.fusion


@pytest.mark.slow
def test_results_that_have_nothing_to_do_with_each_other() -> None:
    """Each has warpgroups of its own, and may have another number of them; it runs right."""
    said = outcome(with_groups(2, 1))
    assert said.legal and said.ran and said.wrong is None


@pytest.mark.parametrize("name", ["T14", "T16"])
def test_each_of_them_is_judged(name: str) -> None:
    fusion = with_groups(2, 1)
    verdict = judge(fusion.updated((replace(fusion.tensor(name), compute_at=0),)))
    assert verdict.why is not None
    assert verdict.why.startswith(f"what {name} holds at a time: loop tile of ")


# --- several parts ------------------------------------------------------------------------------


def test_parts() -> None:
    """What is computed, cut where it is stored for others; rings of loads and of these."""

    def names(f: Fusion) -> tuple[list[str], list[tuple[list[str], int | None]]]:
        parts = Parts(f)
        sections = [" ".join(t.name for t in ts) for ts in parts.sections]
        return sections, [([t.name for t in r.fills], r.filler) for r in parts.rings]

    assert names(epilogue_apart()) == (
        ["T4 T9 T8", "T10 T5"], [(["T6", "T7"], None), (["T8"], 0)]
    )  # fmt: skip
    assert names(operand_cast()) == (
        ["T9 T10 T3", "T5 T11 T6"], [(["T7"], None), (["T8"], None), (["T3"], 0)]
    )  # fmt: skip
    assert names(two_products()) == (
        ["T6 T17 T16 T8", "T7 T9 T10 T11 T19 T18 T12"], [(["T13", "T14", "T15"], None)]
    )  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("make", PARTS)
def test_parts_are_legal(make: Callable[[], Fusion]) -> None:
    assert why_illegal(make()) is None


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("matrix", "by"), [("chunk", "chunk"), ("tile", "chunk"), ("tile", "tile")]
)
def test_parts_that_come_to_an_end(matrix: str, by: str) -> None:
    assert why_illegal(read_by_two(matrix, by)) is None


def test_parts_that_wait_for_each_other() -> None:
    """Four chunks of T14 are read in front of the whole tile of T8, and there is place for two."""
    verdict = judge(read_by_two("chunk", "tile"))
    assert verdict.why is not None
    assert verdict.why.startswith(
        "at CTA (0, 0, 0) what makes T8, role (0, 0) waits for step 2 of T14, what makes T11, role "
        "(0, 0) waits for step 0 of T8, what loads T14 waits for a stage for step 2 of T14"
    )


@pytest.mark.slow
def test_with_a_stage_for_each_chunk_they_would_not() -> None:
    """The proof asks for an order that holds with any number of stages."""
    assert why_illegal(with_stages(read_by_two("chunk", "tile"), "T14", 4)) is None


@pytest.mark.slow
def test_a_box_that_is_filled_again_for_the_next_tile() -> None:
    """A has a ring of its own, and each CTA a row of tiles: A's box is the same in all of them."""
    m = of_computed(CAST)
    m.tile(64, 32, 32)
    m.run(m.every, "Mo", P.BIDx)
    m.order(m.every, "Mo No k")
    m.steps("No k")
    m.stage(3, 1)
    m.split((*m.compute, *m.rings), "No", 2, "pair No")
    m.order((*m.compute, *m.rings), "Mo pair No")
    m.fragments("No", 32)
    m.inline("No")
    fragments(m, m.rings, "Mo pair No k")
    m.s.circular_buffer(m.rings[-1], 2, 1, WarpSpecialized(P.TIDy, None, 4))
    said = outcome(m.s.fusion)
    assert (said.oracle, said.fault, said.ran) == (Verdict(), None, True)


@pytest.mark.slow
def test_turns_of_blocks_of_a_tile_that_is_stored() -> None:
    """A step is 64 rows and some columns of a tile, rows slowest. Of two warpgroups that store each
    takes the columns of its rows one after the other, wherever its loop stands.
    """
    m = matmul(by_tma=False)
    made, after = apart(m)
    m.tile(128, 32, 32)
    m.deal()
    m.steps("tile k")
    m.stage(3, 1)
    m.split(after, "Mi", 64, "row Mi")
    m.run(after, "row", P.TIDy)
    m.order((m.acc,), "cta tile")
    m.wgmma()
    m.split((*made, *after), "Ni", 16, "chunk Ni")
    fragments(m, made, "cta tile m64 chunk")
    fragments(m, after, "cta tile chunk row")
    m.s.circular_buffer(made[-1], 3, 1, WarpSpecialized(P.TIDy, None, 4))
    m.s.inline_at(m.acc, "tile")
    said = outcome(m.s.fusion)
    assert (said.oracle, said.fault, said.ran) == (Verdict(), None, True)


@pytest.mark.slow
def test_parts_in_a_circle_may_come_to_an_end() -> None:
    """Step by step they do; the proof refuses all circles."""
    assert why_illegal(in_a_circle()) is None


def with_stages(f: Fusion, name: str, stages: int) -> Fusion:
    t = f.tensor(name)
    assert t.circular_buffer is not None
    return f.updated((replace(t, circular_buffer=replace(t.circular_buffer, stages=stages)),))


def test_what_is_stored_in_another_order_than_it_is_read_in() -> None:
    """Tiles of a CTA are the inner loop of what is read."""
    calls = [c for c in epilogue_apart().history if (c.op, c.args[0]) != ("inline_at", "T10")]
    s = Schedule(made(tuple(calls)))
    for tv in ("T10", "T5"):
        s.reorder(tv, {s.axis(tv, "chunk"): 1})
    s.inline_at("T10", "m64")
    verdict = judge(s.fusion)
    assert verdict.why is not None
    assert "T10 at CTA (0, 0, 0), role (0, 0) takes other steps than are filled" in verdict.why
