"""A fresh process for one epilogue: ``python -m wsched.bench.pingpong.worker EPILOGUE``.

Standard input and output are those of :mod:`wsched.bench.gemm.worker`.
"""

from __future__ import annotations

import sys

from wsched.bench.fused.systems import FusedGpu
from wsched.bench.gemm.worker import run_job, serve
from wsched.bench.peers.nvfuser import ENVIRONMENT

__all__ = ["main"]


def main() -> None:
    """Compare the systems at each shape of the job."""
    serve(lambda seed: FusedGpu(seed, sys.argv[1]), run_job, ENVIRONMENT)


if __name__ == "__main__":
    main()
