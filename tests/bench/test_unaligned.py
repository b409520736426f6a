"""The measurement of copies, with a clock of our own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from wsched.bench.unaligned import main, measure, report


def test_ways_take_turns_for_about_as_long() -> None:
    ran: list[str] = []
    took = {"short": 100.0, "long": 5000.0}

    def clock(way: Callable[[], object], calls: int) -> float:
        for _ in range(calls):
            way()
        return took[ran[-1]]

    ways = {name: (lambda name=name: ran.append(name)) for name in took}
    assert measure(ways, clock) == took
    assert ran[:4] == ["short", "short", "long", "long"]
    rounds = [ran[at : at + 23] for at in range(4, len(ran), 23)]
    assert all(sorted(names) == ["long"] * 3 + ["short"] * 20 for names in rounds)
    assert {names[0] for names in rounds} == {"short", "long"}  # in orders that are drawn
    assert ran.count("short") == 2 + 11 * 20
    assert ran.count("long") == 2 + 11 * 3


def test_a_line() -> None:
    us = {"copies": 10.0, "torch": 25.0, "wsched": 30.0, "cublas": 20.0, "nvfuser": 80.0,
          "threads": 15.0}  # fmt: skip
    line = report({"shape": [16, 4096, 4095], "us": us, "bytes": 25_000_000, "refused": True,
                   "threads": "64x64x128, 2 load"})  # fmt: skip
    assert line.startswith("16x4096x4095     copies     10.0 us ( 2.50 TB/s)  torch's     25.0  ")
    assert "by threads     15.0 (64x64x128, 2 load)  cuBLAS" in line
    assert line.endswith("predicted faster: nvFuser")


def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(SystemExit, match="2"):
        main([])
    told = "python -m wsched.bench.unaligned here (torch.cuda finds no GPU) is not supported; "
    assert capsys.readouterr().err == f"{told}supported: a CUDA GPU with torch\n"
