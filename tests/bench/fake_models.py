"""Modules without a GPU: ways whose times are known, and as a module a worker that has them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lowering.ground.errors import UnsupportedError
from tests.bench.fakes import FakeSampler
from wsched.bench.method.measure import OutOfMemory
from wsched.bench.models.asked import Asked
from wsched.bench.models.measure import NVFUSER, OWN, Way
from wsched.bench.models.worker import run_models_job
from wsched.bench.peers.systems import Skip

DOT = "digraph cut { a -> b; }\n"


@dataclass
class FakeDevice:
    """``us``: time of a call by way; a graph takes half of it, and the host a tenth.

    Kinds of ``bad`` of a way: skip, unsupported, error, wrong, nan, graph, broken.
    """

    us: dict[str, float]
    bad: dict[str, str] = field(default_factory=dict)
    now: float = 0.0
    ready: float = 0.0
    entered: list[str] = field(default_factory=list)
    lost: bool = False

    def case(self, asked: Asked, seed: int) -> FakeCase:
        return FakeCase(self, asked)

    def clock(self) -> float:
        return self.now

    def synchronize(self) -> None:
        if self.lost:
            raise RuntimeError("an illegal memory access was encountered")
        self.now = max(self.now, self.ready)

    def run(self, us: float, host: float) -> None:
        self.ready = max(self.ready, self.now) + us * 1e-6
        self.now += host * 1e-6

    def graph(self, way: Way) -> Callable[[], object]:
        with way.around():
            (name,) = way.call()
        if self.bad.get(name) == "graph":
            raise RuntimeError("operation not permitted when stream is capturing\nmore")
        return lambda: self.run(self.us[name] / 2, 0.1)

    def alive(self) -> bool:
        return not self.lost


class Around:
    def __init__(self, device: FakeDevice, name: str) -> None:
        self._device, self._name = device, name

    def __enter__(self) -> None:
        self._device.entered.append(self._name)

    def __exit__(self, *_: object) -> None:
        self._device.entered.remove(self._name)


@dataclass
class FakeCase:
    device: FakeDevice
    asked: Asked

    def way(self, name: str) -> Way:
        device, kind = self.device, self.device.bad.get(name)
        if kind == "skip" or ((name == NVFUSER) != bool(self.asked.path) and name != OWN):
            raise Skip("there is no module thunder")
        if kind == "unsupported":
            raise UnsupportedError("split-K", "no split")
        if kind in ("error", "broken"):
            device.lost = kind == "broken"
            raise RuntimeError("an illegal memory access was encountered\nstack")

        def call() -> list[str]:
            assert (name in device.entered) == (name == OWN)
            device.run(device.us[name], device.us[name] / 10)
            return [name]

        return Way(call, lambda: Around(device, name)) if name == OWN else Way(call)

    def error(self, results: Sequence[Any]) -> float:
        kind = self.device.bad.get(results[0])
        return {"wrong": 0.5, "nan": float("nan")}.get(kind or "", 1e-3)

    def limit(self) -> float:
        return 2.2e-2

    def told(self, way: Way) -> dict[str, Any]:
        reasons = {"not handed to nvFuser": 20, "the rank": 5}
        cuts = [{"name": "linear", "dot": DOT}]
        return {"flops": 100, "own": 75, "reasons": reasons, "calls": 2, "taken": 1, "cuts": cuts}


@dataclass
class ColdDevice(FakeDevice):
    """The first calls and replays, behind the check and the capture, take 100 times as long."""

    runs: int = 0

    def run(self, us: float, host: float) -> None:
        self.runs += 1
        super().run(us * (100 if self.runs <= 8 else 1), host)


class FullDevice(FakeDevice):
    def case(self, asked: Asked, seed: int) -> FakeCase:
        raise OutOfMemory("CUDA out of memory. Tried to allocate 96.00 GiB.")


def main() -> None:
    """A worker: the first argument is JSON, ``{"us": .., "bad": ..}``."""
    spec = json.loads(sys.argv[1])

    def write(event: dict[str, Any]) -> None:
        print(json.dumps(event), flush=True)

    job = json.loads(sys.stdin.readline())
    write({"event": "start", "environment": {"gpu": {"name": "fake"}}})
    device = FakeDevice(spec["us"], spec.get("bad", {}))
    run_models_job(job, device, FakeSampler(), write, device.clock)


if __name__ == "__main__":
    main()
