"""A persistent Triton matmul with TMA descriptors, 128x256x64, written for this comparison.

One program per SM walks over the output tiles in groups of rows; Triton's compiler pipelines the
loads and picks wgmma. The result is stored by TMA, half a tile's columns at a time, so that
three stages of 48 KiB and the store's buffer fit into shared memory.
"""

from __future__ import annotations

import importlib
from typing import Any

from wsched.bench.peers.systems import Prepared, Skip
from wsched.bench.problem import Problem

__all__ = ["matmul_tiles", "prepare"]

# Imported by name: Triton is optional, and the kernel below looks ``tl`` up among the globals.
triton: Any = importlib.import_module("triton")
tl: Any = importlib.import_module("triton.language")

_TILE_M, _TILE_N, _TILE_K = 128, 256, 64
_GROUP_M, _STAGES, _WARPS = 8, 3, 8


def matmul_tiles(
    a_map: tl.tensor_descriptor,
    b_map: tl.tensor_descriptor,
    d_map: tl.tensor_descriptor,
    M: tl.tensor,
    N: tl.tensor,
    K: tl.tensor,
    A_K_MAJOR: tl.constexpr,
    B_K_MAJOR: tl.constexpr,
    TILE_M: tl.constexpr,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
    GROUP_M: tl.constexpr,
) -> None:
    """Body of the Triton kernel: D = A · Bᵀ over this program's tiles.

    Maps are TMA descriptors of the tensors as they lie in memory: A as [M, K] if K-major, else as
    [K, M]; B as [N, K] if K-major, else as [K, N]; D as [M, N] with boxes of half a tile.
    """
    rows = tl.cdiv(M, TILE_M)
    columns = tl.cdiv(N, TILE_N)
    steps = tl.cdiv(K, TILE_K)
    band = GROUP_M * columns
    for tile in tl.range(tl.program_id(0), rows * columns, tl.num_programs(0), flatten=True):
        # A band is GROUP_M rows of tiles, walked column by column; the last one may be lower.
        first = tile // band * GROUP_M
        height = tl.minimum(rows - first, GROUP_M)
        m = (first + tile % band % height) * TILE_M
        n = (tile % band // height) * TILE_N
        acc = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
        for step in range(steps):
            k = step * TILE_K
            a = a_map.load([m, k]) if A_K_MAJOR else a_map.load([k, m]).T
            b = b_map.load([n, k]).T if B_K_MAJOR else b_map.load([k, n])
            acc = tl.dot(a, b, acc)
        halves = tl.permute(tl.reshape(acc, (TILE_M, 2, TILE_N // 2)), (0, 2, 1))
        left, right = tl.split(halves)
        d_map.store([m, n], left.to(d_map.dtype))
        d_map.store([m, n + TILE_N // 2], right.to(d_map.dtype))


_KERNEL = triton.jit(matmul_tiles)


def prepare(name: str, problem: Problem, a: Any, b: Any) -> Prepared:
    """Make the kernel's launch; descriptors are made once per set of tensors.

    Triton compiles at the first launch, which raises ``Skip`` where TMA cannot take the strides.
    """
    torch = importlib.import_module("torch")
    descriptor = importlib.import_module("triton.tools.tensor_descriptor").TensorDescriptor
    programs = torch.cuda.get_device_properties(a.device).multi_processor_count
    shape = problem.shape
    tiles = triton.cdiv(shape.m, _TILE_M) * triton.cdiv(shape.n, _TILE_N)
    maps: dict[tuple[int, int, int], tuple[Any, Any, Any]] = {}

    def described(a: Any, b: Any, d: Any) -> tuple[Any, Any, Any]:
        key = (a.data_ptr(), b.data_ptr(), d.data_ptr())
        if key not in maps:
            try:
                maps[key] = (
                    descriptor.from_tensor(*_as_stored(a, problem.a_k_major, _TILE_M)),
                    descriptor.from_tensor(*_as_stored(b, problem.b_k_major, _TILE_N)),
                    descriptor.from_tensor(d, [_TILE_M, _TILE_N // 2]),
                )
            except AssertionError as error:
                raise Skip(f"no TMA descriptor for {shape}: {error}") from error
        return maps[key]

    def launch(a: Any, b: Any, d: Any) -> Any:
        _KERNEL[(min(programs, tiles),)](
            *described(a, b, d),
            shape.m,
            shape.n,
            shape.k,
            A_K_MAJOR=problem.a_k_major,
            B_K_MAJOR=problem.b_k_major,
            TILE_M=_TILE_M,
            TILE_N=_TILE_N,
            TILE_K=_TILE_K,
            GROUP_M=_GROUP_M,
            num_warps=_WARPS,
            num_stages=_STAGES,
        )
        return d

    return Prepared(launch, {"tile": [_TILE_M, _TILE_N, _TILE_K], "stages": _STAGES})


def _as_stored(operand: Any, k_major: bool, tile: int) -> tuple[Any, list[int]]:
    """The operand with its innermost dimension last, and the box of a tile in that order."""
    return (operand, [tile, _TILE_K]) if k_major else (operand.t(), [_TILE_K, tile])
