"""Readings of clocks and power."""

from __future__ import annotations

import subprocess
import sys
import time
from types import ModuleType
from typing import Any

import pytest

from wsched.bench.method import clocks
from wsched.bench.method.clocks import ClockSampler, EnergyCounter, Sample, parse_smi, summary


def test_parse() -> None:
    assert parse_smi("1755, 689.12, 54\n") == Sample(1755, 689.12, 54)
    assert parse_smi("1755, [N/A], 54\n") is None
    assert parse_smi("No devices were found\n") is None


def test_summary() -> None:
    samples = [Sample(1500, 600, 50), Sample(1700, 700, 55), Sample(1600, 690, 52)]
    assert summary(samples, "NVML") == {
        "source": "NVML",
        "samples": 3,
        "sm_mhz": 1600,
        "sm_mhz_range": [1500, 1700],
        "watts": 690,
        "watts_max": 700,
        "celsius_max": 55,
    }
    assert summary([], "none") == {"source": "none", "samples": 0}


class Device:
    def sample(self) -> Sample:
        return Sample(1500, 650, 50)

    def joules(self) -> float:
        return 12.5


def test_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "_nvml", lambda uuid: Device())
    sampler = ClockSampler("GPU-1")
    sampler.start()
    while not sampler._samples:
        time.sleep(0.01)
    thread = sampler._thread
    assert thread is not None and thread.daemon  # a benchmark that fails does not wait for it
    read = sampler.stop()
    assert (read["source"], read["watts"]) == ("NVML", 650)
    assert not thread.is_alive()
    assert EnergyCounter("GPU-1").joules() == 12.5


def test_a_sampler_samples_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever measures twice starts and stops it twice."""
    monkeypatch.setattr(clocks, "_nvml", lambda uuid: Device())
    monkeypatch.setattr(clocks, "_NVML_PERIOD_S", 0.001)
    sampler = ClockSampler("GPU-1")
    for _ in range(2):
        sampler.start()
        end = time.monotonic() + 2
        while not sampler._samples and time.monotonic() < end:
            time.sleep(0.001)
        assert sampler.stop()["source"] == "NVML"


class Pynvml(ModuleType):
    """The package, for a board at a clock that starts it once."""

    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.started = 0

    def nvmlInit(self) -> None:  # noqa: N802
        self.started += 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        assert self.started == 1
        return f"handle of {uuid}"

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:  # noqa: N802
        return {("handle of GPU-1", 1): 1755}[handle, kind]

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:  # noqa: N802
        return {"handle of GPU-1": 689_120}[handle]

    def nvmlDeviceGetTemperature(self, handle: str, kind: int) -> int:  # noqa: N802
        return {("handle of GPU-1", 0): 54}[handle, kind]

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:  # noqa: N802
        if self.started > 1:
            raise RuntimeError("not supported")
        return {"handle of GPU-1": 12_500}[handle]


def test_what_nvml_says_in_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", package := Pynvml())
    board = clocks._nvml("GPU-1")
    assert board is not None
    assert (board.sample(), board.joules()) == (Sample(1755, 689.12, 54), 12.5)
    package.started = 0
    counter = EnergyCounter("GPU-1")
    assert counter.joules() == 12.5
    package.started = 2
    assert counter.joules() is None
    package.started = 0
    assert clocks._nvml("GPU-2") is None  # no such board


def test_smi(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    seen = []

    class Smi(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, command: list[str], **options: Any) -> None:
            seen.append(command)
            script = "echo '1500, 650.5, 50'; exec sleep 30"
            super().__init__(["sh", "-c", script], **options)

    monkeypatch.setattr(clocks, "_nvml", lambda uuid: None)
    monkeypatch.setattr(clocks.subprocess, "Popen", Smi)
    sampler = ClockSampler("GPU-1")
    sampler.start()
    while not sampler._samples:
        time.sleep(0.01)
    assert sampler.stop()["watts"] == 650.5
    assert seen == [
        [
            *("nvidia-smi", "-i", "GPU-1", "--query-gpu=clocks.sm,power.draw,temperature.gpu"),
            *("--format=csv,noheader,nounits", "-lms", "100"),
        ]
    ]


def test_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any, **__: Any) -> None:
        raise FileNotFoundError("nvidia-smi")

    monkeypatch.setattr(clocks, "_nvml", lambda uuid: None)
    monkeypatch.setattr(clocks.subprocess, "Popen", missing)
    sampler = ClockSampler("GPU-1")
    sampler.start()
    assert sampler.stop() == {"source": "none", "samples": 0}
    assert EnergyCounter("GPU-1").joules() is None
