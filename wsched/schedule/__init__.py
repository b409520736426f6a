"""Scheduling: primitives, the transform graph, the legality proof and the matmul scheduler."""

from __future__ import annotations

from wsched.schedule.graph import Group, Step, TransformGraph
from wsched.schedule.loops import loops_text
from wsched.schedule.matmul.params import (
    Accumulators,
    BufferingLoopLevel,
    CachePolicies,
    CachePolicy,
    CircularBufferingStrategy,
    CircularBufferOptions,
    ClusterDims,
    GemmTile,
    L2Promotions,
    MatmulParams,
    MatMulTileOptions,
    MmaArch,
    MmaInputSmemSwizzle,
    MmaMacro,
    SmemSwizzles,
    SupportedVectorization,
    TensorMapL2Promotion,
    ThreadLoads,
    TileRasterizationOrder,
    TilingStrategy,
)
from wsched.schedule.matmul.scheduler import plan_matmul, schedule_matmul
from wsched.schedule.parts import Part, find_parts
from wsched.schedule.plan import Edge, Plan, make_plan
from wsched.schedule.primitives.accumulate_in import accumulate_in
from wsched.schedule.primitives.assume import assume
from wsched.schedule.primitives.cache_after import cache_after
from wsched.schedule.primitives.cache_before import cache_before
from wsched.schedule.primitives.circular_buffer import circular_buffer
from wsched.schedule.primitives.delay_groups import delay_groups
from wsched.schedule.primitives.inline_at import inline_at
from wsched.schedule.primitives.merge import merge
from wsched.schedule.primitives.parallelize import parallelize
from wsched.schedule.primitives.reorder import reorder
from wsched.schedule.primitives.replay import replay
from wsched.schedule.primitives.rfactor import rfactor
from wsched.schedule.primitives.set_memory_type import set_memory_type
from wsched.schedule.primitives.share_groups import share_groups
from wsched.schedule.primitives.split import split
from wsched.schedule.proof.legality import load_relations
from wsched.schedule.proof.relation import LoadRelation, StepLoop
from wsched.schedule.proof.work import FromQueue, InTurn, OfInterval, Tail, Work
from wsched.schedule.schedule import Schedule
from wsched.schedule.subdags import subdags_text, to_dot

__all__ = [
    "Accumulators",
    "BufferingLoopLevel",
    "CachePolicies",
    "CachePolicy",
    "CircularBufferOptions",
    "CircularBufferingStrategy",
    "ClusterDims",
    "Edge",
    "FromQueue",
    "GemmTile",
    "Group",
    "InTurn",
    "L2Promotions",
    "LoadRelation",
    "MatMulTileOptions",
    "MatmulParams",
    "MmaArch",
    "MmaInputSmemSwizzle",
    "MmaMacro",
    "OfInterval",
    "Part",
    "Plan",
    "Schedule",
    "SmemSwizzles",
    "Step",
    "StepLoop",
    "SupportedVectorization",
    "Tail",
    "TensorMapL2Promotion",
    "ThreadLoads",
    "TileRasterizationOrder",
    "TilingStrategy",
    "TransformGraph",
    "Work",
    "accumulate_in",
    "assume",
    "cache_after",
    "cache_before",
    "circular_buffer",
    "delay_groups",
    "find_parts",
    "inline_at",
    "load_relations",
    "loops_text",
    "make_plan",
    "merge",
    "parallelize",
    "plan_matmul",
    "reorder",
    "replay",
    "rfactor",
    "schedule_matmul",
    "set_memory_type",
    "share_groups",
    "split",
    "subdags_text",
    "to_dot",
]
