"""Schedules whose CTAs multiply in pairs (``cta_group::2``), by the matmul scheduler."""

from __future__ import annotations

from typing import Any

from lowering.kernel.kernel import Kernel
from tests.schedules import definition
from wsched.importer import build_fusion, record_text
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.schedule.matmul.params import (
    CircularBufferOptions,
    ClusterDims,
    GemmTile,
    MatmulParams,
    MatMulTileOptions,
    MmaArch,
    MmaMacro,
    TilingStrategy,
)

__all__ = ["CLUSTERS", "PAIRS", "SMALL", "V9", "V10", "final", "made", "paired"]


def paired(m: int, n: int, k: int, stages: int, **given: Any) -> MatmulParams:
    """Pairs along M: each CTA has a tile of ``m x n`` in steps of ``k``, both of them ``2 m x n``.

    ``given`` are further fields of the parameters.
    """
    options = CircularBufferOptions(smem_circular_buffer_stage=stages)
    fields: dict[str, Any] = {
        "tile_sizes": MatMulTileOptions(GemmTile(m, n, k), GemmTile(128, n, k)),
        "mma_macro": MmaMacro(256, n, 16, MmaArch.Blackwell2CTA),
        "cluster_dims": ClusterDims(2, 1),
        "circular_buffer_options": options,
        "num_registers": None,
        **given,
    }
    return MatmulParams(**fields)


def clustered(ctas: int, m: int, n: int) -> MatmulParams:
    """Clusters of ``m x n`` CTAs, each alone or in pairs, that multicast what they share."""
    macro = MmaMacro(128 * ctas, 64, 16, MmaArch[f"Blackwell{ctas}CTA"])
    fields: dict[str, Any] = {"use_smem_epilogue": False, "epilogue_stages": 1}
    return paired(128, 64, 64, 3, mma_macro=macro, cluster_dims=ClusterDims(m, n), **fields)


SMALL = paired(128, 32, 32, 2, use_smem_epilogue=False, epilogue_stages=1)
V9 = paired(128, 256, 64, 4)
V10 = paired(256, 256, 64, 4, epilogue_stages=1)

PAIRS = {
    "registers": SMALL,
    "tma": paired(128, 64, 64, 3, epilogue_stages=1),
    "v9": V9,
    "two-blocks": paired(256, 64, 32, 2, epilogue_stages=1),
    "v10": V10,
    "queue": paired(
        128, 64, 32, 3, epilogue_stages=1,
        tiling_strategy=TilingStrategy.DistributeTilesDynamically,
    ),
}  # fmt: skip

CLUSTERS = {
    f"{m}x{n}-{'pairs' if ctas == 2 else 'alone'}": clustered(ctas, m, n)
    for ctas, m, n in (
        (1, 2, 1), (1, 1, 2), (1, 2, 2), (2, 4, 1), (2, 2, 2), (2, 4, 2), (2, 2, 4),
    )
}  # fmt: skip
"""Larger clusters, or such of CTAs that multiply alone."""


def made(params: MatmulParams = SMALL, text: str | None = None) -> CompiledFusion:
    """What is made of a definition, by default a linear."""
    return compile_fusion(build_fusion(record_text(text or definition())), params)


def final(params: MatmulParams = SMALL, text: str | None = None) -> Kernel:
    """Its kernel."""
    return made(params, text).kernel
