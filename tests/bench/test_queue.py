"""The comparison of tile queues, with a clock of our own, and the kernel that holds."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.cuda.emit import emit_cuda
from lowering.cuda.nvrtc import compile_cubin
from lowering.kernel.verify import verify
from lowering.machine import DeadlockError, MachineError, run_kernel
from tests.schedules import SCHEDULES
from wsched.bench.method.hold import hold_kernel
from wsched.bench.queue import main, measure, report, variants
from wsched.schedule.matmul.params import TilingStrategy


class Held:
    """Notes what happens within."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def __enter__(self) -> None:
        self.ran.append("hold")

    def __exit__(self, *_: object) -> None:
        self.ran.append("free")


def test_ways_take_turns_while_held() -> None:
    held, took = Held(), {"static": 20.0, "dynamic": 10.0}
    ways = {name: (lambda name=name: held.ran.append(name)) for name in took}

    def clock(way: object) -> float:
        way()  # type: ignore[operator]
        return took[held.ran[-1]]

    assert measure(ways, held, clock, rounds=2) == took  # type: ignore[arg-type]
    order = ["dynamic", "static", "static", "dynamic"]
    assert held.ran == [x for name in order for x in ("hold", name, "free")]


def test_a_line() -> None:
    us = {"static": 200.0, "dynamic": 125.0}
    found = {"shape": "512x512x64", "held": 66, "sms": 132, "alone": 60.0, "us": us}
    assert report(found) == (
        "512x512x64          66 of 132 held  static     200.0 us  dynamic     125.0  (1.600)  "
        "even share     120.0"
    )


def test_one_schedule_dealt_out_in_both_ways() -> None:
    both = variants(SCHEDULES["tile_per_cta"])
    assert {n: p.tiling_strategy for n, p in both.items()} == {
        "static": TilingStrategy.DistributeTilesAcrossSMs,
        "dynamic": TilingStrategy.DistributeTilesDynamically,
    }


def test_the_kernel_that_holds_waits_until_it_is_told() -> None:
    kernel = hold_kernel()
    assert verify(kernel) == []
    assert 2 * kernel.shared_bytes > 227 * 1024
    assert compile_cubin(emit_cuda(kernel)).cubin
    tensors = {"here": np.zeros((1, 1), np.float32), "free": np.zeros(1, np.int32)}
    with pytest.raises(DeadlockError):
        run_kernel(kernel, tensors, {"n": 2}, 2)
    tensors["free"][0] = 1
    with pytest.raises(MachineError, match=r"the grid leaves free\[0\] = 1"):
        run_kernel(kernel, tensors, {"n": 2}, 2)


def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(SystemExit, match="2"):
        main([])
    told = "python -m wsched.bench.queue here (torch.cuda finds no GPU) is not supported; "
    assert capsys.readouterr().err == f"{told}supported: a CUDA GPU with torch\n"
