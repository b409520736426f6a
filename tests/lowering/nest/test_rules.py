"""Legal schedules that no rule of the lowering covers are refused, by what is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.nest.lower import lower
from lowering.target.hopper import HOPPER
from tests.epilogues import WIDE_RESIDUAL
from tests.legality import builder as by_hand
from tests.legality.by_hand.parts import CAST
from tests.legality.oracle import judge
from tests.lowering.nest.own import Draft
from tests.schedules import cooperative, definition, dynamic, pipelined, split_k, stream_k
from wsched.front.known import import_fusion
from wsched.fusion import Fusion, LoadStoreOpType, MemoryType, ParallelType, PrimitiveCall
from wsched.schedule import make_plan
from wsched.schedule.matmul import limits
from wsched.schedule.matmul import scheduler as matmul
from wsched.schedule.matmul.params import MatmulParams, TilingStrategy
from wsched.schedule.primitives.replay import replay
from wsched.schedule.schedule import Schedule

_TMA = LoadStoreOpType.CpAsyncBulkTensorTile


def refusal(
    monkeypatch: pytest.MonkeyPatch, params: MatmulParams | None = None, **patches: object
) -> UnsupportedError:
    """What ``lower`` says of a schedule made with parts of the matmul scheduler replaced."""
    for name, value in patches.items():
        monkeypatch.setattr(matmul, name, value)
    scheduled = matmul.schedule_matmul(import_fusion(definition()), params or MatmulParams())
    with pytest.raises(UnsupportedError) as error:
        lower(make_plan(scheduled), "k")
    assert "The nest is:\n" in error.value.hint
    return error.value


def instructions(**changes: int) -> dict[str, object]:
    """Parts of the scheduler that cut the tile into other matrix instructions than Hopper's."""
    target = replace(HOPPER, mma=replace(HOPPER.mma, **changes))  # type: ignore[arg-type]

    def other(part: Callable[..., None]) -> Callable[..., None]:
        def schedule(s: Schedule, *args: object) -> None:
            own, s.target = s.target, target
            part(s, *args)
            s.target = own

        return schedule

    names = ("_schedule_accumulator", "_schedule_epilogue")
    return {name: other(getattr(matmul, name)) for name in names}


ONE_TILE = MatmulParams(tiling_strategy=TilingStrategy.OneTilePerCTA)
MAIN_LOOP = "[N / n, K / 16, M / 64 | Mma: 64, n, 16]"


def test_another_k_of_the_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    error = refusal(monkeypatch, **instructions(k_bytes=64))
    assert error.what == (
        "k16 2 [Serial], m64 1 [Serial], M 64 [Mma], Ni 256 [Mma], K 32 [Mma] inside a k slice"
    )
    assert error.supported == MAIN_LOOP


def test_another_m_of_the_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    error = refusal(monkeypatch, **instructions(m=32))
    assert "m32 2 [Serial], M 32 [Mma]" in error.what
    assert error.supported == MAIN_LOOP


def test_no_instruction_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def accumulator(s: Schedule, tv: str, params: MatmulParams) -> None:
        matmul._split_tile(s, tv, params)

    error = refusal(monkeypatch, _schedule_accumulator=accumulator)
    assert error.what == "Mi 64 [Serial], Ni 256 [Serial], Ki 64 [Serial] inside a k slice"


def test_a_store_from_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = matmul._cache

    def direct(s: Schedule, params: MatmulParams) -> matmul._Names:
        with monkeypatch.context() as patch:
            place = s.set_memory_type
            patch.setattr(s, "cache_before", lambda tv, op=None: tv)
            patch.setattr(s, "set_memory_type", lambda tv, m: place(tv, m) if tv != "T5" else None)
            return cache(s, params)

    error = refusal(monkeypatch, _cache=direct)
    assert error.what == "T5 = cast(T4), cast Local -> Global,"
    assert error.supported == ALL_RULES


