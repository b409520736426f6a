"""Results that are reductions of the matmul's: which way a tile is reduced, and what that takes."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.frozen import quick
from lowering.target import ptx
from wsched.fusion import DataType, Fusion, IterType
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.primitives.checks import Reasons

__all__ = [
    "NO_REDUCTIONS", "Reductions", "over_both", "over_columns", "reduction_reasons",
    "shared_by_warps",
]  # fmt: skip

_WARPS = 4


@quick
@dataclass(frozen=True, slots=True)
class Reductions:
    """How many results are reductions.

    Args:
        over_rows: of those over the rows of a tile, which go from warp to warp in shared memory.
        over_columns: of those over its columns, or over both, which a warp carries from chunk to
            chunk.
        over_both: of those, how many are over both, of which single numbers go from warp to warp.
    """

    over_rows: int = 0
    over_columns: int = 0
    over_both: int = 0

    @classmethod
    def of(cls, fusion: Fusion) -> Reductions:
        """Those of a fusion."""
        found = [over_columns(fusion, b.tensor) for b in fusion.reduced]
        both = sum(over_both(fusion, b.tensor) for b in fusion.reduced)
        return cls(found.count(False), found.count(True), both)

    @property
    def types(self) -> tuple[DataType, ...]:
        """The type in which chunks are held to be reduced; none where nothing is."""
        return (DataType.Float,) if self.over_rows or self.over_columns else ()


NO_REDUCTIONS = Reductions()


def reduction_reasons(found: Reductions, params: MatmulParams) -> Reasons:
    """Why results cannot be reductions in a schedule of these parameters."""
    reasons = []
    if found.over_columns and params.across > 1:
        reasons.append(
            f"{params.across} warpgroups side by side along N: each would have a part of the "
            "columns that a result is reduced over"
        )
    if found != NO_REDUCTIONS and params.exchange_operands:
        reasons.append("exchange_operands=True: what is reduced is rows and columns of the result")
    if found != NO_REDUCTIONS and params.batch_invariant:
        reasons.append(
            "batch_invariant=True: a result is reduced tile by tile, and which tiles there are "
            "depends on M"
        )
    return reasons


def over_columns(fusion: Fusion, tv: str) -> bool:
    """Whether a reduction is over the columns of a tile; of one over both, too."""
    return _summed(fusion, tv)[1]


def over_both(fusion: Fusion, tv: str) -> bool:
    """Whether a reduction is over rows and columns of a tile, at once or one behind the other."""
    return all(_summed(fusion, tv))


def _summed(fusion: Fusion, tv: str) -> tuple[bool, bool]:
    """Whether a reduction, or a copy of one, is over rows, and over columns."""
    rows = columns = False
    e = fusion.reduction(tv)
    while e is not None:
        row, column = fusion.tensor(e.output).read[-2:]
        rows |= row.iter_type is IterType.Reduction
        columns |= column.iter_type is IterType.Reduction
        e = fusion.reduction(e.input)
    return rows, columns


def shared_by_warps(found: Reductions, params: MatmulParams) -> int:
    """Bytes through which warps hand on what they have reduced of their rows."""
    columns = params.tile_sizes.warp_tile.n
    each = found.over_rows * _row_bytes(params.warpgroups, columns)
    return each + found.over_both * _row_bytes(params.warpgroups, 1)


def _row_bytes(warpgroups: int, columns: int) -> int:
    """Shared memory for a reduction over rows: of each warp a row of its tile in fp32."""
    size = warpgroups * _WARPS * columns * 4
    return -(-size // ptx.SWIZZLE_ATOM) * ptx.SWIZZLE_ATOM
