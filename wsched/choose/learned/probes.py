"""Schedules by whose features one sees whether the laws are those that trees were fitted to.

Most features are made of what the laws say, so a changed constant of a law changes what is asked of
trees. A file of trees has the features of these as they were when it was fitted.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from wsched.choose.gpus import GPUS
from wsched.choose.learned.features import FEATURES, features
from wsched.choose.learned.trees import Numbers
from wsched.choose.problem import Problem
from wsched.fusion import DataType
from wsched.schedule.matmul.params import (
    ClusterDims,
    GemmTile,
    L2Promotions,
    MatmulParams,
    SplitKMode,
    TensorMapL2Promotion,
)
from wsched.schedule.matmul.tiles import with_tile

__all__ = ["PROBES", "moved", "probed"]

NEAREST = 1e-5
"""By how much a feature may differ, of itself or of 1: computed by another library for logarithms
it is not the same in its last bits."""

_SQUARE = Problem(4096, 4096, 4096, DataType.BFloat16, (DataType.BFloat16,), 132)
_PROBLEMS = (
    replace(_SQUARE, m=8192, n=8192, k=8192, work=9),
    replace(_SQUARE, m=256, n=384, k=65536),
    replace(_SQUARE, m=1896, n=5160, k=144, m_major=True, n_major=True),
    replace(_SQUARE, m=840, n=2408, k=7720, align_a=16, align_b=32),
    replace(_SQUARE, m=3320, n=784, k=3784, align_a=64, n_major=True),
    _SQUARE.on(GPUS["H100"]),
)


def _on(m: int, n: int, k: int, warpgroups: int, ping_pong: bool, **others: Any) -> MatmulParams:
    """A schedule of a tile."""
    return replace(with_tile(MatmulParams(), GemmTile(m, n, k), warpgroups, ping_pong), **others)


_LATE = {"programmatic_dependent_launch": False,
         "l2_promotions": L2Promotions(*2 * [TensorMapL2Promotion.B256])}  # fmt: skip
_SERIAL, _PARALLEL = {"splitk_factor": 3}, {"splitk_factor": 22, "splitk_mode": SplitKMode.Parallel}
_TURNED = {"exchange_operands": True, "epilogue_stages": 1}
_SCHEDULES = (
    _on(128, 256, 64, 2, False, cluster_dims=ClusterDims(2, 1)),
    _on(64, 208, 64, 2, True, **_LATE),
    _on(64, 16, 128, 1, False, **_LATE),
    _on(192, 120, 64, 3, False, cluster_dims=ClusterDims(2, 4), **_TURNED, **_SERIAL),
    _on(128, 128, 64, 1, False, **_SERIAL),
    _on(256, 160, 64, 2, False, **_PARALLEL),
    _on(128, 192, 64, 2, True, cluster_dims=ClusterDims(2, 2)),
)

PROBES: tuple[tuple[Problem, MatmulParams], ...] = tuple(product(_PROBLEMS, _SCHEDULES))
"""Schedules at problems, legal or not, of which every law that trees are told of says something."""


def probed() -> Numbers:
    """The features of all, a row for each."""
    return np.array([features(*probe) for probe in PROBES], np.float32)


def moved(known: Numbers) -> list[str]:
    """The names of features that are others than they were."""
    now = probed()
    if now.shape != known.shape:
        return list(FEATURES)
    others = ~np.isclose(now, known, rtol=NEAREST, atol=NEAREST).all(axis=0)
    return [name for name, other in zip(FEATURES, others, strict=True) if other]
