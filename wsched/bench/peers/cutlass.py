"""CUTLASS's CuTe DSL: its persistent Hopper GEMM, 128x256 tiles and 2x1 clusters.

The kernel is not in the ``cutlass`` package, it is one of CUTLASS's examples. The environment
variable :data:`EXAMPLE` names the file ``dense_gemm_persistent.py`` of a CUTLASS checkout.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

from wsched.bench.peers.systems import Prepared, Skip
from wsched.bench.problem import Problem

__all__ = ["EXAMPLE", "prepare"]

EXAMPLE = "WSCHED_BENCH_CUTLASS"
_CLASS = "HopperWgmmaGemmPersistentKernel"
_TILE, _CLUSTER = (128, 256), (2, 1)


def prepare(name: str, problem: Problem, a: Any, b: Any) -> Prepared:
    """Compile the example's kernel; a launch converts its tensors once and keeps them.

    Raises:
        ImportError: no ``cutlass`` package.
        Skip: no example file.
    """
    cutlass = importlib.import_module("cutlass")
    cute = importlib.import_module("cutlass.cute")
    runtime = importlib.import_module("cutlass.cute.runtime")
    torch = importlib.import_module("torch")
    driver = importlib.import_module("cuda.bindings.driver")
    module = _example(os.environ.get(EXAMPLE, ""))
    kernel = getattr(module, _CLASS)(cutlass.Float32, _TILE, _CLUSTER, 1, True)
    clusters = cutlass.utils.HardwareInfo().get_max_active_clusters(_CLUSTER[0] * _CLUSTER[1])
    views: dict[int, Any] = {}

    def view(tensor: Any) -> Any:
        # [rows, columns, batch] for the kernel; converting takes longer than a small matmul.
        if tensor.data_ptr() not in views:
            made = runtime.from_dlpack(tensor.unsqueeze(-1), assumed_align=16)
            inner = tensor.stride().index(1)
            views[tensor.data_ptr()] = made.mark_layout_dynamic(leading_dim=inner)
        return views[tensor.data_ptr()]

    def stream() -> Any:
        return driver.CUstream(torch.cuda.current_stream().cuda_stream)

    d = torch.empty(problem.shape.m, problem.shape.n, dtype=a.dtype, device=a.device)
    compiled = cute.compile(kernel, view(a), view(b), view(d), clusters, stream())
    views.clear()  # d goes; its address may come back as another tensor's

    def launch(a: Any, b: Any, d: Any) -> Any:
        compiled(view(a), view(b), view(d), stream())
        return d

    return Prepared(launch, {"tile": list(_TILE), "cluster": list(_CLUSTER)})


def _example(path: str) -> Any:
    """The module of CUTLASS's example.

    Raises:
        Skip: the variable is not set, or the file is not there or lacks the kernel.
    """
    if not path:
        raise Skip(f"set {EXAMPLE} to dense_gemm_persistent.py of a CUTLASS checkout")
    file = Path(path)
    spec = importlib.util.spec_from_file_location("cutlass_example", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise Skip(f"{EXAMPLE}={path}: there is no such file")
    sys.path.insert(0, str(file.parent))  # newer examples import their neighbours
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    if not hasattr(module, _CLASS):
        raise Skip(f"{EXAMPLE}={path}: it has no {_CLASS}")
    return module
