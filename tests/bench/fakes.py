"""A device without a GPU: systems whose times are known, and as a module a worker that has it."""

from __future__ import annotations

import itertools
import json
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from wsched.bench.measure import Accuracy
from wsched.bench.problem import Problem, Shape
from wsched.bench.systems import Prepared, Skip
from wsched.bench.worker import run_job

RIGHT, WRONG = Accuracy(1.7e-3, 0), Accuracy(float("nan"), 12)


@dataclass(frozen=True)
class Graph:
    name: str
    launches: int


@dataclass
class FakeGpu:
    """``microseconds``: time of a launch by system name; ``bad``: what goes wrong, and when.

    Kinds of ``bad``: skip, wrong, error, broken (at the check), late (wrong after timing), lost
    (broken in the rounds), hang (at the first shape), memory (of no system).
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
        if self.bad.get("") == "memory":
            raise RuntimeError("CUDA out of memory")
        self.played: dict[str, Any] = {n: itertools.count() for n in self.microseconds}

    def prepare(self, name: str, params: dict[str, Any] | None, problem: Problem) -> Prepared:
        if self.bad.get(name) == "skip":
            raise Skip("not installed: No module named 'x'")
        return Prepared(lambda a, b, d: name, {"params": params})

    def accuracy(self, launch: Any) -> Accuracy:
        name = launch(None, None, None)
        kind = self.bad.get(name)
        if kind == "hang" and sum(word.startswith("allocate") for word in self.log) == 1:
            time.sleep(60)
        if kind in ("error", "broken"):
            self.lost = kind == "broken"
            raise RuntimeError("an illegal memory access was encountered\nstack")
        return WRONG if kind == "wrong" else RIGHT

    def capture(self, launch: Any, launches: int) -> Graph:
        return Graph(launch(None, None, None), launches)

    def replay(self, graph: Graph) -> tuple[str, float]:
        self.log.append(graph.name)
        turn = max(next(self.played[graph.name]) - 3, 0)  # two to find the length, one warm-up
        elapsed = self.microseconds[graph.name] * graph.launches * (1 + self.drift * turn)
        self.energy += elapsed * 1e-6 * 700
        self.lost |= self.bad.get(graph.name) == "lost" and turn > 0
        return graph.name, elapsed

    def wait(self, replay: tuple[str, float]) -> float:
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
    device = {"name": "NVIDIA H200"}
    return {"device": device, "versions": {"torch": "2.10"}, "shapes": shapes}


def main() -> None:
    """A worker: the first argument is JSON, ``{"times": .., "bad": .., "end": ..}``."""
    spec = json.loads(sys.argv[1])

    def write(event: dict[str, Any]) -> None:
        print(json.dumps(event), flush=True)

    if spec.get("end") == "refused":
        write({"event": "refused", "reason": "torch.cuda finds no GPU"})
        return
    if spec.get("end") == "crash":
        sys.exit("no such module")
    job = json.load(sys.stdin)
    write({"event": "start", "device": {"name": "fake"}, "versions": {}})
    run_job(job, FakeGpu(spec["times"], spec.get("bad", {})), FakeSampler(), write)


if __name__ == "__main__":
    main()
