"""Kernels broken as somebody else would break them: names, places and conditions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.expr import ZERO
from lowering.kernel.nodes import (
    BarSync,
    Break,
    GridDepWait,
    LdShared,
    MBarrierRef,
    MBarrierWait,
    TmaLoad,
)
from lowering.kernel.visit import walk
from tests.mutants.edits import Mutant, mutants
from tests.mutants.harmless import argument
from tests.mutants.judge import Fate, Judge
from tests.mutants.passing import beyond
from tests.mutants.subjects import subject


def found(name: str, kind: str, what: str) -> Mutant:
    """The first mutant of a kernel that is of a class and says so."""
    return next(m for m in mutants(subject(name).kernel) if m.kind == kind and what in m.what)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "what"),
    [
        pytest.param("coop_2_stages", "name", "-> let n_k: i32 = ceildiv(tiles, 64)", id="few"),
        pytest.param(
            "coop_2_stages", "name", "-> let n_k: i32 = ceildiv(step_bytes, 64)", id="enough"
        ),
        pytest.param("qkv", "name", "-> let n_k: i32 = ceildiv(N0, 64)", id="a list"),
        pytest.param("both_by_threads", "name", "-> let n_k: i32 = ceildiv(N, 64)", id="threads"),
        pytest.param("exchanged", "copy", "bulk.commit of compute behind mbarrier", id="endless"),
    ],
)
def test_what_passed_once_is_rejected(name: str, kind: str, what: str) -> None:
    """Steps that are counted by something else than K, and states without end."""
    judge = Judge(subject(name))
    assert judge.judged(found(name, kind, what), machine=False).fate is Fate.PROOF


def test_each_class_edits() -> None:
    """No mutant is the right kernel, and each new class has some."""
    kernel = subject("dynamic_cluster_pingpong").kernel
    new = {"name", "exchange", "nest", "further", "copy", "decide", "role", "array", "scope"}
    every = [m for m in mutants(kernel) if m.kind in new]
    assert {m.kind for m in every} == new
    assert all(m.kernel != kernel for m in every)


def test_harmless_elsewhere() -> None:
    """An argument looks at what was moved, and at the place."""
    waits = found("coop_2_stages", "further", "griddepcontrol.wait further in front of setmaxnreg")
    assert isinstance(waits.stmt, GridDepWait)
    assert argument(waits)
    meets = found("coop_2_stages", "nest", "bar.sync T5_store[group] by one warp of each four")
    assert isinstance(meets.stmt, BarSync)
    assert not argument(meets)
    late = found("dynamic", "decide", "break n_tiles <= dealt behind let quotient")
    assert isinstance(late.stmt, Break)
    assert argument(late)
    far = found("dynamic", "decide", "break n_tiles <= dealt far behind ")
    assert len(far.passed) == 2 and argument(far)
    assert not argument(replace(far, passed=(*far.passed, far.stmt)))  # no name


HARMLESS = {
    "a release later": (
        "four_warpgroups", "further", "for chunk in 0 .. 2 unroll { further in front of if 1",
        "a step is told of later, and no circle of waits comes of it"),
    "a turn is awaited sooner": (
        "dynamic_cluster_pingpong", "further", "if dealt == n_tiles { further in front of warp",
        "the lanes meet at the named barrier as well; a step is told of later, and no circle of "
        "waits comes of it"),
    "a wait later": (
        "split_cluster", "further", "if 0 < others { further in front of total",
        "still in front of all that needs it; a step is told of later, and no circle of waits "
        "comes of it"),
    "an empty group": (
        "in_turns_from_the_queue", "copy", "wgmma.commit of compute behind griddepcontrol.launch",
        "the group is empty; waits that leave some pending count it, so cover more"),
    "a fence where it is needed": (
        "tensor_memory_queue", "nest", "tcgen05.fence before into for summed",
        "still behind all that it orders, which is skipped where it is"),
    "the first warpgroup": (
        "dynamic_cluster_pingpong", "decide", "if group == 0 { if group <= 0",
        "no register of a place is negative"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", HARMLESS)
def test_harmless(kind: str) -> None:
    """What neither proof nor machine finds anything wrong with, and the reason that is given."""
    name, *where, why = HARMLESS[kind]
    mutant = found(name, where[0], where[1])
    assert Judge(subject(name)).judged(mutant).fate is Fate.NEITHER
    assert argument(mutant) == why


def test_a_rest_that_is_put_right_by_a_warpgroup() -> None:
    """Never, where fewer of them than the divisor's factor are there."""
    asked = "select(divisor <= group, rest - divisor, rest) % 8"
    late = next(m for m in mutants(subject("cluster_pingpong").kernel) if m.kind == "name"
                and asked in m.what.partition(" -> ")[2])  # fmt: skip
    assert argument(late) == "what is left is less by a whole divisor or not: the same modulo " \
        "its factor"  # fmt: skip


