"""A row's bits do not depend on M: on the machine, whatever the heuristic chooses."""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from lowering.ground.errors import ScheduleError, UnsupportedError
from tests.epilogues import GELU
from tests.schedules import SCHEDULES, definition
from wsched.choose.heuristics import candidates
from wsched.choose.problem import Problem
from wsched.fusion import DataType
from wsched.schedule.matmul.params import MatmulParams

torch = pytest.importorskip("torch", reason="torch is not installed")
N, M = 72, 264
TEXT = definition("bf16", "f32")
"""The accumulators as they are: rounding them to 16 bits would hide most differences."""

ROWS = (1, 17, 64, 136, M)
"""Tiles of one and two warpgroups, full and cut off; the machine's 4 SMs get 1 to 5 of them."""


def operands(k: int, *sizes: int) -> list[Any]:
    generator = torch.Generator().manual_seed(k)
    return [torch.randn(rows, k, generator=generator).bfloat16() for rows in sizes]


def bits(t: Any) -> Any:
    return t.contiguous().view(torch.int16 if t.element_size() == 2 else torch.int32)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("k", [8, 72, 136])
def test_rows_alone_and_together(k: int) -> None:
    a, b = operands(k, M, N)
    (together,) = wsched.execute(TEXT, [a, b], batch_invariant=True)
    chosen = set()
    for rows in ROWS:
        kernel = wsched.compile(TEXT, [a[:rows], b], batch_invariant=True)
        assert kernel.params.batch_invariant
        chosen.add(str(kernel.params.output_tile))
        assert torch.equal(bits(kernel(a[:rows], b)[0]), bits(together[:rows]))
    assert len(chosen) > 1


@pytest.mark.slow
def test_any_two_candidates_agree() -> None:
    """Narrow and wide wgmmas, slices of 64 and 128, cooperative and ping-pong; K has a tail."""
    problem = Problem(M, 256, 72, DataType.BFloat16, (DataType.Float,), 4, batch_invariant=True)
    a, b = operands(72, 128, 256)
    found = {str(c.params.tile_sizes): c.params for c in candidates(problem)}
    assert all(params.batch_invariant for params in found.values())
    results = [wsched.execute(TEXT, [a, b], params=p)[0] for p in found.values()]
    assert len(results) > 8
    assert all(torch.equal(bits(r), bits(results[0])) for r in results)


def test_an_epilogue_changes_nothing_about_it() -> None:
    a, b, bias = *operands(136, M, N), torch.randn(N).bfloat16()
    (together,) = wsched.execute(GELU, [a, b, bias], batch_invariant=True)
    (alone,) = wsched.execute(GELU, [a[:17], b, bias], batch_invariant=True)
    assert torch.equal(bits(alone), bits(together[:17]))


def test_a_schedule_of_ones_own() -> None:
    a, b = operands(64, 64, 64)
    params = SCHEDULES["coop_128x64"]
    kernel = wsched.compile(definition(), [a, b], params=params, batch_invariant=True)
    assert kernel.params.batch_invariant and not params.batch_invariant
    with pytest.raises(ScheduleError, match=r"MatmulParams\(batch_invariant=True, splitk_"):
        split = MatmulParams(splitk_factor=2)
        wsched.execute(definition(), [a, b], params=split, batch_invariant=True)


def test_there_is_no_other_way() -> None:
    """What nvFuser or torch would run otherwise."""
    text = definition().replace("fd.ops.linear(x, w)", "fd.ops.relu(x)")
    a, b = operands(64, 64, 64)
    assert torch.equal(wsched.execute(text, [a, b])[0], a.relu())
    with pytest.raises(UnsupportedError) as error:
        wsched.execute(text, [a, b], batch_invariant=True)
    assert str(error.value) == (
        "a fusion with no fd.ops.linear or fd.ops.matmul is not supported; supported: one of them. "
        "With batch_invariant=True there is no other way: bits of nvFuser's and torch's results "
        "may depend on M"
    )
    with pytest.raises(UnsupportedError, match=r"no fd\.ops\.linear"):
        wsched.explain(text, [a, b], batch_invariant=True)


def test_explain() -> None:
    a, b = operands(64, 64, 64)
    found = wsched.explain(definition(), [a, b], batch_invariant=True)
    (choice,) = (c for c in found.choices if c.name == "batch_invariant")
    assert (choice.value, choice.reason) == (
        "True",
        "K is summed in one fixed order, so that a row's bits do not depend on M",
    )
    without = wsched.explain(definition(), [a, b])
    assert "batch_invariant" not in {c.name for c in without.choices}


def test_explained_is_what_execute_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine would refuse to run is refused, also of a schedule of one's own."""
    inputs = operands(64, 64, N)
    own = wsched.Schedule.of(TEXT, SCHEDULES["coop_128x64"])
    assert wsched.explain(TEXT, inputs, batch_invariant=True).kernel
    monkeypatch.setenv("WSCHED_MACHINE_SECONDS", "0.0001")
    for given, asked in ((TEXT, True), (own, False)):
        with pytest.raises(UnsupportedError, match=r"^a run of matmul_\w+ on the machine that"):
            wsched.explain(given, inputs, batch_invariant=asked)
