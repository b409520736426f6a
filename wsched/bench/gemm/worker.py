"""A fresh process that measures shapes: ``python -m wsched.bench.gemm.worker``.

It reads a job as a line of JSON from standard input and writes one JSON object per line to standard
output:

- ``{"event": "start", "environment"}``, or ``{"event": "refused", "reason"}`` and the end;
- ``{"event": "step", "shape", "system", "step", "seconds"}`` before everything that may take long
  or hang, see :class:`wsched.bench.method.measure.Tell`;
- ``{"event": "prepared"}`` where the job asks for turns: it measures when a line comes;
- ``{"event": "shape", "shape", "result"}``, see :func:`wsched.bench.method.measure.measure_shape`;
- ``{"event": "broken", "shape", "system", "reason"}`` when the CUDA context is lost, and the end.

What libraries print goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from wsched.bench.method.clocks import ClockSampler
from wsched.bench.method.environment import environment
from wsched.bench.method.gpu import CudaGpu, no_gpu_reason
from wsched.bench.method.measure import Broken, Gpu, Plan, Sampler, Tell, measure_shape
from wsched.bench.peers.nvfuser import ENVIRONMENT
from wsched.bench.problem import Problem, Shape

__all__ = ["Measure", "Run", "Write", "main", "measure_each", "run_job", "serve"]

Write = Callable[[dict[str, Any]], None]

Measure = Callable[[], dict[str, Any]]
"""Measures what has been prepared; the result of a shape."""

Item = TypeVar("Item")

Run = Callable[[dict[str, Any], CudaGpu, Sampler, Write], None]


def run_job(job: dict[str, Any], gpu: Gpu, sampler: Sampler, write: Write) -> None:
    """Measure the job's shapes one after another.

    Args:
        job: ``shapes`` ([m, n, k] each), ``dtype``, ``layout``, ``systems`` (name -> parameters or
            None), ``excluded`` (shape text -> names to leave out), ``plan`` (fields of ``Plan``),
            ``seed`` (of the operands and the order).
        gpu: the device.
        sampler: of clocks and power.
        write: takes the events.
    """
    plan = Plan(**job["plan"])

    def ready(shape: Shape, excluded: Collection[str], tell: Tell) -> Measure:
        problem = Problem(shape, job["dtype"], job["layout"])
        systems = {n: p for n, p in job["systems"].items() if n not in excluded}
        return lambda: measure_shape(gpu, problem, systems, plan, sampler, tell, job["seed"])

    measure_each(job, write, Shape, ready)


def measure_each(
    job: dict[str, Any],
    write: Write,
    made: Callable[..., Item],
    ready: Callable[[Item, Collection[str], Tell], Measure],
) -> None:
    """Go through a job's shapes and write what happens.

    Args:
        job: as :func:`run_job` takes it.
        write: takes the events.
        made: what is measured, from an entry of ``shapes``; its text is what results stand under.
        ready: prepares it, given the systems that are left out and whom to tell about steps; what
            it returns measures.
    """
    at = {"shape": "", "system": ""}

    def tell(system: str, step: str, seconds: float = 0.0) -> None:
        at["system"] = system
        write({"event": "step", **at, "step": step, "seconds": seconds})

    for sizes in job["shapes"]:
        item = made(*sizes)
        at["shape"] = shape = str(item)
        tell("", "inputs")
        try:
            measure = ready(item, job["excluded"].get(shape, ()), tell)
            if job.get("turns"):
                write({"event": "prepared"})
                sys.stdin.readline()
            result = measure()
        except (Broken, RuntimeError) as error:
            # An error after the capture is CUDA's: what the systems queued has failed.
            write({"event": "broken", **at, "reason": str(error)})
            return
        write({"event": "shape", "shape": shape, "result": result})


def serve(
    make_gpu: Callable[[int], CudaGpu],
    run: Run,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Run the job from standard input.

    Args:
        make_gpu: the device from the seed.
        run: :func:`run_job` or one like it.
        variables: set in this process before any system is loaded. They hold for all of them, so
            only a worker whose systems all want them sets any.
    """
    events = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def write(event: dict[str, Any]) -> None:
        events.write(json.dumps(event) + "\n")
        events.flush()

    job = json.loads(sys.stdin.readline())
    os.environ.update(variables)
    reason = no_gpu_reason()
    if reason:
        write({"event": "refused", "reason": reason})
        return
    gpu = make_gpu(job["seed"])
    write({"event": "start", "environment": environment(gpu.describe())})
    run(job, gpu, ClockSampler(gpu.uuid), write)


def main() -> None:
    """Compare the systems at each shape."""
    serve(CudaGpu, run_job, ENVIRONMENT)


if __name__ == "__main__":
    main()
