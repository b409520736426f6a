"""The bench of narrow products, with a clock of our own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from wsched.bench.narrow import SETTINGS, compared, main, report, summary


def test_ways_take_turns() -> None:
    ran: list[str] = []

    def clock(way: Callable[[], object]) -> float:
        way()
        return float(len(ran))

    ways = {name: (lambda name=name: ran.append(name)) for name in ("wsched", "torch")}
    seen = compared(ways, clock, "seed")
    assert {name: len(us) for name, us in seen.items()} == {"wsched": 10, "torch": 10}
    assert all({*pair} == {"wsched", "torch"} for pair in zip(ran[::2], ran[1::2], strict=True))
    assert sorted(us for each in seen.values() for us in each) == list(map(float, range(3, 23)))


def test_lines() -> None:
    found = {"shape": "512x8192x8192", "setting": "rows", "ratio": 1.25, "kernel": "matmul_x",
             "tflops": [1300.4, 1040.3], "errors": [1.6e-3, 1.7e-3]}  # fmt: skip
    assert report(found) == (
        "512x8192x8192      rows           1.250 of torch    1300 and   1040 TFLOP/s  "
        "errors 1.60e-03 1.70e-03  matmul_x"
    )
    skipped = {"shape": "1x2x3", "setting": "int8", "skipped": "torch takes more than 16 rows"}
    assert report(skipped) == "1x2x3              int8           torch takes more than 16 rows"
    lines = list(summary([found, found | {"ratio": 0.8}, skipped]))
    assert lines == ["rows           1.000 in geometric mean of 2, 0.800"]


def test_settings_are_told_apart_by_their_names() -> None:
    assert len({s.name for s in SETTINGS}) == len(SETTINGS)
    assert [s.name for s in SETTINGS if s.integers] == ["int8"]


def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(SystemExit, match="2"):
        main([])
    told = "python -m wsched.bench.narrow here (torch.cuda finds no GPU) is not supported; "
    assert capsys.readouterr().err == f"{told}supported: a CUDA GPU with torch\n"
