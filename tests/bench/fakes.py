"""A device without a GPU: systems whose times are known, and as a module a worker that has it."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from lowering.ground.errors import InternalError, ScheduleError, UnsupportedError
from wsched.bench.gemm.worker import run_job
from wsched.bench.method.measure import Accuracy, OutOfMemory
from wsched.bench.peers.systems import Prepared, Skip
from wsched.bench.problem import Problem, Shape

HANGS = {"event": "hangs"}
"""What a worker says that is silent from now on: the fixture ``announced_hangs`` hears it."""

RIGHT, WRONG = Accuracy(1.7e-3, 0), Accuracy(float("nan"), 12)


ERRORS: dict[str, Exception] = {
    "skip": Skip("not installed: there is no module x"),
    "unsupported": UnsupportedError("split-K", "no split"),
    "schedule": ScheduleError("smem", "stages=9", "too much", ("stages=4",)),
    "internal": InternalError("verify", "a barrier without a wait", "kernel k"),
    "import": ImportError("x is installed, but cannot be imported: there is no module x.y"),
}


@dataclass(frozen=True)
class Graph:
    name: str
    launches: int


@dataclass
class FakeGpu:
    """``microseconds``: time of a launch by system name; ``bad``: what goes wrong, and when.

    Kinds of ``bad``: skip, unsupported, schedule, internal, import (when it is compiled), wrong,
    error, broken (at the check), late (wrong after timing), lost (broken in the rounds), hang (at
    the first shape). Of no system, at the first shape: memory, draw; at the second: interrupt.
    Round r of a system takes (1 + drift·r) times its time.
    """

    microseconds: dict[str, float]
    bad: dict[str, str] = field(default_factory=dict)
    drift: float = 0.0
    l2_bytes: int = 60 << 20
    log: list[str] = field(default_factory=list)
    lost: bool = False
    energy: float = 0.0

    def allocate(self, problem: Problem, sets: int) -> None:
        self.log.append(f"allocate {problem.shape} {sets}")
        number = sum(word.startswith("allocate") for word in self.log)
        kind = self.bad.get("")
        if kind == "memory" and number == 1:
            raise OutOfMemory("CUDA out of memory. Tried to allocate 96.00 GiB.")
        if kind == "draw":
            raise RuntimeError("no random numbers")
        if kind == "interrupt" and number == 2:
            time.sleep(0.5)  # until all that was written is read
            os.kill(os.getppid(), signal.SIGINT)
            time.sleep(60)
        self.played: dict[str, Any] = {n: itertools.count() for n in self.microseconds}

    def prepare(self, name: str, params: dict[str, Any] | None, problem: Problem) -> Prepared:
        error = ERRORS.get(self.bad.get(name, ""))
        if error is not None:
            raise error
        return Prepared(lambda a, b, d: name, {"params": params})

    def accuracy(self, launch: Any) -> Accuracy:
        name = launch(None, None, None)
        kind = self.bad.get(name)
        if kind == "hang" and sum(word.startswith("allocate") for word in self.log) == 1:
            print(json.dumps(HANGS), flush=True)
            time.sleep(60)
        if kind in ("error", "broken"):
            self.lost = kind == "broken"
            raise RuntimeError("an illegal memory access was encountered\nstack")
        return WRONG if kind == "wrong" else RIGHT

    def capture(self, launch: Any, launches: int) -> Graph:
        return Graph(launch(None, None, None), launches)

    def replay(self, graph: Graph) -> tuple[str, float, bool]:
        self.log.append(graph.name)
        turn = max(next(self.played[graph.name]) - 3, 0)  # two to find the length, one warm-up
        elapsed = self.microseconds[graph.name] * graph.launches * (1 + self.drift * turn)
        self.energy += elapsed * 1e-6 * 700
        return graph.name, elapsed, self.bad.get(graph.name) == "lost" and turn > 0

    def wait(self, replay: tuple[str, float, bool]) -> float:
        self.log.append(f"wait {replay[0]}")
        self.lost |= replay[2]
        if self.lost:
            raise RuntimeError("unspecified launch failure")
        return replay[1]

    def accuracy_of_graph(self, graph: Graph) -> Accuracy:
        return WRONG if self.bad.get(graph.name) == "late" else RIGHT

    def alive(self) -> bool:
        return not self.lost

    def joules(self) -> float:
        return self.energy


class FakeSampler:
    def start(self) -> None:
        pass

    def stop(self) -> dict[str, Any]:
        return {"source": "NVML", "samples": 2, "sm_mhz": 1500, "watts": 690, "celsius_max": 60}


def process(rows: dict[Shape, dict[str, Any]]) -> dict[str, Any]:
    """A process's result: shape -> system -> times in microseconds, or (status, reason)."""
    shapes = {}
    for shape, systems in rows.items():
        records = {}
        for name, value in systems.items():
            if isinstance(value, tuple):
                records[name] = {"status": value[0], "reason": value[1]}
            else:
                records[name] = {"status": "ok", "reason": "", "times_us": value}
        shapes[str(shape)] = {"sets": 1, "systems": records, "clocks": FakeSampler().stop()}
    environment = {"gpu": {"name": "NVIDIA H200"}, "versions": {"torch": "2.10"}}
    return {"seed": 0, "complete": True, "environment": environment, "shapes": shapes}


def main() -> None:
    """A worker: the first argument is JSON, ``{"times": .., "bad": .., "end": ..}``.

    It ends as ``end`` says: ``refused`` and ``crash`` before it measures, ``linger`` behind that,
    with its output closed.
    """
    spec = json.loads(sys.argv[1])

    def write(event: dict[str, Any]) -> None:
        print(json.dumps(event), flush=True)

    if spec.get("end") == "refused":
        write({"event": "refused", "reason": "torch.cuda finds no GPU"})
        return
    if spec.get("end") == "crash":
        sys.exit("no such module")
    job = json.loads(sys.stdin.readline())
    write({"event": "start", "environment": {"gpu": {"name": "fake"}}})
    run_job(job, FakeGpu(spec["times"], spec.get("bad", {})), FakeSampler(), write)
    if spec.get("end") == "linger":
        sys.stdout.flush()
        os.close(1)
        time.sleep(60)


if __name__ == "__main__":
    main()
