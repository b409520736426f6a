"""Kernels broken as somebody else would break them: names, places and conditions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.kernel.nodes import BarSync, Break, GridDepWait
from tests.mutants.edits import Mutant, mutants
from tests.mutants.harmless import argument
from tests.mutants.judge import Fate, Judge
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
    waits = found("coop_2_stages", "nest", "griddepcontrol.wait by one warp of each four")
    assert isinstance(waits.stmt, GridDepWait)
    assert argument(waits)
    meets = found("coop_2_stages", "nest", "bar.sync T5_store[group] by one warp of each four")
    assert isinstance(meets.stmt, BarSync)
    assert not argument(meets)
    late = found("dynamic", "decide", "break n_tiles <= dealt behind let quotient")
    assert isinstance(late.stmt, Break)
    assert argument(late)
    far = found("dynamic", "decide", "break n_tiles <= dealt far behind ")
    assert not argument(far)


KINDS = {
    "a wait behind loads": ("coop_2_stages", "nest", "griddepcontrol.wait out behind roles"),
    "a wait behind some": ("coop_2_stages", "further", "griddepcontrol.wait further behind on"),
    "an arrival for all steps": ("coop_2_stages", "nest", "for ring_first in 0 .. 2"),
    "a group that is nobody's": ("coop_2_stages", "further", "wgmma.commit further behind if"),
    "words in front of a wait": ("dynamic", "further", "st.word queue_tile[stage_entry, 0], taken"),
    "a wait of nobody": ("coop_2_stages", "nest", "bulk.wait 0, read=true out behind elect"),
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
