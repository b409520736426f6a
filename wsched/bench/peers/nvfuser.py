"""nvFuser's matmul scheduler: its own choice, and its cooperative and ping-pong kernels.

The scheduler is off by default; the environment of the workers that have these peers turns it on
(:data:`ENVIRONMENT`), which works for ``compute_heuristics`` as well, where there is no option for
it. No other worker may: with it nvFuser looks at every definition with a matmul as one kernel, ends
some with internal errors (a batch of one: ``mma_utils.cpp``), and wsched leaves them to it.
"""

from __future__ import annotations

import importlib
from typing import Any

from wsched.bench.peers.systems import Launch, Prepared, Skip
from wsched.bench.problem import DTYPES, Problem

__all__ = ["ENVIRONMENT", "linear", "prepare"]

ENVIRONMENT = {"NVFUSER_ENABLE": "fuse_matmul", "NVFUSER_DISABLE": "matmul_expr_eval"}
"""For :func:`wsched.bench.gemm.worker.serve`."""


def prepare(name: str, problem: Problem, a: Any, b: Any) -> Prepared:
    """``linear`` by nvFuser; it allocates its result at each launch.

    Raises:
        ImportError: it is not installed.
        Skip: nvFuser refuses the problem, its layout or the parameters.
    """
    nvfuser = importlib.import_module("nvfuser_direct")
    definition = linear(nvfuser, problem)
    try:
        prepared = _prepared(nvfuser, name, definition, a, b)
        prepared.launch(a, b, None)  # compiles; before that nvFuser does not say what it refuses
    except RuntimeError as error:
        raise Skip(_first_line(error)) from error
    return prepared


def _prepared(nvfuser: Any, name: str, definition: Any, a: Any, b: Any) -> Prepared:
    if name == "nvfuser":
        return Prepared(_automatic(definition))
    params = _params(nvfuser, name, definition, a, b)
    nvfuser.schedule.schedule(definition.fusion, nvfuser.SchedulerType.matmul, params)

    def launch(a: Any, b: Any, d: Any) -> Any:
        return definition.manual_execute([a, b], params)[0]

    return Prepared(launch, {"params": str(params)})


def _automatic(definition: Any) -> Launch:
    def launch(a: Any, b: Any, d: Any) -> Any:
        return definition.execute(
            [a, b], _enable_options=["fuse_matmul"], _disable_options=["matmul_expr_eval"]
        )[0]

    return launch


def linear(nvfuser: Any, problem: Problem) -> Any:
    """The problem as a live definition with symbolic sizes."""
    dtype = getattr(nvfuser.DataType, DTYPES[problem.dtype])

    def tensor(fd: Any, k_major: bool) -> Any:
        order = {} if k_major else {"stride_order": [0, 1]}
        return fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=dtype, **order)

    with nvfuser.FusionDefinition() as fd:
        a, b = tensor(fd, problem.a_k_major), tensor(fd, problem.b_k_major)
        fd.add_output(fd.ops.linear(a, b))
    return fd


def _params(nvfuser: Any, name: str, definition: Any, a: Any, b: Any) -> Any:
    """The heuristics of nvFuser with the fields that make the kernel cooperative or ping-pong.

    Ping-pong: nvFuser wants one 128x128 tile per warpgroup (cta_tile equal to warp_tile); five
    stages of 32 KiB and the 32 KiB of the epilogue fit into shared memory.
    """
    matmul = nvfuser.SchedulerType.matmul
    params = nvfuser.schedule.compute_heuristics(definition.fusion, matmul, [a, b])
    params.tiling_strategy = nvfuser.MatmulTilingStrategy.distribute_tiles_across_sms
    params.circular_buffering_strategy = nvfuser.MatmulCircularBufferingStrategy.warp_specialized
    if name == "nvfuser-cooperative":
        params.buffering_loop_level = nvfuser.MatmulBufferingLoopLevel.cta_tiles
        return params
    params.buffering_loop_level = nvfuser.MatmulBufferingLoopLevel.warp_tiles
    tile = nvfuser.GemmTile(128, 128, 64)
    params.tile_sizes = nvfuser.MatMulTileOptions(tile, tile)
    hopper = nvfuser.MmaMacroArch.hopper
    params.mma_macro = nvfuser.MmaMacroEncode(hopper, 64, 128, 16).mma_macro()
    params.circular_buffer_options = nvfuser.CircularBufferOptions(True, False, 5, 1)
    return params


def _first_line(error: Exception) -> str:
    """The sentence of an nvFuser error, without its C++ stack."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
