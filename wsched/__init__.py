"""wsched: nvFuser fusions with matmuls as warp-specialized, circular-buffered, persistent kernels.

``wsched.execute(fd, inputs)`` runs a definition, ``wsched.compile(fd, inputs)`` gives the kernel
with everything that was decided on the way. Names are loaded when they are first used, so that
importing one layer does not import those above it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowering.errors import InternalError, ScheduleError, UnsupportedError, WschedError
    from wsched.api import compile, execute, explain
    from wsched.compiled import CompiledFusion
    from wsched.dropin import enabled, install, uninstall
    from wsched.dropin.definition import FusionDefinition
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
    from wsched.schedule.tiles import TileChoice
    from wsched.tiles import legal_tiles

__version__ = "0.1.0"

__all__ = [
    "BufferingLoopLevel",
    "CachePolicies",
    "CachePolicy",
    "CircularBufferOptions",
    "CircularBufferingStrategy",
    "ClusterDims",
    "CompiledFusion",
    "FusionDefinition",
    "GemmTile",
    "InternalError",
    "MatMulTileOptions",
    "MatmulParams",
    "MmaMacro",
    "ScheduleError",
    "SupportedVectorization",
    "TileChoice",
    "TileRasterizationOrder",
    "TilingStrategy",
    "UnsupportedError",
    "WschedError",
    "__version__",
    "compile",
    "enabled",
    "execute",
    "explain",
    "install",
    "legal_tiles",
    "uninstall",
]

_HOME = {
    "compile": "wsched.api",
    "execute": "wsched.api",
    "explain": "wsched.api",
    "legal_tiles": "wsched.tiles",
    "enabled": "wsched.dropin",
    "install": "wsched.dropin",
    "uninstall": "wsched.dropin",
    "FusionDefinition": "wsched.dropin.definition",
    "CompiledFusion": "wsched.compiled",
    "TileChoice": "wsched.schedule.tiles",
    "BufferingLoopLevel": "wsched.schedule.params",
    "CachePolicies": "wsched.schedule.params",
    "CachePolicy": "wsched.schedule.params",
    "CircularBufferOptions": "wsched.schedule.params",
    "CircularBufferingStrategy": "wsched.schedule.params",
    "ClusterDims": "wsched.schedule.params",
    "GemmTile": "wsched.schedule.params",
    "MatMulTileOptions": "wsched.schedule.params",
    "MatmulParams": "wsched.schedule.params",
    "MmaMacro": "wsched.schedule.params",
    "SupportedVectorization": "wsched.schedule.params",
    "TileRasterizationOrder": "wsched.schedule.params",
    "TilingStrategy": "wsched.schedule.params",
    "InternalError": "lowering.errors",
    "ScheduleError": "lowering.errors",
    "UnsupportedError": "lowering.errors",
    "WschedError": "lowering.errors",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'wsched' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
