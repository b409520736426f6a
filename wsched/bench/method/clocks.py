"""Clocks, power and temperature while the rounds run: NVML if its Python package is there, else
``nvidia-smi``; a benchmark without either still runs and says so.
"""

from __future__ import annotations

import importlib
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

__all__ = ["ClockSampler", "EnergyCounter", "Sample", "parse_smi", "summary"]

_NVML_PERIOD_S = 0.02
_SMI_PERIOD_MS = 100
_SMI_FIELDS = "clocks.sm,power.draw,temperature.gpu"


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading: SM clock in MHz, board power in W, GPU temperature in °C."""

    mhz: float
    watts: float
    celsius: float


def summary(samples: list[Sample], source: str) -> dict[str, Any]:
    """Return medians and ranges of the samples, and where they come from."""
    if not samples:
        return {"source": source, "samples": 0}
    return {
        "source": source,
        "samples": len(samples),
        "sm_mhz": median(s.mhz for s in samples),
        "sm_mhz_range": [min(s.mhz for s in samples), max(s.mhz for s in samples)],
        "watts": median(s.watts for s in samples),
        "watts_max": max(s.watts for s in samples),
        "celsius_max": max(s.celsius for s in samples),
    }


def parse_smi(line: str) -> Sample | None:
    """Parse a line ``1755, 689.12, 54`` of ``nvidia-smi --format=csv,noheader,nounits``.

    A field that the board does not report (``[N/A]``) makes the line useless: None.
    """
    try:
        mhz, watts, celsius = (float(word) for word in line.split(","))
    except ValueError:
        return None
    return Sample(mhz, watts, celsius)


class _Nvml:
    """The NVML handle of a device; raises ImportError or NVML's error where there is none."""

    def __init__(self, uuid: str) -> None:
        self._nvml: Any = importlib.import_module("pynvml")
        self._nvml.nvmlInit()
        self._handle = self._nvml.nvmlDeviceGetHandleByUUID(uuid)

    def sample(self) -> Sample:
        """Read clock, power and temperature now."""
        n, h = self._nvml, self._handle
        return Sample(
            float(n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM)),
            n.nvmlDeviceGetPowerUsage(h) / 1e3,
            float(n.nvmlDeviceGetTemperature(h, n.NVML_TEMPERATURE_GPU)),
        )

    def joules(self) -> float:
        """Energy since the driver was loaded."""
        return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)) / 1e3


def _nvml(uuid: str) -> _Nvml | None:
    try:
        device = _Nvml(uuid)
        device.sample()
    except Exception:  # the package's own error type is not known where the package is missing
        return None
    return device


class EnergyCounter:
    """The board's energy counter, read through NVML only."""

    def __init__(self, uuid: str) -> None:
        self._device = _nvml(uuid)

    def joules(self) -> float | None:
        """Energy since the driver was loaded; None where the board does not count it."""
        if self._device is None:
            return None
        try:
            return self._device.joules()
        except Exception:  # as above: "not supported" is NVML's own type
            return None


class ClockSampler:
    """Samples in a thread between :meth:`start` and :meth:`stop`.

    Args:
        uuid: the device as NVML names it.
    """

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self._device = _nvml(uuid)
        self._samples: list[Sample] = []
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._smi: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Begin to sample."""
        self._samples = []
        self._ended.clear()
        body = self._poll if self._device is not None else self._smi_reader()
        if body is not None:
            self._thread = threading.Thread(target=body, daemon=True)
            self._thread.start()

    def stop(self) -> dict[str, Any]:
        """End the thread; see :func:`summary`."""
        self._ended.set()
        if self._smi is not None:
            self._smi.terminate()
            self._smi.wait(timeout=10)
            self._smi = None
        if self._thread is not None:
            self._thread.join(timeout=10)
            self._thread = None
        source = "NVML" if self._device is not None else "nvidia-smi"
        return summary(self._samples, source if self._samples else "none")

    def _poll(self) -> None:
        assert self._device is not None
        while not self._ended.wait(_NVML_PERIOD_S):
            self._samples.append(self._device.sample())

    def _smi_reader(self) -> Callable[[], None] | None:
        command = ["nvidia-smi", "-i", self._uuid, f"--query-gpu={_SMI_FIELDS}"]
        command += ["--format=csv,noheader,nounits", "-lms", str(_SMI_PERIOD_MS)]
        try:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        except OSError:
            return None
        self._smi = process

        def read() -> None:
            assert process.stdout is not None
            with process.stdout as lines:
                self._samples.extend(s for s in map(parse_smi, lines) if s is not None)

        return read
