"""A fresh process that measures a shortlist: ``python -m wsched.bench.tune_worker TOP EPILOGUE``.

TOP is how many of a ranking's first schedules are measured, 0 for all; EPILOGUE is a key of
``EPILOGUES``. Standard input and output are those of :mod:`wsched.bench.worker`.
"""

from __future__ import annotations

import sys

from wsched.bench.epilogue import EPILOGUES
from wsched.bench.fused import FusedGpu
from wsched.bench.problem import Problem
from wsched.bench.schedules_worker import run_ranking_job
from wsched.bench.worker import serve

__all__ = ["FINALISTS", "definition_of", "main"]

FINALISTS = 4
"""Schedules that are measured again beside the cost model's choice: enough, as only one is kept."""


def definition_of(epilogue: str, problem: Problem) -> str:
    """Return the text that is tuned; ``epilogue`` is a key of ``EPILOGUES``."""
    return EPILOGUES[epilogue].definition(problem.dtype, problem.layout)


def main() -> None:
    """Measure the shortlists of the job's shapes."""
    top, epilogue = int(sys.argv[1]), sys.argv[2]
    serve(
        lambda seed: FusedGpu(seed, epilogue),
        lambda job, gpu, sampler, write: run_ranking_job(
            job, top, gpu, sampler, write, lambda p: definition_of(epilogue, p), FINALISTS
        ),
    )


if __name__ == "__main__":
    main()
