"""Small fusions and half-done schedules for the tests of scheduling."""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.expr import Special
from wsched.fusion import Fusion, LoadStoreOpType, MemoryType, ParallelType, WarpSpecialized
from wsched.importer import build_fusion, record_text
from wsched.schedule import (
    BufferingLoopLevel,
    CircularBufferingStrategy,
    GemmTile,
    MatmulParams,
    MatMulTileOptions,
    MmaMacro,
    Schedule,
    TilingStrategy,
)

TMA = LoadStoreOpType.CpAsyncBulkTensorTile
ON_TIDY = WarpSpecialized(ParallelType.TIDy)
LOADS = ("T6", "T7")

COOPERATIVE = MatmulParams()
PING_PONG = MatmulParams(
    buffering_loop_level=BufferingLoopLevel.WarpTiles,
    tile_sizes=MatMulTileOptions(GemmTile(256, 128, 64), GemmTile(128, 128, 64)),
    mma_macro=MmaMacro(n=128),
)
PIPELINED = replace(
    COOPERATIVE,
    circular_buffering_strategy=CircularBufferingStrategy.Pipelined,
)
NON_PERSISTENT = replace(COOPERATIVE, tiling_strategy=TilingStrategy.OneTilePerCTA)
CLASSES = {
    "cooperative": COOPERATIVE,
    "ping_pong": PING_PONG,
    "pipelined": PIPELINED,
    "non_persistent": NON_PERSISTENT,
}


def linear(
    dtype: str = "BFloat16", cast: str | None = None, layout: str = "tn", by_columns: bool = False
) -> Fusion:
    """T0 [M, K], T1 [N, K], T2 and T3 their broadcasts, T4 the mma, T5 its cast if there is one; of
    ``Float`` there is none.

    ``layout`` are BLAS letters: T0 is M-major for ``n``, T1 N-major for ``t``.
    """
    a, b = (f"stride_order={order}, " for order in _orders(layout))
    lines = [
        "def nvfuser_fusion(fd : FusionDefinition) -> None :",
        f"    tv0 = fd.define_tensor(shape=[-1, -1], {a}dtype=DataType.{dtype})",
        f"    tv1 = fd.define_tensor(shape=[-1, -1], {b}dtype=DataType.{dtype})",
        f"    tv2 = fd.ops.linear(tv0, tv1{', dtype=DataType.Float' * (cast == 'Float')})",
    ]
    if cast is not None:
        lines.append(f"    tv3 = fd.ops.cast(tv2, dtype=DataType.{cast})")
    result = f"tv{2 if cast is None else 3}"
    if by_columns:
        lines.append(f"    tv4 = fd.ops.stride_order({result}, stride_order=[0, 1])")
        result = "tv4"
    lines.append(f"    fd.add_output({result})")
    return build_fusion(record_text("\n".join(lines)))


def _orders(layout: str) -> tuple[str, str]:
    k_major, mn_major = "[1, 0]", "[0, 1]"
    return k_major if layout[0] == "t" else mn_major, k_major if layout[1] == "n" else mn_major


def cached() -> Schedule:
    """The linear with its operands in shared memory: T6 and T7, loaded by TMA."""
    s = Schedule(linear())
    for tv in ("T2", "T3"):
        s.set_memory_type(s.cache_after(tv, TMA), MemoryType.Shared)
    return s


def boxes(s: Schedule, tv: str, sizes: tuple[int, int, int] = (128, 256, 64)) -> None:
    """[M, N, K] to [Mo, Mi, No, Ni, k, Ki]."""
    for axis, size, labels in zip(
        (2, 1, 0), reversed(sizes), (("k", "Ki"), ("No", "Ni"), ("Mo", "Mi")), strict=True
    ):
        s.split(tv, axis, size, labels=labels)


def tile(s: Schedule, tv: str, sizes: tuple[int, int, int], strided: bool) -> None:
    """[M, N, K] to [cta, tile, k, Mi, Ni, Ki]; a CTA has every n-th tile, or n neighbours."""
    boxes(s, tv, sizes)
    s.reorder(tv, {2: 1, 4: 2})
    s.merge(tv, 0, label="tiles")
    labels = ("tile", "cta") if strided else ("cta", "tile")
    s.split(tv, 0, Special("nctaid.x"), inner_split=strided, labels=labels)
    if strided:
        s.reorder(tv, {1: 0})
    s.parallelize(tv, 0, ParallelType.BIDx)


def tiled(sizes: tuple[int, int, int] = (128, 256, 64), strided: bool = True) -> Schedule:
    """Both loads and the accumulator as [cta, tile, k, Mi, Ni, Ki], the last three Bulk or Mma."""
    s = cached()
    for tv in ("T6", "T7", "T4"):
        tile(s, tv, sizes, strided)
        for axis in (3, 4, 5):
            s.parallelize(tv, axis, ParallelType.Mma if tv == "T4" else ParallelType.Bulk)
    return s


def buffered(s: Schedule) -> Fusion:
    """The schedule with both loads circular-buffered, warp-specialized on TIDy."""
    for tv in ("T6", "T7"):
        s.circular_buffer(tv, 4, 2, ON_TIDY)
    return s.fusion


def split_tile(s: Schedule, tensors: tuple[str, ...], factor: int) -> None:
    """[cta, tile, k, ...] to [cta, tile, group, k, ...]."""
    for tv in tensors:
        s.split(tv, 1, factor, labels=("tile", "group"))


def merged(strided: bool = True) -> Schedule:
    s = tiled(strided=strided)
    for tv in LOADS:
        s.merge(tv, 1)
    return s
