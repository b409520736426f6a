"""Steps of a tile that its warpgroups deal out: each takes its own rows or columns of a matrix."""

from __future__ import annotations

import pytest

from lowering.cuda.emit import emit_cuda
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.ground.errors import ScheduleError, UnsupportedError
from tests.epilogues import RESIDUAL, epilogue
from tests.legality.agreement import outcome
from tests.legality.builder import ON_TIDY, Matmul, P, matmul
from tests.legality.by_hand.parts import apart, fragments
from tests.legality.machine import compiled
from tests.legality.oracle import Verdict
from tests.legality.scratch_apart import ROUNDED
from wsched.fusion import (
    CastOp,
    DataType,
    Fusion,
    LoadStoreOpType,
    ParallelType,
    PointwiseOp,
    WarpSpecialized,
)
from wsched.schedule import make_plan

TWO = epilogue("r: [-1, -1]", "q: [-1, -1]", "s = fd.ops.mul(y, q)", "t = fd.ops.add(s, r)",
               "d = fd.ops.cast(t, dtype=DataType.BFloat16)")  # fmt: skip


def shared(text: str, *, dynamic: bool = False) -> Matmul:
    """Two warpgroups have half of a tile's rows each; what the epilogue reads is not loaded yet."""
    m = matmul(text, ring=True)
    m.tile(128, 32, 32)
    m.deal(dynamic=dynamic)
    m.share("Mi", 64, "row", P.TIDy)
    m.steps("tile k")
    m.stage()
    m.order(m.compute, "cta tile row")
    return m


def finished(m: Matmul, chunk: int = 16) -> Fusion:
    m.fragments("row", chunk)
    m.inline("row")
    return m.s.fusion


def by_rows(m: Matmul, tv: str, stages: int, chunk: int = 0) -> None:
    """A step is a warpgroup's rows, of all columns or so many."""
    m.split((tv,), "Mi", 64, "row Mi")
    steps = "tile row"
    if chunk:
        m.split((tv,), "Ni", chunk, "chunk Ni")
        steps += " chunk"
    m.order((tv,), f"cta {steps}")
    m.steps(steps, (tv,))
    m.fill((tv,), stages, 0, ON_TIDY)


def by_columns(m: Matmul, tv: str, stages: int) -> None:
    """A step is eight columns of all rows of the tile."""
    m.split((tv,), "Ni", 8, "chunk Ni")
    m.order((tv,), "cta tile chunk")
    m.steps("tile chunk", (tv,))
    m.fill((tv,), stages, 0, ON_TIDY)


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize(
    ("stages", "chunk", "dynamic"), [(1, 0, False), (3, 16, False), (1, 16, True)]
)
def test_each_takes_its_own_rows(stages: int, chunk: int, dynamic: bool) -> None:
    """Also with one stage, where who is behind would wait for a phase too early; and where the
    queue says to both at once that there is no tile.
    """
    m = shared(RESIDUAL, dynamic=dynamic)
    by_rows(m, m.rings[0], stages, chunk)
    f = finished(m)
    _, aux = make_plan(f).relations
    assert (aux.warpgroups.teams, aux.warpgroups.dealing, aux.warpgroups.taking) == (1, 2, 1)
    said = outcome(f)
    assert (said.fault, said.why, said.legal) == (None, "", True)
    assert read_resources(compile_cubin(emit_cuda(compiled(f))), "drawn").clean


@pytest.mark.slow
def test_one_tile_for_each_cta() -> None:
    """The second one's first step is not the first of all, in no loop; columns in chunks of 16 for
    the loads, in halves of 32 and then of 16 for those who read: the same steps.
    """
    m = matmul(RESIDUAL, ring=True)
    m.tile(64, 64, 32)
    m.merge(m.every, "Mo No", "tiles")
    m.run(m.every, "tiles", P.BIDx)
    m.share("Ni", 32, "column", P.TIDy)
    m.stage()
    m.order(m.compute, "tiles column")
    (tv,) = m.rings
    m.split((tv,), "Ni", 16, "chunk Ni")
    m.order((tv,), "tiles chunk")
    m.fill((tv,), 2, 1, ON_TIDY)
    m.fragments("column", 16)
    m.inline("column")
    said = outcome(m.s.fusion)
    assert (said.fault, said.why, said.legal) == (None, "", True)
    assert said.unproved


