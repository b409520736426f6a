"""The random fusions, drawn and judged on the machine, without a GPU."""

from __future__ import annotations

import pytest

from tests.gpu.random_fusions import Outcome, draw, run, summary

torch = pytest.importorskip("torch", reason="torch is not installed")


def test_what_is_drawn() -> None:
    drawn = [draw(seed, 64) for seed in range(100)]
    operands = [t for _, inputs, _ in drawn for t in inputs[:2]]
    assert {t.dtype for t in operands} == {torch.bfloat16, torch.float16, torch.float32}
    assert any(t.stride(0) == 1 < t.stride(1) for t in operands), "none lies along M or N"
    assert any(t.stride(0) > t.shape[1] for t in operands), "none is a slice"
    assert any(t.storage_offset() % 8 for t in operands), "none is unaligned"
    assert {len(outputs) for _, _, outputs in drawn} >= {1, 2}
    assert draw(3, 64)[0] == drawn[3][0]


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(8))
def test_the_machine_passes(seed: int) -> None:
    outcome = run(seed, "cpu", 40)
    assert outcome.wrong == ""
    assert outcome.route


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(4))
def test_the_machine_passes_with_other_schedules(seed: int) -> None:
    outcome = run(seed, "cpu", 40, schedules=True)
    assert outcome.wrong == "" and outcome.route.startswith("wsched by ")


@pytest.mark.gpu
@pytest.mark.parametrize("seed", [2000280, 8002085])
def test_loads_do_not_overtake_reads(seed: int) -> None:
    """An epilogue that reads a matrix from shared memory behind stores to global memory: without
    ``fence.proxy.async`` in front of the release nine of ten runs were wrong on an H200.
    """
    for _ in range(50):
        assert run(seed).wrong == ""


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import wsched

    execute = wsched.execute
    monkeypatch.setattr(wsched, "execute", lambda *a: [t + 300 for t in execute(*a)])
    assert "beyond the bound" in run(0, "cpu", 40).wrong


def test_summary() -> None:
    outcomes = [Outcome(0, "wsched", ""), Outcome(1, "nvfuser", ""), Outcome(2, "", "OSError: no")]
    assert summary(outcomes, 4, 9.6) == (
        "3 of 4 fusions in 10 s, 1 WRONG: wsched 1 (33.3 %), nvfuser 1 (33.3 %), failed 1 (33.3 %)"
    )
