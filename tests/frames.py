"""Results that threads store: their schedules, and poisoned memory around them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wsched.schedule.matmul.params import MatmulParams, SupportedVectorization

__all__ = ["FAMILIES", "Frame", "direct"]

FAMILIES = (
    "coop_128x256", "coop_128x64", "coop_1_group_2_rows", "coop_3_groups", "tile_per_cta",
    "cluster_2x1", "cluster_tile_per_cta", "cluster_pingpong", "pipelined", "pingpong_64x256",
    "pingpong_128x128",
)  # fmt: skip
"""Of ``SCHEDULES``: one for each way in which the epilogue of a kernel can differ."""


def direct(params: MatmulParams, vector: int = 1) -> MatmulParams:
    """The same schedule, with results from registers."""
    width = SupportedVectorization(epilogue=vector)
    return replace(params, use_smem_epilogue=False, supported_vec_size=width)


class Frame:
    """A result within NaNs: ``stride`` elements from row to row, from element ``start`` on."""

    def __init__(
        self, rows: int, cols: int, dtype: Any, stride: int, start: int, device: str = "cpu"
    ) -> None:
        import torch

        size = (start + rows * stride + 9,)
        self.flat = torch.full(size, float("nan"), dtype=dtype, device=device)
        self.out = self.flat.as_strided((rows, cols), (stride, 1), start)

    def check(self, wanted: Any) -> None:
        """The result is exact, and nothing around it was written."""
        assert self.out.equal(wanted)
        self.out.fill_(float("nan"))
        assert self.flat.isnan().all()