@pytest.mark.slow
def test_one_is_held_around_the_turns_of_the_other() -> None:
    """Each CTA has a tile, so nothing is in front of the first turns. The second warpgroup waits
    for its step of the ring of one stage until the first one, which needs its turn with the other
    ring, has done with its own.
    """
    m = matmul(TWO, by_tma=False, ring=True)
    m.tile(128, 32, 32)
    m.merge(m.every, "Mo No", "tiles")
    m.run(m.every, "tiles", P.BIDx)
    m.share("Ni", 16, "column", P.TIDy)
    m.stage()
    m.order(m.compute, "tiles column")
    whole, halves = m.rings
    m.split((halves,), "Mi", 64, "rows Mi")
    for tv, steps, stages in ((whole, "chunk", 1), (halves, "chunk rows", 3)):
        m.split((tv,), "Ni", 16, "chunk Ni")
        m.order((tv,), f"tiles {steps}")
        m.steps(steps, (tv,))
        m.fill((tv,), stages, 0, ON_TIDY)
    m.fragments("column", 16)
    m.inline("column")
    f = m.s.fusion
    said = outcome(f)
    assert (said.fault, said.why, said.legal) == (None, "", True)
    assert read_resources(compile_cubin(emit_cuda(compiled(f))), "drawn").clean


def in_turns(m: Matmul) -> None:
    """Two pairs of warpgroups have every other tile."""
    m.split(m.every, "tile", 2, "tile turn")
    m.run(m.compute, "turn", P.TIDz)


@pytest.mark.slow
def test_in_turns_each_pair_deals_out_its_tile() -> None:
    m = matmul(RESIDUAL, ring=True)
    m.tile(128, 32, 32)
    m.deal()
    in_turns(m)
    m.share("Mi", 64, "row", P.TIDy)
    m.steps("tile turn k")
    m.stage()
    m.order(m.compute, "cta tile turn row")
    (tv,) = m.rings
    m.split((tv,), "Mi", 64, "row Mi")
    m.order((tv,), "cta tile turn row")
    m.steps("tile turn row", (tv,))
    m.fill((tv,), 2, 1, ON_TIDY)
    f = finished(m)
    _, aux = make_plan(f).relations
    assert (aux.warpgroups.teams, aux.warpgroups.dealing, aux.warpgroups.taking) == (2, 2, 1)
    said = outcome(f)
    assert (said.fault, said.why, said.legal) == (None, "", True)


@pytest.mark.slow
@pytest.mark.parametrize(("stages", "chunk"), [((1, 1), 16), ((1, 2), 0)])
def test_two_rings_that_deal_out_alike(stages: tuple[int, int], chunk: int) -> None:
    """Also where a tile leaves stage and parity of the ring of one stage as they were, which
    the proof of the kernel could take for those of the other ring.
    """
    m = shared(TWO)
    for tv, n in zip(m.rings, stages, strict=True):
        by_rows(m, tv, n, chunk)
    said = outcome(finished(m))
    assert (said.fault, said.why, said.legal) == (None, "", True)


def of_two(stages: int) -> Fusion:
    """One ring by rows for each, one with so many stages for all."""
    m = shared(TWO)
    first, second = m.rings
    by_rows(m, first, 1, 8)
    by_columns(m, second, stages)
    return finished(m, 8)


def test_one_that_all_take_together_is_waited_for_in_a_circle() -> None:
    """The second warpgroup's step of one ring is filled behind all of the first one's, which wants
    a step of the other ring that is filled when the second has released the one before.
    """
    said = outcome(of_two(2))
    assert said.oracle is not None and "waits for" in str(said.oracle.why)
    with pytest.raises(ScheduleError) as error:
        make_plan(of_two(2))
    assert (error.value.rule, error.value.why, error.value.legal) == (
        "role",
        "loop row [TIDy] of T18 deals out the steps of a tile, which its warpgroups share, and "
        "those of T17 are taken otherwise: one that is ahead in the one ring would wait for the "
        "other in the other one",
        ("load all of a tile in one step of T17", "at least 4 stages of T17"),
    )


@pytest.mark.slow
def test_with_stages_for_all_that_one_is_ahead_there_is_no_circle() -> None:
    said = outcome(of_two(4))
    assert (said.fault, said.why, said.legal) == (None, "", True)


@pytest.mark.slow
def test_with_stages_for_single_steps_a_turn_of_all_of_them_still_waits() -> None:
    """Three stages are enough for who is ahead by one step of the other ring, and no more: it is
    legal, but the turn of a kernel is a whole loop.
    """
    said = outcome(of_two(3))
    assert (said.refused, said.fault, said.legal, said.unsupported) == (None, None, True, True)
    with pytest.raises(UnsupportedError) as error:
        compiled(of_two(3))
    assert (error.value.what, error.value.supported) == (
        "loop row [TIDy] of T18, which deals out the steps of a tile, where a warpgroup waits for "
        "steps of T17 within its turn, and the next one holds those",
        "load all of a tile in one step of T17 or at least 4 stages of T17",
    )