KINDS = {
    "a wait behind loads": ("coop_2_stages", "nest", "griddepcontrol.wait out behind roles"),
    "a wait behind some": ("coop_2_stages", "further", "griddepcontrol.wait further behind on"),
    "an arrival for all steps": ("coop_2_stages", "nest", "for ring_first in 0 .. 2"),
    "a group that is nobody's": ("coop_2_stages", "further", "wgmma.commit further behind if"),
    "words in front of a wait": ("dynamic", "further", "st.word queue_tile[stage_entry, 0], taken"),
    "a wait of nobody": ("coop_2_stages", "nest", "bulk.wait 0, read=true out behind elect"),
    "others go on": ("coop_2_stages", "nest", "griddepcontrol.wait by one warp of each four"),
    "a start too soon": ("coop_2_stages", "further", "griddepcontrol.launch_dependents further in"),
    "a wait by one": ("coop_2_stages", "copy", "griddepcontrol.wait of load behind mbarrier"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_no_argument(kind: str) -> None:
    """Statements of kinds that may stand elsewhere, where the proof says that they may not."""
    mutant = found(*KINDS[kind])
    judged = Judge(subject(KINDS[kind][0])).judged(mutant, machine=False)
    assert judged.fate in (Fate.PROOF, Fate.VERIFY)
    assert not argument(mutant)


def test_somebody_has_to_look() -> None:
    """Where nothing is claimed of what an argument is about it says nothing."""
    late = found("dynamic", "further", "dealt: i32 = ld.word queue_tile[stage_tile, 0]")
    assert argument(replace(late, kernel=subject("dynamic").kernel))
    assert not argument(replace(late, kernel=subject("row_copy").kernel))


def test_harmless_at_another_barrier() -> None:
    """Not where it is of other threads, or another one by its index."""
    same = found("stream_k_cluster", "array", "bar.sync T5_store[group] -> bar.sync parts_sync[")
    assert isinstance(same.new, BarSync)
    assert argument(same)
    elsewhere = replace(same.new, bar=replace(same.new.bar, index=same.new.bar.index + 1))
    assert not argument(replace(same, new=elsewhere))


def test_roles_of_other_warps() -> None:
    """Whole warpgroups are as good as others."""
    assert argument(found("split_cluster", "role", "exchanged"))


PASSED = {
    "a_by_threads": ("on %warpgroup.warp 0 { further behind elect {", "what threads copy"),
    "across_2x2": (
        "bar=ring_full[stage_k2] further in front of mbarrier.expect",
        "all are awaited",
    ),
    "computed": (
        "mbarrier.wait ring_full[stage_k], parity_k further behind acc_next",
        "another ring",
    ),
    "fp8_pingpong": ("setmaxnreg inc, 232 further behind griddep", "needs no more registers"),
    "grouped_sums": ("warp 1 { further in front of griddepcontrol.launch", "other warps"),
    "qkv_pingpong": (", 2) { further behind griddepcontrol.launch", "a turn is handed on later"),
}
"""Statements further on, and why that is harmless."""


@pytest.mark.sampled
@pytest.mark.parametrize("name", PASSED)
def test_harmless_beyond(name: str) -> None:
    what, why = PASSED[name]
    assert why in (argument(found(name, "further", what)) or "")


def test_beyond_what_it_is_in_order_with() -> None:
    """A reason is for both: a wait for a ring is in an order with what is read of that one."""
    kernel = subject("computed").kernel
    reader = next(s for s in walk(kernel.body) if isinstance(s, LdShared))
    ring, aux = (MBarrierWait(MBarrierRef(f"{n}_full", ZERO), ZERO) for n in ("ring", "aux"))
    assert beyond(kernel, ring, (reader,), sooner=False) == "what it passes is read of another ring"
    assert beyond(kernel, aux, (reader,), sooner=False) is None
    assert beyond(kernel, ring, (reader, aux), sooner=False) is None
    load = next(s for s in walk(kernel.body) if isinstance(s, TmaLoad))
    assert beyond(kernel, load, (replace(load, bar=aux.bar),), sooner=True) is None


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "kind", "what", "why"),
    [
        ("across_2x2", "nest", "fence.mbarrier_init into for", "still behind all inits"),
        ("tf32_pingpong", "nest", "parity_k2 out in front of elect", "all lanes wait"),
        ("tensor_memory_cluster", "nest", "tcgen05.alloc cells[0, 0, 0], 128 by one warp", "same"),
        ("split_cluster", "scope", "ring_first], order=relaxed.cluster", "first arrivals"),
        ("int8_split", "copy", "fence.proxy.async of compute behind griddep", "orders more"),
        (
            "grouped_first",
            "copy",
            "warp.sync of compute behind mbarrier.wait queue_full",
            "once more",
        ),
        ("pairs_queue", "decide", "%cluster.ctarank <= 0", "negative"),
        ("reductions_pingpong", "name", "t25, t8, below=below2", "stand for the same"),
        ("cluster_pingpong", "name", "< n_Mc // 8, select(divisor3 <= rest4, rest3", "factor"),
    ],
)
def test_harmless_by_what_is_there(name: str, kind: str, what: str, why: str) -> None:
    assert why in (argument(found(name, kind, what)) or "")


def test_the_warps_that_do_it_anyway() -> None:
    """A sync of all warps of who computes, and of the one that loads."""
    kernel = subject("grouped_sums").kernel
    every = [m for m in mutants(kernel) if m.what == "warp.sync by one warp of each four"]
    assert [argument(m) for m in every] == [None, "the warps that do it are the same"]
