"""A small kernel of each kind, for tables of what is said of each."""

from __future__ import annotations

from dataclasses import replace

from tests.epilogues import RESIDUAL
from tests.grouped import GATE, grouped
from tests.lists import side_by_side
from tests.reductions import Reduced
from tests.reductions import definition as reductions
from tests.schedules import (
    SCHEDULES,
    cooperative,
    definition,
    dynamic,
    in_tensor_memory,
    ping_pong,
    stream_k,
)
from wsched.schedule.matmul.copied import ThreadLoads
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["KINDS"]

_SMALL = cooperative(64, 32, 32, stages=3, groups=1, registers=None)

KINDS: dict[str, tuple[str, MatmulParams]] = {
    "pingpong": (definition(), ping_pong(64, 32, 32, stages=3)),
    "cluster": (definition(), SCHEDULES["cluster_2x1"]),
    "pipelined": (definition(), SCHEDULES["across_pipelined"]),
    "dynamic": (definition(), dynamic(_SMALL)),
    "stream_k": (definition(), stream_k(_SMALL)),
    "residual": (RESIDUAL, _SMALL),
    "reductions": (reductions([Reduced("sum", (1,)), Reduced("max", (0,))]), _SMALL),
    "thread_loads": (definition(), replace(_SMALL, thread_loads=ThreadLoads(4, 4, 2))),
    "list": (side_by_side(), _SMALL),
    "groups": (grouped(), dynamic(_SMALL)),
    "gated_groups": (GATE, dynamic(ping_pong(64, 16, 32, stages=3))),
    "tensor_memory": (definition(), in_tensor_memory(128, 64, epilogue_stages=1)),
    "queue": (definition(), dynamic(in_tensor_memory(256, 128))),
}
"""A definition, and the parameters of its schedule."""
