"""A fresh process for modules and definitions: ``python -m wsched.bench.models.worker N``.

N is how many processes of its own torch.compile may have, 0 for as many as it likes. Standard input
and output are those of :mod:`wsched.bench.gemm.worker`; a shape is an
:class:`~wsched.bench.models.asked.Asked`, systems are ways.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from time import perf_counter
from typing import Any

from wsched.bench.gemm.worker import Measure, Write, measure_each, serve
from wsched.bench.method.gpu import CudaGpu
from wsched.bench.method.measure import Plan, Sampler, Tell
from wsched.bench.models.asked import Asked
from wsched.bench.models.cases import TorchDevice
from wsched.bench.models.measure import Device, prepare_case

__all__ = ["main", "run_models_job"]


def run_models_job(
    job: dict[str, Any],
    device: Device,
    sampler: Sampler,
    write: Write,
    clock: Callable[[], float] = perf_counter,
) -> None:
    """Measure what a job names, one after the other.

    Args:
        job: as of :func:`wsched.bench.gemm.worker.run_job`.
        device: where.
        sampler: of clocks and power.
        write: takes the events.
        clock: seconds.
    """
    plan, ways, seed = Plan(**job["plan"]), list(job["systems"]), job["seed"]

    def ready(asked: Asked, excluded: Collection[str], tell: Tell) -> Measure:
        prepared = prepare_case(device, asked, ways, excluded, plan, tell, seed, clock)

        def measure() -> dict[str, Any]:
            sampler.start()
            try:
                found = prepared()
            finally:
                clocks = sampler.stop()
            return {**found, "clocks": clocks}

        return measure

    measure_each(job, write, Asked, ready)


def main() -> None:
    """Measure on CUDA device 0."""
    compiling = int(sys.argv[1])
    variables = {"TORCHINDUCTOR_COMPILE_THREADS": str(compiling)} if compiling else {}
    serve(CudaGpu, lambda job, gpu, sampler, write: run_models_job(
        job, TorchDevice(), sampler, write
    ), variables)  # fmt: skip


if __name__ == "__main__":
    main()
