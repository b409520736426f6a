"""What a worker sets in its process: nvFuser's options, for nvFuser's own kernels alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

TOLD = """
import os, sys
from wsched.bench.gemm import worker as served
names = "NVFUSER_ENABLE", "NVFUSER_DISABLE"
served.no_gpu_reason = lambda: " ".join(os.environ.get(n, "unset") for n in names)
from wsched.bench.{name}.worker import main
main()
"""
"""A worker that refuses the job, with what it would have run under for a reason."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("gemm", "fuse_matmul matmul_expr_eval"),
        ("pingpong", "fuse_matmul matmul_expr_eval"),
        ("models", "unset unset"),
        ("drawn", "unset unset"),
        ("schedules", "unset unset"),
        ("tune", "unset unset"),
    ],
)
def test_the_options_of_nvfuser(name: str, found: str) -> None:
    left = {k: v for k, v in os.environ.items() if not k.startswith("NVFUSER_")}
    done = subprocess.run(
        [sys.executable, "-c", TOLD.format(name=name), "1", "1"],
        input=json.dumps({"seed": 0}), env=left, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == {"event": "refused", "reason": found}