ALL_RULES = "; ".join(
    (
        "CpAsyncBulkTensorTile Global -> Shared", "Set Global -> Shared", "mma Shared -> Local",
        "mma Shared and Local -> Local", "mma Shared -> Tensor", "LdTMem Tensor -> Local",
        "LdMatrix Shared -> Local",
        "Set Shared -> Local", "Set Global -> Local", "Set Local -> Local", "cast Local -> Local",
        "pointwise Local -> Local", "index -> Local", "reduction Local -> Local",
        "StMatrix Local -> Shared",
        "Set Local -> Shared",
        "CpAsyncBulkTensorTile Shared -> Global", "Set Local -> Global",
    )
)  # fmt: skip


PARTS = "on BIDz a constant number of parts of K, one for each CTA along z"


def test_tiles_on_ctas_along_z(monkeypatch: pytest.MonkeyPatch) -> None:
    tile = matmul.split_into_tiles

    def other(s: Schedule, tv: str, params: MatmulParams, outer: int) -> None:
        tile(s, tv, params, outer)
        s.parallelize(tv, 0, ParallelType.BIDz)

    error = refusal(monkeypatch, ONE_TILE, split_into_tiles=other)
    assert error.what == "loop cta ceildiv(M, 128) * ceildiv(N, 256) [BIDz] of T4"
    assert error.supported == PARTS


def test_rows_of_ctas_that_are_dealt_tiles() -> None:
    """They would take from one queue; the proof refuses that before the lowering can."""
    m = by_hand.matmul()
    m.tile(64, 64, 32)
    m.split(m.every, "Mo", by_hand.CTAS, "row cta", dynamic=True)
    m.order(m.every, "cta No row")
    m.run(m.every, "cta", ParallelType.BIDx)
    m.run(m.every, "No", ParallelType.BIDy)
    m.steps("row k")
    m.stage()
    m.fragments("row", 32)
    m.inline("row")
    with pytest.raises(ScheduleError) as error:
        make_plan(m.s.fusion)
    assert error.value.rule == "load-bound"
    assert error.value.why == (
        "Mo are dealt out at run time, each to one CTA, but all CTAs of loop No ceildiv(N, 64) "
        "[BIDy] of T6 need the same"
    )


def test_a_loaded_matrix_beside_parts_of_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MatmulParams, "loads_epilogue_inputs", True)
    params = split_k(cooperative(128, 128), 2)
    scheduled = matmul.schedule_matmul(import_fusion(WIDE_RESIDUAL), params)
    with pytest.raises(UnsupportedError) as error:
        lower(make_plan(scheduled), "k")
    assert error.value.what == "T11 circular-buffered where CTAs add up parts of a tile"
    assert error.value.supported == "matrices of the epilogue read from global memory there"


def computed_in_shares(monkeypatch: pytest.MonkeyPatch) -> Fusion:
    """A is rounded in registers; the load steps of both operands are dealt out."""
    monkeypatch.setattr(limits, "computed_reasons", lambda *_: [])
    params = stream_k(cooperative(64, 64, groups=1, registers=None))
    return matmul.schedule_matmul(import_fusion(CAST), params)


def test_an_operand_in_a_ring_of_its_own_in_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Legal, and no kernel's: a CTA has the same share of both."""
    with pytest.raises(UnsupportedError) as error:
        lower(make_plan(computed_in_shares(monkeypatch)), "k")
    assert error.value.what == "operand T7 in a ring of its own where load steps are dealt out"


def test_shares_of_two_rings_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loads of A count K in threes, so that other steps of it are a CTA's than of B."""
    calls = computed_in_shares(monkeypatch).history
    merge = PrimitiveCall("merge", ("T7", 0, 1))
    at = calls.index(merge)
    calls = (*calls[:at], PrimitiveCall("split", ("T7", 1, 3)), merge, *calls[at:])
    with pytest.raises(ScheduleError) as error:
        make_plan(replay(import_fusion(CAST), calls))
    assert (error.value.rule, error.value.why) == (
        "load-bound", "a CTA has not the same share of the load steps of T7 and of T8",
    )  # fmt: skip


