"""wsched's MatmulParams as nvFuser's, field by field, and back.

In between stand plain values under nvFuser's names (:data:`Fields`): enums by the names that
``nvfuser_direct`` gives them, tiles as lists. They are what the plugin's table holds and what tests
keep; :func:`write_fields` and :func:`read_fields` move them to and from a live
``nvfuser_direct.MatmulParams``. :data:`TABLE` says of every field of both sides where it goes.

Sources: nvFuser's scheduler/matmul_heuristic.h (in its wheel) for the fields,
csrc/scheduler/matmul_hopper+.cpp for what its scheduler does with them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lowering.ground.errors import UnsupportedError
from wsched.nvfuser.limits import REGISTERS, require_taken
from wsched.schedule.matmul.params import (
    BufferingLoopLevel,
    CircularBufferingStrategy,
    CircularBufferOptions,
    ClusterDims,
    GemmTile,
    MatmulParams,
    MatMulTileOptions,
    MmaMacro,
    TileRasterizationOrder,
    TilingStrategy,
)

__all__ = ["TABLE", "FieldRule", "Fields", "from_fields", "from_nvfuser", "read_fields",
           "to_fields", "write_fields"]  # fmt: skip

Fields = dict[str, Any]
"""Fields of nvFuser's MatmulParams that a schedule decides, as plain data."""


@dataclass(frozen=True, slots=True)
class FieldRule:
    """Where a field goes.

    Args:
        ours: field of wsched's MatmulParams, empty if there is none.
        theirs: field of nvFuser's, empty if there is none.
        why: what differs, or why one side has none.
    """

    ours: str
    theirs: str
    why: str = ""


TABLE = (
    FieldRule("tiling_strategy", "tiling_strategy"),
    FieldRule("buffering_loop_level", "buffering_loop_level"),
    FieldRule("circular_buffering_strategy", "circular_buffering_strategy"),
    FieldRule("cta_order", "cta_order"),
    FieldRule("circular_buffer_options", "circular_buffer_options"),
    FieldRule(
        "tile_sizes",
        "tile_sizes",
        "in ping-pong nvFuser's CTA tile is that of one warpgroup, wsched's that of all",
    ),
    FieldRule("mma_macro", "mma_macro"),
    FieldRule(
        "grid_traversal_factor",
        "grid_traversal_factor",
        "both factors are carried; wsched's own kernels take (G, 1) only",
    ),
    FieldRule("use_smem_epilogue", "use_smem_epilogue"),
    FieldRule("use_ldst_matrix", "use_ldst_matrix"),
    FieldRule("splitk_factor", "splitk_factor"),
    FieldRule("cluster_dims", "cluster_dims", "without multicast in nvFuser's kernels"),
    FieldRule(
        "promote_prologue_smem_reuse",
        "promote_prologue_smem_reuse",
        "nvFuser's Hopper kernels need it wherever results go through shared memory; not chosen",
    ),
    FieldRule(
        "supported_vec_size",
        "supported_vec_size",
        "set where it schedules: the epilogue's as it is, the operands' from their type",
    ),
    FieldRule("", "async_gmem_load_operands", "always: operands are loaded by TMA"),
    FieldRule("", "cparams", "index type and options of the compiler, not of the schedule"),
    FieldRule("", "lparams", "the launch, which nvFuser finds itself"),
    FieldRule("", "scheduler_type", "always matmul"),
    FieldRule(
        "num_registers",
        "",
        f"nvFuser always takes {REGISTERS} for two compute warpgroups, and none for others",
    ),
    FieldRule("wgmma_in_flight", "", "in nvFuser the prefetch gap less one"),
    FieldRule("epilogue_stages", "", "nvFuser buffers a whole tile, once"),
    FieldRule("epilogue_input_stages", "", "nvFuser's compute warpgroups wait for their loads"),
    FieldRule("programmatic_dependent_launch", "", "an option of nvFuser's executor, off"),
    FieldRule("exchange_operands", "", "nvFuser's tiles are those of the product as it is written"),
    FieldRule("thread_loads", "", "nvFuser's operands are loaded by TMA"),
    FieldRule("smem_swizzles", "", "nvFuser's operands have the widest swizzle that fits"),
    FieldRule("accumulators", "", "nvFuser's are fp32"),
    FieldRule("prefetched_steps", "", "nvFuser's kernels start behind the grid in front"),
    FieldRule("epilogue_columns", "", "nvFuser's epilogue computes a whole tile at a time"),
    FieldRule("splitk_mode", "", "nvFuser's CTAs add parts up themselves"),
    FieldRule(
        "siblings", "", "nvFuser has a kernel for a matmul, and no groups of its own schedule"
    ),
    FieldRule("sharing", "", "likewise"),
    FieldRule("delayed_groups", "", "likewise"),
    FieldRule("deferred_stores", "", "nvFuser stores a tile before it begins the next one"),
    FieldRule("batch_invariant", "", "a promise about what is chosen, not a part of the schedule"),
    FieldRule("cache_policies", "", "nvFuser's TMA copies have none"),
    FieldRule("l2_promotions", "", "nvFuser's tensor maps have their own, whatever the rows"),
)
"""Every field of wsched's MatmulParams and of nvFuser's, each once."""


