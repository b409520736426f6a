"""A fresh process that measures a shortlist: ``python -m wsched.bench.tune.worker TOP WHAT``.

TOP is how many of a ranking's first schedules are measured, 0 for all; WHAT is a key of
``EPILOGUES``, or the path of a definition. Standard input and output are those of
:mod:`wsched.bench.gemm.worker`.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from wsched.bench.fused.definition import DefinitionGpu
from wsched.bench.fused.epilogue import EPILOGUES
from wsched.bench.fused.systems import FusedGpu
from wsched.bench.gemm.worker import serve
from wsched.bench.method.gpu import CudaGpu
from wsched.bench.problem import Problem
from wsched.bench.schedules.ranking import shortlist
from wsched.bench.schedules.worker import FIRST as RANKING
from wsched.bench.schedules.worker import run_ranking_job

__all__ = ["FIRST", "definition_of", "main"]

FIRST = replace(RANKING, finalists=4)
"""Four beside the cost model's choice are enough, as only one is kept."""


def definition_of(what: str, problem: Problem) -> str:
    """Return the text that is tuned; ``what`` is a key of ``EPILOGUES``, or a file with a text."""
    if what in EPILOGUES:
        return EPILOGUES[what].definition(problem.dtype, problem.layout)
    return Path(what).read_text(encoding="utf-8")


def main() -> None:
    """Measure the shortlists of the job's shapes."""
    top, what = int(sys.argv[1]), sys.argv[2]

    def gpu_with(seed: int) -> CudaGpu:
        if what in EPILOGUES:
            return FusedGpu(seed, what)
        return DefinitionGpu(seed, Path(what).read_text(encoding="utf-8"))

    serve(
        gpu_with,
        lambda job, gpu, sampler, write: run_ranking_job(
            job, top, gpu, sampler, write, lambda p: definition_of(what, p), FIRST, shortlist
        ),
    )


if __name__ == "__main__":
    main()
