"""The benchmark of the block of two layers, without a GPU."""

from __future__ import annotations

import re
from itertools import chain, groupby
from typing import Any

import pytest
from typer.testing import CliRunner

from lowering.ground.errors import UnsupportedError
from tests.doors.dropin.definitions import BUILDERS, built, inputs_of, torch
from tests.doors.dropin.spy import Spy
from wsched.bench import mlp as bench
from wsched.bench.cli import app
from wsched.bench.method.statistic import orders
from wsched.bench.method.tokens import tokens_of
from wsched.bench.mlp import NVFUSER, TOLERANCE, WSCHED, Row, Times, report, times_of
from wsched.importer import definition_of, record_text


def test_the_definition_is_the_block_of_the_tests() -> None:
    ours, theirs = record_text(bench.mlp_definition()), definition_of(built(BUILDERS["mlp"]))

    def ops(d: Any) -> list[str]:
        return sorted(n.op for n in d.nodes if n.op != "cast")

    assert ops(ours) == ops(theirs) and len(ours.outputs) == 1


def test_sizes_are_symbolic() -> None:
    text = bench.mlp_definition()
    assert [re.findall(r"shape=(\[.*?\])", line)[0] for line in text.splitlines()
            if "define_tensor" in line] == ["[-1, -1]", "[-1, -1]", "[-1]", "[-1, -1]"]  # fmt: skip


class Device:
    """A GPU on which a call takes 10 or 30 us, and 2 us of the host."""

    def __init__(self) -> None:
        self.now, self.busy, self.turns = 0.0, 0.0, []

    def clock(self) -> float:
        return self.now * 1e-6

    def synchronize(self) -> None:
        self.now = max(self.now, self.busy)

    def way(self, name: str, us: float) -> Any:
        def call() -> None:
            self.turns.append(name)
            self.now += 2.0
            self.busy = max(self.now, self.busy) + us

        return call


def test_times_of_ways_that_take_turns() -> None:
    """Each as often as fills a burst on the GPU, whatever that was still busy with; in an order
    that is drawn for each round.
    """
    gpu = Device()
    gpu.busy = 5000.0
    ways = {"slow": gpu.way("slow", 30.0), "fast": gpu.way("fast", 10.0)}
    found = times_of(ways, gpu.synchronize, 8, 3000.0, "odd 3", gpu.clock)
    assert found["slow"] == (pytest.approx(30.0, rel=0.01), pytest.approx(2.0))
    assert found["fast"] == (pytest.approx(10.0, rel=0.01), pytest.approx(2.0))
    runs = [(name, len(list(calls))) for name, calls in groupby(gpu.turns)]
    assert runs[:2] == [("slow", 3), ("fast", 3)]  # which say how many a burst has
    drawn = orders(list(ways), 9, "odd 3")
    assert ["slow", "fast"] in drawn and ["fast", "slow"] in drawn
    wanted = [(n, len(list(again))) for n, again in groupby(chain(*drawn))]
    assert [n for n, _ in runs[2:]] == [n for n, _ in wanted]
    for (name, calls), (_, bursts) in zip(runs[2:], wanted, strict=True):
        assert calls / bursts == pytest.approx({"slow": 100, "fast": 300}[name], rel=0.1)


def row(error: float = 1e-3) -> Row:
    times = {NVFUSER: Times(220.0, 36.0, 1e-3), WSCHED: Times(200.0, 16.0, error)}
    return Row(512, times, "wsched: linear", taken=True)


def test_a_row() -> None:
    assert row().ratio == pytest.approx(1.1) == row().to_dict()["ratio"]
    assert report(row()) == (
        "   512 tokens: nvFuser    220.0 us (host 36.0), with wsched    200.0 us (host 16.0), "
        "1.100 as fast\n       wsched: linear"
    )
    assert "  WRONG: wsched is off by 2.0e-01\n" in report(row(0.2))


@pytest.mark.slow
def test_both_ways_run(nvfuser: Spy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    inputs = inputs_of("mlp", 32)
    found = bench._measured([t * 0.25 for t in inputs], 1, 0.001)
    assert found.taken and found.tokens == 32 and set(found.times) == {NVFUSER, WSCHED}
    assert all(t.error < TOLERANCE for t in found.times.values())
    assert nvfuser.calls and all("tanh" in repr(c[0]) for c in nvfuser.calls)


def test_tokens() -> None:
    assert tokens_of("512, 2048,8") == [512, 2048, 8]


@pytest.mark.parametrize("text", ["", "a", "512,-1", "0"])
def test_tokens_that_are_none(text: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        tokens_of(text)
    assert str(caught.value) == (
        f"--tokens {text} is not supported; supported: positive numbers, separated by commas"
    )


def test_without_a_gpu() -> None:
    found = CliRunner().invoke(app, ["mlp"])
    assert found.exit_code == 2
    told = "wsched bench mlp here (torch.cuda finds no GPU) is not supported; "
    assert found.output == f"{told}supported: a CUDA GPU with torch\n"
