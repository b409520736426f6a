"""Copies or loads by threads: which is predicted to be faster, where it is chosen, what is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

import wsched
from lowering.ground.frozen import replaced
from tests.schedules import cooperative
from wsched.choose import heuristics
from wsched.choose.copy_cost import slower_than_direct
from wsched.choose.cost_model import cost
from wsched.choose.heuristics import candidates, choose_params, modelled, thread_loaded
from wsched.choose.made import is_legal
from wsched.choose.problem import Problem
from wsched.choose.thread_loads import (
    LEAST_BYTES,
    SURE,
    are_large,
    copied_us,
    thread_cycles,
    variants,
)
from wsched.fusion import DataType
from wsched.importer.linear import LINEAR
from wsched.schedule.matmul.kernel_options import thread_bytes
from wsched.schedule.matmul.params import ClusterDims, ThreadLoads

BF16 = DataType.BFloat16


def problem(m: int, n: int, k: int, a: int = 2, b: int = 2) -> Problem:
    return Problem(m, n, k, BF16, (BF16,), 132, thread_a=a, thread_b=b)


def test_variants_of_a_schedule() -> None:
    """Threads load both operands or the larger one, of one or two warpgroups; with operands that
    are exchanged the schedule's A is the problem's B. Clusters are left out.
    """
    plain = cooperative(128, 128)
    shared = replace(plain, cluster_dims=ClusterDims(2))
    for p, wanted in (
        (problem(64, 8192, 8191, 4, 2), [(4, 2), (0, 2)]),
        (problem(8192, 64, 8191, 4, 2), [(4, 2), (4, 0)]),
        (problem(64, 8192, 8191, 0, 2), [(0, 2)]),
    ):
        for exchanged in (False, True):
            given = replace(plain, exchange_operands=exchanged)
            found = [*variants(p, [given, replace(shared, exchange_operands=exchanged)])]
            sides = [s[::-1] if exchanged else s for s in wanted]
            loads = [ThreadLoads(a, b, groups) for a, b in sides for groups in (1, 2)]
            assert [f.thread_loads for f in found] == loads
            assert found == [
                replaced(given, thread_loads=each, prefetched_steps=0) for each in loads
            ]
    assert not [*variants(problem(16, 16, 15), [plain])]


def test_few_rows_of_a_large_operand() -> None:
    """Threads load the weight, which is read once; the few rows of the other operand are copied."""
    p = problem(16, 8192, 8191)
    found = thread_loaded(p)
    assert found is not None and choose_params(p, tuned=False) == found.params
    loads = found.params.thread_loads
    sides = (loads.b, loads.a) if found.params.exchange_operands else (loads.a, loads.b)
    assert sides[1] == 2
    behind = found.cost.us + copied_us(p, ThreadLoads(*sides))
    assert behind * SURE <= candidates(p)[0].cost.us + copied_us(p)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("p", "why"),
    [
        (problem(8192, 8192, 8191), "each tile would load single elements again"),
        (problem(16, 8192, 8192, 0, 0), "TMA reads both"),
        (problem(16, 1024, LEAST_BYTES // 2048 - 1), "little to copy"),
        (replace(problem(16, 8192, 8191), batch_invariant=True), "another order of K"),
    ],
)
def test_copies_stay(p: Problem, why: str) -> None:
    assert thread_loaded(p) is None, why
    assert choose_params(p, tuned=False) == modelled(p)


@pytest.mark.parametrize("p", [problem(16, 8192, 8191), problem(64, 9000, 4001, 0, 2)])
def test_the_fastest_of_all_that_threads_could_load(p: Problem) -> None:
    """Those that cannot win are not priced, and the result is that of pricing all."""
    found = thread_loaded(p)
    assert found is not None
    us = found.cost.us + copied_us(p, ThreadLoads(*thread_bytes(found.params)))
    for params in variants(p, (c.params for c in candidates(p))):
        if is_legal(p, params):
            loads = ThreadLoads(*thread_bytes(params))
            assert us <= cost(p, params).us + copied_us(p, loads)


def test_nothing_is_priced_for_little_to_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heuristics, "_priced", lambda *_: pytest.fail("a tile was priced"))
    assert thread_loaded.__wrapped__(problem(1000, 1001, 999)) is None


def test_from_how_many_bytes_an_operand_is_large() -> None:
    rows = LEAST_BYTES // 2 // 64
    assert [are_large(problem(m, 8, 64)) for m in (rows - 1, rows)] == [False, True]
    assert not are_large(problem(rows, 8, 64, a=0))


def test_wider_pieces_are_faster() -> None:
    p = problem(16, 8192, 8190, 4, 4)
    found = thread_loaded(p)
    assert found is not None
    narrow = replace(found.params, thread_loads=ThreadLoads(0, 2, 2))
    wide = replace(narrow, thread_loads=ThreadLoads(0, 8, 2))
    assert thread_cycles(p, wide) < thread_cycles(p, narrow)
    assert cost(p, wide).us < cost(p, narrow).us
    assert cost(p, narrow).step == "threads that load"
    assert thread_cycles(p, replace(narrow, thread_loads=ThreadLoads())) == 0


def test_copies_of_what_threads_do_not_load() -> None:
    p = problem(512, 1024, 2047)
    assert copied_us(p, ThreadLoads(2, 2)) == 0 < copied_us(p, ThreadLoads(0, 2))
    assert copied_us(p) == copied_us(p, ThreadLoads(2, 0)) + copied_us(p, ThreadLoads(0, 2))
    assert copied_us(replace(p, thread_a=0)) == copied_us(p, ThreadLoads(2, 0))


def test_nvfuser_is_asked_as_well() -> None:
    """A kernel without copies may still be slower than cuBLAS on the operands as they lie."""
    assert slower_than_direct((), 64, 64, 63, 1e3) == ""
    assert slower_than_direct((), 64, 64, 63, 1.0, threads=True) == ""
    assert slower_than_direct((), 64, 64, 63, 1e3, threads=True) == (
        "a kernel whose threads load operands is predicted to take 1000.0 us, the matmul of the "
        "operands as they lie 19.5 us"
    )


def test_explain_says_it() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x, w = (torch.empty(rows, 8191, dtype=torch.bfloat16, device="meta") for rows in (16, 8192))
    made = wsched.explain(LINEAR, [x, w], gpu="H200")
    said = {c.name: (c.value, c.reason) for c in made.choices}
    assert "b 2 bytes" in said["thread_loads"][0] or "a 2 bytes" in said["thread_loads"][0]
    assert said["thread_loads"][1] == (
        "rows begin where TMA takes none, or are no whole number of 16 bytes; copies in front "
        f"would take {copied_us(problem(16, 8192, 8191)):.1f} us"
    )
    assert made.refusals and all("behind copies of" in r.reason for r in made.refusals)
    assert made.kernel is not None and made.kernel.predicted_us is not None
