"""Schedules by hand for a GPU that sums up in tensor memory: three parts, two rings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from lowering.kernel.kernel import Kernel, TensorBuffer
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.nest.lower import lower
from lowering.target.blackwell import BLACKWELL
from lowering.target.target import Target
from passes.options import LoweringOptions
from passes.pipeline import run_passes
from tests.legality.builder import CTAS, Matmul, P
from tests.schedules import definition
from wsched.fusion import Fusion, LoadStoreOpType, MemoryType, WarpSpecialized
from wsched.importer import build_fusion, record_text
from wsched.schedule import Schedule
from wsched.schedule.plan import Plan, make_plan

__all__ = ["NOT_FINAL", "Tile", "final", "plan", "scheduled"]

_TMA, _SET = LoadStoreOpType.CpAsyncBulkTensorTile, LoadStoreOpType.Set


@dataclass(frozen=True, slots=True)
class Tile:
    """What a CTA computes at a time, and how far ahead.

    Args:
        m: rows, a multiple of 128.
        n: columns.
        k: of a step.
        stages: of the operands.
        sums: stages of the accumulator, 0 for one that is no ring.
        groups: warpgroups that read it, 128 rows each.
        by_tma: whether results go by way of shared memory and TMA.
        queue: whether tiles are dealt out at run time.
        cluster: CTAs along M.
        target: the GPU, and how many CTAs multiply together.
        threads: whether threads load the operands.
    """

    m: int = 128
    n: int = 64
    k: int = 64
    stages: int = 4
    sums: int = 2
    groups: int = 1
    by_tma: bool = True
    queue: bool = False
    cluster: int = 1
    target: Target = BLACKWELL
    threads: bool = False


def scheduled(tile: Tile = Tile(), text: str | None = None) -> Fusion:
    """A persistent linear: a warp loads, a thread multiplies, warpgroups store."""
    m = _cached(tile, text)
    s, acc = m.s, m.acc
    m.tile(tile.m, tile.n, tile.k)
    if tile.cluster > 1:
        _deal_to_clusters(m, tile)
    else:
        m.deal(dynamic=tile.queue)
    m.steps("tile k")
    m.stage(tile.stages, tile.stages - 1)
    m.split((acc,), "Ki", 16, "k16 Ki")
    m.split((acc,), "Mi", 128, "m128 Mi")
    m.order((acc,), "cta tile k k16 m128")
    for label in ("Mi", "Ni", "Ki"):
        m.run((acc,), label, P.Mma)
    if tile.sums:
        s.circular_buffer(acc, tile.sums, tile.sums - 1, WarpSpecialized(P.TIDy, None, 2))
    _epilogue(m, tile)
    if not tile.sums:
        s.inline_at(acc, "tile")
    return s.fusion


def _cached(tile: Tile, text: str | None) -> Matmul:
    s = Schedule(build_fusion(record_text(text or definition())), target=tile.target)
    loads = tuple(s.cache_after(tv, _SET if tile.threads else _TMA) for tv in (s.a, s.b))
    (mma,), (out,) = s.fusion.mmas, s.outputs
    for tv in loads:
        s.set_memory_type(tv, MemoryType.Shared)
    s.set_memory_type(mma.output, MemoryType.Tensor)
    read = s.cache_after(mma.output, LoadStoreOpType.LdTMem)
    staged = s.cache_before(out, _TMA if tile.by_tma else _SET)
    epilogue = (read, staged, out)
    if tile.by_tma:
        epilogue = (read, s.cache_before(staged, LoadStoreOpType.StMatrix), staged, out)
        s.set_memory_type(staged, MemoryType.Shared)
    return Matmul(s, loads, mma.output, epilogue, out, (), (out,) if tile.by_tma else ())


def _deal_to_clusters(m: Matmul, tile: Tile) -> None:
    """``[cta, tile, ...]``: CTAs next to each other have tiles below each other."""
    m.split(m.every, "Mo", tile.cluster, "Mc ctaM")
    m.order(m.every, "Mc No ctaM")
    m.merge(m.every, "Mc No", "tiles")
    m.split(m.every, "tiles", CTAS // tile.cluster, "tile cluster", dynamic=tile.queue)
    m.order(m.every, "cluster ctaM tile")
    m.merge(m.every, "cluster ctaM", "cta")
    m.run(m.every, "cta", P.BIDx)


def _epilogue(m: Matmul, tile: Tile) -> None:
    """Chunks of 32 columns of the 128 rows of each warpgroup."""
    s = m.s
    m.split(m.epilogue, "Ni", 32, "chunk Ni")
    if tile.groups > 1:
        m.split(m.epilogue, "Mi", tile.m // tile.groups, "group Mi")
        m.run(m.epilogue, "group", P.TIDy)
    for tv in m.epilogue:
        boxed = tv in m.boxed
        if not boxed:
            m.split((tv,), "Mi", 128, "m128 Mi")
        m.order((tv,), "cta tile group chunk" + (" m128" if not boxed else ""))
        for label in ("Mi", "Ni"):
            m.run((tv,), label, P.Bulk if boxed else P.Mma)
    for tv in m.epilogue[:-1]:
        boxed = any(t.name in m.boxed for t in s.fusion.consumers(tv))
        s.inline_at(tv, "chunk" if boxed else "m128")


def plan(tile: Tile = Tile()) -> Plan:
    """Such a schedule, proved."""
    return make_plan(scheduled(tile), target=tile.target)


def final(tile: Tile = Tile(), **options: int) -> Kernel:
    """Its kernel."""
    return run_passes(lower(plan(tile), "linear"), LoweringOptions(**options))


def _changed(old: str, new: str) -> Kernel:
    return parse_kernel(print_kernel(final(Tile(by_tma=False))).replace(old, new))


def _nowhere() -> Kernel:
    kernel = final(Tile(by_tma=False))
    (cells,) = kernel.of(TensorBuffer)
    return kernel.redeclare(replace(cells, column=None))


NOT_FINAL: Mapping[str, Callable[[], Kernel]] = {
    "tensor memory T4 has no column": _nowhere,
    "is not in lane 0": partial(_changed, "T4[stage_tile2, 0, chunk", "T4[stage_tile2, 16, chunk"),
    "tcgen05.ld of frag<f32, 128x32, async>": partial(_changed, ", span 2, below 2", ""),
    "not 24": partial(_changed, "T7[stage_k, 0, 0], 64", "T7[stage_k, 0, 0], 24"),
}
"""Kernels that no emitter takes, by what it says of them."""