def of_what_sums_nothing(stages: int) -> Fusion:
    """What is stored by one part all warpgroups of another one take, a chunk at a time; each has
    its own rows of a matrix.
    """
    m = matmul(ROUNDED, by_tma=False, ring=True)
    casts = [e.output for e in m.s.fusion.exprs if isinstance(e, CastOp)]
    rounded = next(tv for tv in casts if m.s.tensor(tv).dtype is DataType.BFloat16)
    stored, after = apart(m, rounded)
    m.tile(128, 32, 32)
    m.deal()
    m.steps("tile k")
    m.stage()
    m.split(after, "Mi", 64, "row Mi")
    m.run(after, "row", P.TIDy)
    m.order((m.acc,), "cta tile")
    m.wgmma()
    together, own = m.rings
    m.split((*stored, *after, together), "Ni", 16, "chunk Ni")
    fragments(m, stored, "cta tile chunk m64")
    fragments(m, after, "cta tile chunk row")
    m.order((together,), "cta tile chunk")
    m.steps("tile chunk", (together,))
    m.fill((together,), 2, 0, ON_TIDY)
    by_rows(m, own, 2, 16)
    m.s.circular_buffer(stored[-1], stages, 0, WarpSpecialized(P.TIDy, None, 3))
    m.s.inline_at(m.acc, "tile")
    return m.s.fusion


@pytest.mark.slow
def test_what_sums_nothing_has_no_turns_where_one_ring_has_none() -> None:
    """A role that deals out the steps of each ring is a turn with the tile; here it is none."""
    f = of_what_sums_nothing(2)
    made = make_plan(f)
    assert [r.outside for r in made.relations if r.compute in ("T19", "T22")] == [1, 1]
    said = outcome(f)
    assert (said.oracle, said.fault, said.ran) == (Verdict(), None, True)
    assert read_resources(compile_cubin(emit_cuda(compiled(f))), "drawn").clean


@pytest.mark.slow
def test_it_may_wait_for_turns_as_well() -> None:
    said = outcome(of_what_sums_nothing(1))
    assert (said.legal, said.fault, said.unsupported) == (True, None, True)
    assert "at least 2 stages of T9" in said.why


@pytest.mark.slow
def test_one_ring_behind_the_other_is_no_circle() -> None:
    """All chunks are multiplied by the second matrix before the first one is added, so nobody is
    ahead in one ring while it takes steps of the other. No kernel holds what has no chunk.
    """
    m = shared(TWO)
    first, second = m.rings
    by_rows(m, first, 1, 8)
    by_columns(m, second, 1)
    f = finished(m, 8)
    (product,) = (e.output for e in f.exprs if isinstance(e, PointwiseOp) and e.op == "mul")
    m.s.inline_at(product, m.s.axis(product, "row") + 1)
    said = outcome(m.s.fusion)
    assert (said.refused, said.legal) == (None, True)
    assert said.why.startswith(f"{product} inlined at 3 is not supported")


def test_what_is_summed_is_read_together() -> None:
    """The rows of A by way of registers, all slices of K for one warpgroup and then the other's."""
    m = matmul()
    a, b = m.loads
    read = m.s.cache_after(a, LoadStoreOpType.LdMatrix)
    m.epilogue = (read, *m.epilogue)
    m.tile(128, 32, 32)
    m.deal()
    m.steps("tile k", (b,))
    m.split((a,), "Mi", 64, "row Mi")
    m.order((a,), "cta tile row k")
    m.steps("tile row k", (a,))
    m.stage()
    m.share("Mi", 64, "row", P.TIDy)
    m.order(m.compute, "cta tile row k")
    with pytest.raises(ScheduleError) as error:
        make_plan(m.s.fusion)
    assert (error.value.rule, error.value.why, error.value.legal) == (
        "role",
        "loop row [TIDy] of T10 deals out the steps of a tile, which its warpgroups share, and sum "
        "up together: all of them take every step",
        ("load in a step what all iterations of loop row [TIDy] read",),
    )


def test_the_order_of_steps_is_that_of_numbers() -> None:
    """Columns are on the slower axis, so neighbours have different rows of the same ones."""
    m = matmul(RESIDUAL, ring=True)
    m.tile(128, 64, 32)
    m.deal()
    m.share("Mi", 64, "row", P.TIDy)
    m.share("Ni", 32, "column", P.TIDz)
    m.steps("tile k")
    m.stage()
    m.order(m.compute, "cta tile row column")
    by_rows(m, m.rings[0], 2)
    m.fragments("column", 16)
    m.inline("column")
    assert make_plan(m.s.fusion).relations[1].warpgroups.extents[0][0] is ParallelType.TIDz
    with pytest.raises(UnsupportedError) as error:
        compiled(m.s.fusion)
    assert (error.value.what, error.value.supported) == (
        f"{m.rings[0]} dealt out to warpgroups that are neighbours on TIDz",
        f"neighbours on TIDy: they are numbered as {' and '.join(m.loads)} are read",
    )