def in_shares(of_k: bool) -> Fusion:
    """Load steps are dealt out: those of a part of K on each CTA along z, or counted in threes."""
    m = by_hand.matmul()
    m.tile(64, 64, 32)
    m.merge(m.every, "Mo No", "tile")
    if of_k:
        tensors = (*m.loads, m.acc)
        m.split(tensors, "k", 2, "part k", outer=True)
        m.run(tensors, "part", ParallelType.BIDz)
    m.steps("tile k")
    if not of_k:
        m.split(m.loads, "tile·k", 3, "three tile·k")
        m.steps("three tile·k")
    m.split(m.loads, "tile·k" if of_k else "three·tile·k", by_hand.CTAS, "cta step", outer=True)
    m.order(m.loads, "cta part step")
    m.run(m.loads, "cta", ParallelType.BIDx)
    m.stage()
    m.order((m.acc,), "tile part k")
    m.fragments("tile", 32)
    m.s.inline_at(m.epilogue[1], "chunk")
    m.s.inline_at(m.epilogue[0], "m64")
    m.s.inline_at(m.acc, "tile")
    return m.s.fusion


@pytest.mark.parametrize(
    ("of_k", "what"),
    [
        (True, "parts of K on 2 CTAs along z where load steps are dealt out"),
        (False, "shares of steps of three·tile·k that are rounded up across tiles and k"),
    ],
)
def test_shares_that_no_kernel_has(of_k: bool, what: str) -> None:
    scheduled = in_shares(of_k)
    assert judge(scheduled).why is None
    with pytest.raises(UnsupportedError) as error:
        lower(make_plan(scheduled), "k")
    assert error.value.what == what


# --- results from registers -----------------------------------------------------------------------


DIRECT = MatmulParams(use_smem_epilogue=False)
"""Without shared memory behind the accumulator."""


def test_a_direct_store_of_a_box(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = matmul._schedule_epilogue

    def boxed(s: Schedule, tv: str, params: MatmulParams, names: matmul._Names) -> None:
        schedule(s, tv, params, replace(names, boxed=(*names.boxed, "T5")))

    error = refusal(monkeypatch, DIRECT, _schedule_epilogue=boxed)
    assert error.what == "T5 = Set(T8) of 64 x 64 [Bulk]"
    assert error.supported == "fragments [Mma] of a multiple of 64 rows and of 8 columns"


def test_a_direct_store_from_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = matmul._cache

    def shared(s: Schedule, params: MatmulParams) -> matmul._Names:
        names = cache(s, params)
        s.set_memory_type("T8", MemoryType.Shared)
        return names

    error = refusal(monkeypatch, DIRECT, _cache=shared)
    assert error.what == "T8 = cast(T4), cast Local -> Shared,"
    assert error.supported == ALL_RULES


def test_dealt_tiles_without_a_load_warpgroup(monkeypatch: pytest.MonkeyPatch) -> None:
    params = pipelined(dynamic(cooperative(128, 64, stages=4)))
    error = refusal(monkeypatch, params, require_legal=lambda *_: None)
    assert error.what == "tiles that are dealt out at run time with Pipelined loads"
    assert error.supported == "WarpSpecialized: a warp of the load warpgroup fetches tiles"


def test_dealt_steps_without_a_load_warpgroup(monkeypatch: pytest.MonkeyPatch) -> None:
    params = pipelined(stream_k(cooperative(128, 64, stages=4)))
    error = refusal(monkeypatch, params, require_legal=lambda *_: None)
    assert error.what == "load steps that are dealt out with Pipelined loads"
    assert error.supported == (
        "WarpSpecialized: steps ahead may be of another tile, which loads follow by themselves"
    )


def test_a_store_outside_of_the_branch_that_completes_a_tile() -> None:
    """Parts of K are added up in one of several CTAs; the others have nothing to store."""
    draft = Draft()
    draft.tile(64, 64, 64)
    draft.deal()
    draft.part(2, interleaved=True)
    draft.fill("tile", "k")
    draft.share("Ni", 32, "column", ParallelType.TIDy, 2)
    draft.multiply()
    draft.store("column", 32)
    draft.s[draft.box].inline_at("tile")
    with pytest.raises(UnsupportedError) as error:
        lower(draft.s.plan(), "k")
    assert error.value.what == ("T5 = CpAsyncBulkTensorTile(T8) where T8 is not in registers")
    assert error.value.supported == "T8 computed in the loops in which T5 is"
