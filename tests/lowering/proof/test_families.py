"""Final kernels of families without schedules of their own in the tests: what is proved of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.obligation import Verdict
from lowering.proof.prove import prove
from lowering.summary.few_rows import FewRows, few_rows_kernel
from lowering.summary.kernel import summary_kernel
from lowering.summary.tile import Tile
from lowering.sweep.kernel import sweep_kernel
from lowering.sweep.tile import tile_of
from passes.summary import lower_summary
from tests.computed import cast, fusion, tile
from tests.grouped import BIAS, FORMS, GATE, grouped
from tests.legality.by_hand.parts import epilogue_in_turns
from tests.legality.by_hand.roles import three_in_turns
from tests.legality.by_hand.steps import steps_of_neighbours
from tests.legality.by_hand.tiles import split_k_on_a_grid_of_two_axes
from tests.legality.machine import compiled
from tests.lowering.summary.summaries import rms, total
from tests.lowering.sweep.sweeps import BF16, masked
from tests.lowering.sweep.test_kernel import accesses
from tests.mutants.edits import mutants
from tests.reductions import ALL, Reduced, definition
from tests.schedules import SCHEDULES, for_result
from tests.schedules import definition as plain
from tests.tiers import dealt
from wsched.front.known import import_fusion
from wsched.fusion import Fusion
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.counts import admitted_by, admitted_of
from wsched.run.row_kernel import TYPES, row_kernel
from wsched.schedule.matmul.params import ClusterDims, SupportedVectorization
from wsched.schedule.matmul.reductions import Reductions
from wsched.schedule.plan import Plan, make_plan


def check(kernel: Kernel, plan: Plan | None = None) -> None:
    """All claims, at the largest sizes that launches have, of the plan or of a kernel without."""
    found = prove(kernel, admitted_of(kernel) if plan is None else admitted_by(plan))
    assert found.proved, "\n".join(map(str, found.open))
    assert next(o for o in found.obligations if o.name == "32 bits").verdict is Verdict.PROVED


def checked(made: CompiledFusion) -> Kernel:
    """The kernel of what was made, proved."""
    check(made.kernel, made.plan)
    return made.kernel


def reduced(name: str, **more: Any) -> CompiledFusion:
    """A matmul with sums and maxima of rows and columns beside the result."""
    fusion_ = import_fusion(definition(ALL[:3]))
    params = replace(SCHEDULES[name], **more)
    params = for_result(params, "bf16", reductions=Reductions.of(fusion_))
    return compile_fusion(fusion_, params)


QUEUES = "dynamic", "dynamic_pingpong", "dynamic_cluster_2x2"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("form", "name"), dealt(FORMS, QUEUES))
def test_grouped(form: str, name: str) -> None:
    """Words that nested loops store, their ends behind them."""
    params = SCHEDULES[name]
    if form == "sums" and params.ping_pong:
        params = SCHEDULES["exchanged_dynamic"]
    if form == "columns":
        vector = SupportedVectorization(1)
        params = replace(params, use_smem_epilogue=False, supported_vec_size=vector)
    checked(compile_fusion(import_fusion(grouped(ranks=FORMS[form])), params))


@pytest.mark.slow
@pytest.mark.parametrize("text", [GATE, BIAS], ids=["gate", "epilogue"])
def test_grouped_with_more(text: str) -> None:
    """Warpgroups of whose rows none is there take their steps all the same."""
    name = "dynamic_cluster_2x2" if text == GATE else "dynamic"
    params = for_result(SCHEDULES[name], "bf16", inputs=("bf16", "bf16"))
    checked(compile_fusion(import_fusion(text), params))


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("dims", [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_computed_operands(dims: tuple[int, int]) -> None:
    """Stages that threads load are given back to peers by a release, not relaxed."""
    f = fusion(cast("Int8"))
    kernel = compile_fusion(f, tile(f, 128, 48, 64, 2, cluster_dims=ClusterDims(*dims)).params)
    text = print_kernel(checked(kernel))
    relaxed = text.replace("order=release.cluster", "order=relaxed.cluster")
    assert (relaxed == text) == (dims[1] == 1)
    if relaxed != text:
        refuted = [o for o in prove(parse_kernel(relaxed)).open if o.verdict is Verdict.REFUTED]
        assert {o.why for o in refuted} >= {
            "relaxed.cluster at CTA 1 of what threads have stored or loaded"
        }


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize(
    "name",
    ["coop_128x256", "pingpong_128x128", "pipelined", "exchanged_boxes", "exchanged_pingpong"],
)
def test_reductions(name: str) -> None:
    """Rows of warps meet in shared memory."""
    checked(reduced(name))


@pytest.mark.parametrize("dims", [(0, 1), (2,)])
def test_reductions_of_a_batch(dims: tuple[int, ...]) -> None:
    """Of two matrices as of the two parts in front of them: a place is of the matrix that its own
    coordinate says.
    """
    text = definition([Reduced("sum", dims)], batched=True, result=False)
    kernel = checked(compile_fusion(import_fusion(text), SCHEDULES["coop_narrow"]))
    moved = print_kernel(kernel).replace("T0[B3,", "T0[max(B3 - 1, 0),")
    (found,) = prove(parse_kernel(moved)).open
    assert (found.name, found.verdict) == ("operands", Verdict.REFUTED)
    assert "gets T0, of which coordinate 0 is 0" in found.why


@pytest.mark.slow
@pytest.mark.parametrize("n", [0, 1])
def test_a_meeting_is_missing(n: int) -> None:
    """The one before the stores, the one before the loads: without either warps race."""
    text = print_kernel(reduced("coop_128x256", use_smem_epilogue=False).kernel)
    parts = text.split("bar.sync rows[group]\n")
    assert len(parts) == 3
    kept = parts[0] + ("", "bar.sync rows[group]\n")[n] + parts[1]
    kept += ("bar.sync rows[group]\n", "")[n] + parts[2]
    found = [o for o in prove(parse_kernel(kept)).open if o.name == "exchange in shared memory"]
    assert {o.why.partition(": ")[2] for o in found} == {
        "warps load and store without a meeting between"
        if n
        else "warps store and load without a meeting between"
    }


def summary(reduced_over: tuple[int, ...], tile_: Tile) -> Kernel:
    return lower_summary(summary_kernel(rms(2, reduced_over), "summary", tile_, 2))


@pytest.mark.parametrize("few", [FewRows(2, 16), FewRows(4, 8)], ids=str)
def test_summaries_of_few_rows(few: FewRows) -> None:
    """No warps meet."""
    check(lower_summary(few_rows_kernel(total(), "summary", few)))


OVER = {(0,): (Tile(4, 128, 32), "group * 4, "), (1,): (Tile(4, 64, 128), "(group - 1) * 64, ")}


@pytest.mark.parametrize("over", OVER)
def test_summaries(over: tuple[int, ...]) -> None:
    """Warps of several warpgroups hand one another their sums; not over those of another."""
    tile_, rows = OVER[over]
    kernel = summary(over, tile_)
    check(kernel)
    text = print_kernel(kernel)
    assert rows in text
    found = prove(parse_kernel(text.replace(rows, "group * 2, "))).open
    assert [o.why for o in found if "store to the same rows" in o.why], found


def test_sweeps_and_copies() -> None:
    """Kernels without rings."""
    shape = (512, 200)
    sweep = masked(len(shape), BF16)
    check(lower_summary(sweep_kernel(sweep, "sweep", tile_of(shape, False), accesses(sweep, 8))))
    for dtype in TYPES:
        check(row_kernel(dtype))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "make", [epilogue_in_turns, three_in_turns, split_k_on_a_grid_of_two_axes, steps_of_neighbours]
)
def test_schedules_by_calls(make: Callable[[], Fusion]) -> None:
    """Teams that take turns within a tile, three of them, CTAs along y, intervals of other cuts."""
    plan = make_plan(make())
    check(compiled(plan), plan)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pingpong_64x128", "dynamic"])
def test_stamps(name: str) -> None:
    """Kernels that are traced: warps of a warpgroup stamp for themselves."""
    made = compile_fusion(import_fusion(plain()), SCHEDULES[name])
    check(made.traced.kernel, made.plan)


def rejected(kernel: Kernel, kind: str, what: str) -> bool:
    """Whether all mutants of a kind of some statements are rejected, and there are some."""
    broken = [m.kernel for m in mutants(kernel) if m.kind == kind and what in m.what]
    return bool(broken) and not any(prove(k).proved for k in broken)


@pytest.mark.slow
def test_registers_that_wgmmas_read() -> None:
    """A step's operand is computed when the wgmmas of the one before are over."""
    f = fusion(cast("Int8"))
    kernel = compile_fusion(f, tile(f, 128, 48, 64, 2).params).kernel
    assert rejected(kernel, "pending", "wgmma.wait")


@pytest.mark.slow
def test_a_word_that_is_not_stored() -> None:
    """Who reads a step finds all of its words, of the ends, too."""
    kernel = compile_fusion(import_fusion(grouped()), SCHEDULES["dynamic_pingpong"]).kernel
    assert rejected(kernel, "drop", "st.word")
