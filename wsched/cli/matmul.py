"""``wsched matmul``: a kernel from a handful of options, without a definition."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lowering.ground.natural import natural
from wsched.front.builder import MatmulBuilder, TmaOptions
from wsched.schedule.options import DebugPrint

__all__ = ["matmul"]

_DEFAULT = MatmulBuilder()
_TILE = f"{_DEFAULT.block_m}x{_DEFAULT.block_n}x{_DEFAULT.block_k}"
_TYPES = f"{_DEFAULT.input_type}-{_DEFAULT.output_type}"


def _option(name: str, what: str) -> Any:
    return typer.Option(f"--{name}", help=what)


def matmul(
    strategy: Annotated[
        str, _option("strategy", "warpspecialized or multistage.")
    ] = _DEFAULT.strategy,
    tile: Annotated[str, _option("tile", "Rows, columns and K of a tile.")] = _TILE,
    stages: Annotated[
        int, _option("stages", "Tiles of A and B in shared memory.")
    ] = _DEFAULT.num_stages,
    types: Annotated[str, _option("types", "Of the operands and of the result.")] = _TYPES,
    b_layout: Annotated[str, _option("b", "B is nk, K contiguous, or kn.")] = _DEFAULT.b_layout,
    persistent: Annotated[bool, typer.Option(help="CTAs loop over tiles.")] = _DEFAULT.persistent,
    swizzle: Annotated[
        int, _option("swizzle", "Bytes of the tensor maps' swizzle.")
    ] = _DEFAULT.tma.swizzle,
    promotion: Annotated[
        int, _option("l2-promotion", "Bytes that the L2 fetches at once.")
    ] = _DEFAULT.tma.l2_promotion,
    smem_epilogue: Annotated[
        bool, typer.Option(help="Results go by way of shared memory and TMA.")
    ] = _DEFAULT.smem_epilogue,
    debug_print: Annotated[
        list[str] | None,
        _option(
            "debug-print",
            "Have the kernel print: 'load k cta=0', 'T8 T8[3,5] group=1'; again for another line.",
        ),
    ] = None,
    stage: Annotated[str, _option("stage", "What to print, as of dump.")] = "mlir",
) -> None:
    """Print a stage of the kernel that a handful of options describe."""
    given = types.split("-")
    sizes = [n for n in map(natural, tile.split("x")) if n is not None]
    if len(sizes) != 3 or tile.count("x") != 2:
        raise typer.BadParameter(f"{tile!r} is no tile like {_TILE}", param_hint="--tile")
    if len(given) != 2:
        raise typer.BadParameter(f"{types!r} is no pair like {_TYPES}", param_hint="--types")
    m, n, k = sizes
    operands, result = given
    builder = MatmulBuilder(
        strategy, operands, result, m, n, k, stages, b_layout, persistent,
        TmaOptions(swizzle, promotion), smem_epilogue,
        tuple(map(DebugPrint.parse, debug_print or ())),
    )  # fmt: skip
    typer.echo(builder.build().dump(stage), nl=False)
