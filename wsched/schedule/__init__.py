"""Scheduling: primitives, the transform graph, the legality proof and the matmul scheduler."""

from __future__ import annotations

from wsched.schedule.cache_after import cache_after
from wsched.schedule.cache_before import cache_before
from wsched.schedule.circular_buffer import circular_buffer
from wsched.schedule.graph import Group, Step, TransformGraph
from wsched.schedule.inline_at import inline_at
from wsched.schedule.legality import load_relation, load_relations
from wsched.schedule.loops import loops_text
from wsched.schedule.matmul import schedule_matmul
from wsched.schedule.merge import merge
from wsched.schedule.parallelize import parallelize
from wsched.schedule.params import (
    BufferingLoopLevel,
    CachePolicies,
    CachePolicy,
    CircularBufferingStrategy,
    CircularBufferOptions,
    ClusterDims,
    GemmTile,
    MatmulParams,
    MatMulTileOptions,
    MmaMacro,
    SupportedVectorization,
    TileRasterizationOrder,
    TilingStrategy,
)
from wsched.schedule.relation import LoadRelation, StepLoop, Tail
from wsched.schedule.reorder import reorder
from wsched.schedule.replay import replay
from wsched.schedule.schedule import Schedule
from wsched.schedule.set_memory_type import set_memory_type
from wsched.schedule.split import split
from wsched.schedule.subdags import SubDags, subdags, subdags_text, to_dot

__all__ = [
    "BufferingLoopLevel",
    "CachePolicies",
    "CachePolicy",
    "CircularBufferOptions",
    "CircularBufferingStrategy",
    "ClusterDims",
    "GemmTile",
    "Group",
    "LoadRelation",
    "MatMulTileOptions",
    "MatmulParams",
    "MmaMacro",
    "Schedule",
    "Step",
    "StepLoop",
    "SubDags",
    "SupportedVectorization",
    "Tail",
    "TileRasterizationOrder",
    "TilingStrategy",
    "TransformGraph",
    "cache_after",
    "cache_before",
    "circular_buffer",
    "inline_at",
    "load_relation",
    "load_relations",
    "loops_text",
    "merge",
    "parallelize",
    "reorder",
    "replay",
    "schedule_matmul",
    "set_memory_type",
    "split",
    "subdags",
    "subdags_text",
    "to_dot",
]
