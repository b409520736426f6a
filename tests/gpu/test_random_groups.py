"""The random problems of groups, drawn and judged on the machine, without a GPU."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.gpu.random_groups import Outcome, run, summary

torch = pytest.importorskip("torch", reason="torch is not installed")

SMALL = 64


def test_what_is_drawn() -> None:
    from tests.drawn_groups import KINDS, drawn

    told = [drawn(seed, "cpu", SMALL).told for seed in range(120)]
    kinds = Counter(t.split()[0] for t in told)
    assert set(kinds) == set(KINDS) and min(kinds.values()) >= 10
    assert all(any(f"epilogue {n}" in t for t in told) for n in range(7))
    assert drawn(7, "cpu", SMALL).told == told[7]


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["rows", "index", "columns", "sums", "layer", "shared", "added"])
@pytest.mark.parametrize("seed", range(4))
def test_the_machine_passes(seed: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In kernels: where torch multiplies, it takes fewer problems on a GPU than on a CPU."""
    from wsched.doors.fallback.torch_ops import operations

    own = operations()["grouped_mm"]

    def shape_only(mat1: Any, *others: Any, **given: Any) -> Any:
        assert mat1.device.type == "meta", "torch multiplied"
        return own(mat1, *others, **given)

    monkeypatch.setitem(operations(), "grouped_mm", shape_only)
    outcome = run(seed, "cpu", SMALL, kind)
    assert (outcome.wrong, outcome.route) == ("", kind)


@pytest.mark.parametrize("kind", ["index", "layer", "shared"])
def test_a_wrong_row_is_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import wsched

    def off(call: Any) -> Any:
        def computed(*args: Any, **kwargs: Any) -> Any:
            made = call(*args, **kwargs)
            result = made[0] if isinstance(made, list) else made
            result[0] = result[0] * 1.5 + 1
            return made

        return computed

    for name in ("grouped_mm", "moe", "execute"):
        monkeypatch.setattr(wsched, name, off(getattr(wsched, name)))
    assert " elements are off" in run(5, "cpu", SMALL, kind).wrong


def test_who_writes_beside_a_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import wsched

    own = wsched.grouped_mm

    def one_more(*args: Any, **kwargs: Any) -> Any:
        result = own(*args, **kwargs)
        result.as_strided((result.numel() + 1,), (1,), result.storage_offset())[-1] = 3
        return result

    monkeypatch.setattr(wsched, "grouped_mm", one_more)
    assert "wrote beside what it made" in run(5, "cpu", SMALL, "rows").wrong


def test_summary() -> None:
    outcomes = [Outcome(0, "rows", ""), Outcome(1, "layer", "off"), Outcome(2, "", "OSError: no")]
    assert summary(outcomes, 3, 9.6) == (
        "3 of 3 problems in 10 s, 2 WRONG: rows 1 (33.3 %), layer 1 (33.3 %), failed 1 (33.3 %)"
    )
