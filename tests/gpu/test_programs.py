"""The random programs, drawn and judged on the machine, without a GPU."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.gpu.random_programs import Outcome, run, summary

torch = pytest.importorskip("torch", reason="torch is not installed")

SMALL = 48


@pytest.mark.slow
def test_what_is_drawn() -> None:
    from tests.random_program import RandomProgram
    from wsched.importer import record_text

    drawn = [RandomProgram(seed, SMALL) for seed in range(150)]
    blocks = Counter(name for p in drawn for name in p.blocks)
    assert len(blocks) == 21 and min(blocks.values()) >= 10
    texts = [p.text for p in drawn]
    assert sum("shape=[-1" in t for t in texts) > 20, "few have open sizes"
    assert sum("stride_order=[0, 1]" in t for t in texts) > 20, "few have operands by columns"
    assert all(len(record_text(p.text).inputs) == len(p.inputs) for p in drawn)
    assert RandomProgram(3, SMALL).text == texts[3]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_the_machine_passes(seed: int) -> None:
    outcome = run(seed, "cpu", SMALL)
    assert outcome.wrong == "" and outcome.route in ("wsched", "cut")
    assert not outcome.lost and outcome.flops > 0


@pytest.mark.slow
def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import wsched

    execute = wsched.execute

    def off_at_one_place(*args: object) -> list[object]:
        (first, *rest) = execute(*args)  # type: ignore[arg-type]
        first.view(-1)[-1] += 4 * first.float().square().mean().sqrt()
        return [first, *rest]

    monkeypatch.setattr(wsched, "execute", off_at_one_place)
    assert "1 of " in run(1, "cpu", SMALL).wrong


def test_summary() -> None:
    outcomes = [
        Outcome(0, "cut", "", ("layer",), 600, {"of fp32": 100}, 500),
        Outcome(1, "wsched", "", ("heads",), 400, {}, 0),
        Outcome(2, "", "OSError: no", ("norm",)),
    ]
    assert summary(outcomes, 4, 9.6).splitlines() == [
        "3 of 4 programs in 10 s, 1 WRONG: cut 1 (33.3 %), wsched 1 (33.3 %), failed 1 (33.3 %)",
        "of the matmuls' operations in kernels of wsched's: 90.0 % by execute, 50.0 % by install "
        "as predicted",
        "  10.00 %: of fp32",
    ]
