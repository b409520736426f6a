"""What nvFuser's heuristic makes of a plugin's answer, found out in a process of its own.

nvFuser reads ``NVFUSER_MATMUL_HEURISTIC_PLUGIN`` when its library is loaded; the process that
measures has loaded it without.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from lowering.ground.errors import UnsupportedError
from wsched.bench.problem import Problem, Shape
from wsched.nvfuser.params import Fields, from_fields, read_fields
from wsched.nvfuser.plugin import VARIABLE, build_plugin
from wsched.schedule.matmul.params import MatmulParams
from wsched.version import __version__

__all__ = ["heuristic_fields", "plugin_answer"]

_SECONDS = 120


def plugin_answer(problem: Problem) -> MatmulParams:
    """The parameters of nvFuser's kernel in a program that runs with wsched's plugin.

    Raises:
        UnsupportedError: the plugin cannot be built, or nvFuser's heuristic fails.
    """
    shape = problem.shape
    question = json.dumps([shape.m, shape.n, shape.k, problem.dtype, problem.layout])
    with tempfile.TemporaryDirectory(prefix="wsched-plugin-") as folder:
        plugin = build_plugin(Path(folder), __version__)
        environment = {**os.environ, VARIABLE: str(plugin.path), "NVFUSER_ENABLE": "fuse_matmul"}
        command = [sys.executable, "-m", "wsched.bench.peers.plugin_answer", question]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_SECONDS
        )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise UnsupportedError(f"nvFuser's heuristic with the plugin ({lines[-1]})", "others")
    return from_fields(json.loads(done.stdout.splitlines()[-1]))


def heuristic_fields(problem: Problem) -> Fields:
    """The fields that nvFuser's heuristic chooses for ``linear``, in this process."""
    import nvfuser_direct as nvfuser
    import torch

    from wsched.bench.peers.nvfuser import linear

    shape, dtype = problem.shape, {"bf16": torch.bfloat16, "fp16": torch.float16}[problem.dtype]
    inputs: list[Any] = [
        torch.empty(rows, shape.k, dtype=dtype, device="meta")
        if k_major
        else torch.empty(shape.k, rows, dtype=dtype, device="meta").T
        for rows, k_major in ((shape.m, problem.a_k_major), (shape.n, problem.b_k_major))
    ]
    fusion = linear(nvfuser, problem).fusion
    return read_fields(
        nvfuser.schedule.compute_heuristics(fusion, nvfuser.SchedulerType.matmul, inputs)
    )


def main(question: str) -> None:
    """Print the fields for a problem as JSON."""
    m, n, k, dtype, layout = json.loads(question)
    print(json.dumps(heuristic_fields(Problem(Shape(m, n, k), dtype, layout))))


if __name__ == "__main__":
    main(sys.argv[1])