def to_fields(params: MatmulParams) -> Fields:
    """NvFuser's fields for wsched's parameters.

    Fields that only wsched has and that change nothing but speed are left out, unless they ask
    for what nvFuser's kernels do otherwise.

    Raises:
        UnsupportedError: nvFuser's Hopper scheduler cannot take them; the text says why.
    """
    require_taken(params)
    tiles, macro, options = params.tile_sizes, params.mma_macro, params.circular_buffer_options
    return {
        "tiling_strategy": _snake(params.tiling_strategy.name),
        "buffering_loop_level": _snake(params.buffering_loop_level.name),
        "circular_buffering_strategy": _snake(params.circular_buffering_strategy.name),
        "cta_order": _snake(params.cta_order.name),
        "circular_buffer_options": [
            options.circular_buffer_smem_write,
            options.circular_buffer_smem_read,
            options.smem_circular_buffer_stage,
            options.smem_circular_buffer_prefetch_gap,
        ],
        "cta_tile": _tile(tiles.warp_tile if params.ping_pong else tiles.cta_tile),
        "warp_tile": _tile(tiles.warp_tile),
        "mma_macro": [macro.m, macro.n, macro.k],
        "grid_traversal_factor": list(params.grid_traversal_factor),
        "use_smem_epilogue": params.use_smem_epilogue,
        "use_ldst_matrix": params.use_ldst_matrix,
        "splitk_factor": params.splitk_factor,
        "cluster_dims": [params.cluster_dims.m, params.cluster_dims.n],
        "promote_prologue_smem_reuse": params.use_smem_epilogue,
        "async_gmem_load_operands": True,
    }


def from_fields(fields: Fields, base: MatmulParams | None = None) -> MatmulParams:
    """Wsched's parameters for nvFuser's fields; the inverse of :func:`to_fields`.

    Args:
        fields: nvFuser's.
        base: where the fields come from that nvFuser does not have.

    Raises:
        UnsupportedError: what nvFuser's Hopper kernels do not do, or wsched cannot write down.
    """
    _require_known(fields)
    level = BufferingLoopLevel[_camel(fields["buffering_loop_level"], BufferingLoopLevel)]
    cta, warp = GemmTile(*fields["cta_tile"]), GemmTile(*fields["warp_tile"])
    if level is BufferingLoopLevel.WarpTiles:
        cta = replace(cta, m=2 * cta.m)
    options = CircularBufferOptions(*fields["circular_buffer_options"])
    tiling = TilingStrategy[_camel(fields["tiling_strategy"], TilingStrategy)]
    strategy = _camel(fields["circular_buffering_strategy"], CircularBufferingStrategy)
    first, second = fields["grid_traversal_factor"]
    made = replace(
        base or MatmulParams(),
        tiling_strategy=tiling,
        buffering_loop_level=level,
        circular_buffering_strategy=CircularBufferingStrategy[strategy],
        cta_order=TileRasterizationOrder[_camel(fields["cta_order"], TileRasterizationOrder)],
        circular_buffer_options=options,
        tile_sizes=MatMulTileOptions(cta, warp),
        mma_macro=MmaMacro(*fields["mma_macro"]),
        grid_traversal_factor=(first, second),
        use_smem_epilogue=fields["use_smem_epilogue"],
        use_ldst_matrix=fields["use_ldst_matrix"],
        splitk_factor=fields["splitk_factor"],
        cluster_dims=ClusterDims(*fields["cluster_dims"]),
        wgmma_in_flight=options.smem_circular_buffer_prefetch_gap - 1,
    )
    require_taken(made)
    return made


