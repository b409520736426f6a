"""The measurement of the host's cost: what is timed, what is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wsched.bench import host as module
from wsched.bench.host import LIMITS, SIX, Times, main, measure, report
from wsched.front.known import import_fusion


class Clock:
    """Goes on by what each call costs."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: list[str] = []

    def __call__(self) -> float:
        return self.now

    def path(self, name: str, costs: list[float]) -> Any:
        """A call that takes these microseconds in turn; each for a burst of 10."""
        calls = iter([c for c in costs for _ in range(10)])

        def call() -> None:
            self.log.append(name)
            self.now += next(calls) * 1e-6

        return call


def test_paths_take_turns_and_the_first_round_does_not_count() -> None:
    clock = Clock()
    timed = {"a": clock.path("a", [99, 2, 3, 4]), "b": clock.path("b", [99, 7, 5, 6])}

    def idle() -> None:
        clock.log.append("idle")
        clock.now += 1  # waiting is not timed

    times = measure(timed, idle, calls=10, rounds=3, clock=clock)
    assert {n: (round(t.median, 3), round(t.least, 3)) for n, t in times.items()} == {
        "a": (3, 2),
        "b": (6, 5),
    }
    burst = ["idle", *["a"] * 10, "idle", *["b"] * 10]
    assert clock.log == burst * 4


def test_report() -> None:
    times = {
        "bind": Times(5.5, 5.25),
        "bind of six": Times(5.75, 5.5),
        "torch linear": Times(14.0, 13.5),
    }
    assert report(times, "NVIDIA H200", limits=True).splitlines() == [
        "host cost of a call on NVIDIA H200, us: median (least)",
        "  bind            5.50 (5.25)  limit 4",
        "  bind of six     5.75 (5.50)  limit 6",
        "  torch linear   14.00 (13.50)",
    ]


def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 2
    assert capsys.readouterr().err == (
        "measuring the host cost without a GPU is not supported; supported: a CUDA device. "
        "--fake-driver needs none\n"
    )


def test_fake_driver(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    assert main(["--fake-driver", "--calls", "3", "--rounds", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["device"] == "a driver that does nothing"
    assert set(found["us"]) == set(LIMITS)
    assert main(["--fake-driver", "--calls", "3", "--rounds", "2"]) == 0
    assert "limit" not in capsys.readouterr().out


def test_inputs_lie_where_they_are_asked_for() -> None:
    """Whatever torch makes tensors on by default."""
    torch = pytest.importorskip("torch")
    with torch.device("meta"):
        assert main(["--fake-driver", "--calls", "1", "--rounds", "1", "--json"]) == 0


@pytest.mark.parametrize(("path", "us", "status"), [
    ("bind", 4.1, 1), ("bind", 3.9, 0), ("bind of six", 5.9, 0), ("bind of six", 6.1, 1),
])  # fmt: skip
def test_a_path_that_takes_too_long(
    path: str, us: float, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = dict.fromkeys(LIMITS, Times(1.0, 1.0)) | {path: Times(us, 1.0)}
    monkeypatch.setattr(module, "_run", lambda *_: (times, "a GPU"))
    assert main([]) == status


def test_six_inputs_are_those_of_the_kernel() -> None:
    fusion = import_fusion(SIX)
    assert len(fusion.inputs) == 6 and len(fusion.operands) == 2


@pytest.mark.gpu
def test_within_the_limits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0, capsys.readouterr().out
