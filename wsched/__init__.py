"""wsched: nvFuser fusions with matmuls as warp-specialized, circular-buffered, persistent kernels.

``wsched.execute(fd, inputs)`` runs a definition, ``wsched.compile(fd, inputs)`` gives the kernel
with everything that was decided on the way. Names are loaded when they are first used, so that
importing one layer does not import those above it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wsched.version import __version__

if TYPE_CHECKING:
    from lowering.ground.errors import InternalError, ScheduleError, UnsupportedError, WschedError
    from lowering.ground.expr import Special
    from wsched.doors.dropin import enabled, install, uninstall
    from wsched.doors.dropin.definition import FusionDefinition
    from wsched.doors.dropin.report import report
    from wsched.front.ahead import Preparation, prepare
    from wsched.front.api import compile, execute, explain
    from wsched.front.builder import MatmulBuilder, TmaOptions
    from wsched.front.grouped import grouped_mm
    from wsched.front.legal_tiles import legal_tiles
    from wsched.front.linear import linear
    from wsched.front.moe import Routing, moe, route
    from wsched.front.scaled import int_mm, scaled_mm
    from wsched.front.schedule import Schedule
    from wsched.front.tf32 import with_tf32
    from wsched.fusion.tensor import Pipelined, WarpSpecialized
    from wsched.fusion.types import LoadStoreOpType, MemoryType, ParallelType
    from wsched.importer.input_error import InputError
    from wsched.importer.nvfuser import UnfinishedError
    from wsched.losses.why import Why, why, why_of_parts
    from wsched.run.aligned import aligned_rows
    from wsched.run.bundles import load_bundle, saved_bundle
    from wsched.run.compiled import CompiledFusion
    from wsched.run.mlir import through_mlir
    from wsched.run.wrong_ends import wrong_ends
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
    from wsched.schedule.matmul.tiles import TileChoice
    from wsched.schedule.options import DebugPrint, KernelOptions

__all__ = [
    "Accumulators",
    "BufferingLoopLevel",
    "CachePolicies",
    "CachePolicy",
    "CircularBufferOptions",
    "CircularBufferingStrategy",
    "ClusterDims",
    "CompiledFusion",
    "DebugPrint",
    "FusionDefinition",
    "GemmTile",
    "InputError",
    "InternalError",
    "KernelOptions",
    "L2Promotions",
    "LoadStoreOpType",
    "MatMulTileOptions",
    "MatmulBuilder",
    "MatmulParams",
    "MemoryType",
    "MmaArch",
    "MmaInputSmemSwizzle",
    "MmaMacro",
    "ParallelType",
    "Pipelined",
    "Preparation",
    "Routing",
    "Schedule",
    "ScheduleError",
    "SmemSwizzles",
    "Special",
    "SupportedVectorization",
    "TensorMapL2Promotion",
    "ThreadLoads",
    "TileChoice",
    "TileRasterizationOrder",
    "TilingStrategy",
    "TmaOptions",
    "UnfinishedError",
    "UnsupportedError",
    "WarpSpecialized",
    "Why",
    "WschedError",
    "__version__",
    "aligned_rows",
    "compile",
    "enabled",
    "execute",
    "explain",
    "grouped_mm",
    "install",
    "int_mm",
    "legal_tiles",
    "linear",
    "load_bundle",
    "moe",
    "prepare",
    "report",
    "route",
    "saved_bundle",
    "scaled_mm",
    "through_mlir",
    "uninstall",
    "why",
    "why_of_parts",
    "with_tf32",
    "wrong_ends",
]

_HOME = {
    "Schedule": "wsched.front.schedule",
    "DebugPrint": "wsched.schedule.options",
    "KernelOptions": "wsched.schedule.options",
    "LoadStoreOpType": "wsched.fusion.types",
    "MemoryType": "wsched.fusion.types",
    "ParallelType": "wsched.fusion.types",
    "WarpSpecialized": "wsched.fusion.tensor",
    "Pipelined": "wsched.fusion.tensor",
    "Special": "lowering.ground.expr",
    "Preparation": "wsched.front.ahead",
    "aligned_rows": "wsched.run.aligned",
    "load_bundle": "wsched.run.bundles",
    "prepare": "wsched.front.ahead",
    "saved_bundle": "wsched.run.bundles",
    "compile": "wsched.front.api",
    "execute": "wsched.front.api",
    "explain": "wsched.front.api",
    "Why": "wsched.losses.why",
    "why": "wsched.losses.why",
    "why_of_parts": "wsched.losses.why",
    "int_mm": "wsched.front.scaled",
    "linear": "wsched.front.linear",
    "Routing": "wsched.front.moe",
    "moe": "wsched.front.moe",
    "route": "wsched.front.moe",
    "grouped_mm": "wsched.front.grouped",
    "legal_tiles": "wsched.front.legal_tiles",
    "MatmulBuilder": "wsched.front.builder",
    "TmaOptions": "wsched.front.builder",
    "scaled_mm": "wsched.front.scaled",
    "with_tf32": "wsched.front.tf32",
    "through_mlir": "wsched.run.mlir",
    "enabled": "wsched.doors.dropin",
    "install": "wsched.doors.dropin",
    "report": "wsched.doors.dropin.report",
    "uninstall": "wsched.doors.dropin",
    "wrong_ends": "wsched.run.wrong_ends",
    "FusionDefinition": "wsched.doors.dropin.definition",
    "CompiledFusion": "wsched.run.compiled",
    "TileChoice": "wsched.schedule.matmul.tiles",
    "Accumulators": "wsched.schedule.matmul.params",
    "BufferingLoopLevel": "wsched.schedule.matmul.params",
    "CachePolicies": "wsched.schedule.matmul.params",
    "CachePolicy": "wsched.schedule.matmul.params",
    "CircularBufferOptions": "wsched.schedule.matmul.params",
    "CircularBufferingStrategy": "wsched.schedule.matmul.params",
    "ClusterDims": "wsched.schedule.matmul.params",
    "GemmTile": "wsched.schedule.matmul.params",
    "MatMulTileOptions": "wsched.schedule.matmul.params",
    "L2Promotions": "wsched.schedule.matmul.params",
    "MatmulParams": "wsched.schedule.matmul.params",
    "MmaInputSmemSwizzle": "wsched.schedule.matmul.params",
    "SmemSwizzles": "wsched.schedule.matmul.params",
    "MmaArch": "wsched.schedule.matmul.params",
    "MmaMacro": "wsched.schedule.matmul.params",
    "SupportedVectorization": "wsched.schedule.matmul.params",
    "ThreadLoads": "wsched.schedule.matmul.params",
    "TensorMapL2Promotion": "wsched.schedule.matmul.params",
    "TileRasterizationOrder": "wsched.schedule.matmul.params",
    "TilingStrategy": "wsched.schedule.matmul.params",
    "InputError": "wsched.importer.input_error",
    "UnfinishedError": "wsched.importer.nvfuser",
    "InternalError": "lowering.ground.errors",
    "ScheduleError": "lowering.ground.errors",
    "UnsupportedError": "lowering.ground.errors",
    "WschedError": "lowering.ground.errors",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'wsched' has no attribute {name!r}")
    found = getattr(import_module(_HOME[name]), name)
    globals()[name] = found  # who calls it again finds it at once
    return found


def __dir__() -> list[str]:
    """What completion offers: the public names, used or not."""
    return sorted(__all__)