def write_fields(nvfuser: Any, live: Any, fields: Fields) -> None:
    """Set the fields of a ``nvfuser_direct.MatmulParams``.

    Args:
        nvfuser: the module ``nvfuser_direct``.
        live: of ``compute_heuristics`` or of its class; what is not in ``fields`` stays.
        fields: of :func:`to_fields`.
    """
    live.tiling_strategy = getattr(nvfuser.MatmulTilingStrategy, fields["tiling_strategy"])
    levels = nvfuser.MatmulBufferingLoopLevel
    live.buffering_loop_level = getattr(levels, fields["buffering_loop_level"])
    strategies = nvfuser.MatmulCircularBufferingStrategy
    live.circular_buffering_strategy = getattr(strategies, fields["circular_buffering_strategy"])
    live.cta_order = getattr(nvfuser.MatmulTileRasterizationOrder, fields["cta_order"])
    # pybind takes write before read, the order in which the struct declares them.
    live.circular_buffer_options = nvfuser.CircularBufferOptions(*fields["circular_buffer_options"])
    tiles = (nvfuser.GemmTile(*fields[name]) for name in ("cta_tile", "warp_tile"))
    live.tile_sizes = nvfuser.MatMulTileOptions(*tiles)
    hopper = nvfuser.MmaMacroArch.hopper
    live.mma_macro = nvfuser.MmaMacroEncode(hopper, *fields["mma_macro"]).mma_macro()
    live.grid_traversal_factor = tuple(fields["grid_traversal_factor"])
    live.cluster_dims = nvfuser.ClusterDims(*fields["cluster_dims"])
    for name in (
        "use_smem_epilogue", "use_ldst_matrix", "splitk_factor", "promote_prologue_smem_reuse",
        "async_gmem_load_operands",
    ):  # fmt: skip
        setattr(live, name, fields[name])


def read_fields(live: Any) -> Fields:
    """The fields of a ``nvfuser_direct.MatmulParams``; the inverse of :func:`write_fields`."""
    options, tiles, macro = live.circular_buffer_options, live.tile_sizes, live.mma_macro
    return {
        "tiling_strategy": live.tiling_strategy.name,
        "buffering_loop_level": live.buffering_loop_level.name,
        "circular_buffering_strategy": live.circular_buffering_strategy.name,
        "cta_order": live.cta_order.name,
        "circular_buffer_options": [
            options.circular_buffer_smem_write,
            options.circular_buffer_smem_read,
            options.smem_circular_buffer_stage,
            options.smem_circular_buffer_prefetch_gap,
        ],
        "cta_tile": _tile(tiles.cta_tile),
        "warp_tile": _tile(tiles.warp_tile),
        "mma_macro": [macro.m, macro.n, macro.k],
        "grid_traversal_factor": list(live.grid_traversal_factor),
        "use_smem_epilogue": live.use_smem_epilogue,
        "use_ldst_matrix": live.use_ldst_matrix,
        "splitk_factor": live.splitk_factor,
        "cluster_dims": [live.cluster_dims.m, live.cluster_dims.n],
        "promote_prologue_smem_reuse": live.promote_prologue_smem_reuse,
        "async_gmem_load_operands": live.async_gmem_load_operands,
    }


def from_nvfuser(live: Any, base: MatmulParams | None = None) -> MatmulParams:
    """Wsched's parameters for a live ``nvfuser_direct.MatmulParams``; see :func:`from_fields`."""
    return from_fields(read_fields(live), base)


def _require_known(fields: Fields) -> None:
    """Refuse what wsched's parameters have no word for."""
    if not fields["async_gmem_load_operands"]:
        what = "async_gmem_load_operands=False"
        raise UnsupportedError(what, "True: nvFuser's Hopper scheduler loads operands by TMA")
    if fields["promote_prologue_smem_reuse"] != fields["use_smem_epilogue"]:
        raise UnsupportedError(
            f"promote_prologue_smem_reuse={fields['promote_prologue_smem_reuse']} with "
            f"use_smem_epilogue={fields['use_smem_epilogue']}",
            "the same value for both, as nvFuser's heuristic sets them on Hopper",
        )
    if fields["buffering_loop_level"] == "warp_tiles" and fields["cta_tile"] != fields["warp_tile"]:
        raise UnsupportedError(
            f"ping-pong with a CTA tile {fields['cta_tile']} that is not the warp tile "
            f"{fields['warp_tile']}",
            "equal tiles: nvFuser's ping-pong CTA tile is that of one warpgroup",
        )


def _tile(tile: Any) -> list[int]:
    return [tile.m, tile.n, tile.k]


_NAMES = {
    "OneTilePerCTA": "one_tile_per_cta",
    "DistributeTilesAcrossSMs": "distribute_tiles_across_sms",
    "DistributeStagesAcrossSMs": "distribute_stages_across_sms",
    "CTATiles": "cta_tiles",
    "WarpTiles": "warp_tiles",
    "Pipelined": "pipelined",
    "WarpSpecialized": "warp_specialized",
    "RowMajor": "row_major",
    "ColumnMajor": "column_major",
}
"""Members of enums: name in C++ and here -> name in ``nvfuser_direct``."""


def _snake(name: str) -> str:
    return _NAMES[name]


def _camel(name: str, kind: Any) -> str:
    """The member of an enum that ``nvfuser_direct`` calls so."""
    return next(str(m.name) for m in kind if _NAMES[m.name] == name)
