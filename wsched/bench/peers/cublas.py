"""cuBLAS through torch."""

from __future__ import annotations

import importlib
from typing import Any

from wsched.bench.peers.systems import Prepared
from wsched.bench.problem import Problem

__all__ = ["prepare"]


def prepare(name: str, problem: Problem, a: Any, b: Any) -> Prepared:
    """``torch.matmul`` into D, with accumulation in fp32 only."""
    torch = importlib.import_module("torch")
    settings = torch.backends.cuda.matmul
    settings.allow_bf16_reduced_precision_reduction = False
    settings.allow_fp16_reduced_precision_reduction = False

    def launch(a: Any, b: Any, d: Any) -> Any:
        return torch.matmul(a, b.t(), out=d)

    return Prepared(launch)
