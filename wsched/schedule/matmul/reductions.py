"""Results that are reductions of the matmul's: which way a tile is reduced, and what that takes."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.frozen import quick
from lowering.target import ptx
from wsched.fusion import CastOp, DataType, Fusion, IterType, PointwiseOp
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.primitives.checks import Reasons

__all__ = [
    "NO_REDUCTIONS", "Reductions", "over_both", "over_columns", "over_tile", "reduction_reasons",
    "shared_by_warps",
]  # fmt: skip

_WARPS = 4


@quick
@dataclass(frozen=True, slots=True)
class Reductions:
    """How many results are reductions.

    Args:
        over_rows: of those over rows. Rows of a tile go from warp to warp in shared memory.
        over_columns: of those over columns, or over both. Columns of a tile a warp carries from
            chunk to chunk.
        over_both: of those, how many are over both, of which single numbers go from warp to warp.
        of_sums: whether each is made from the sums of products by itself, and matrices are these
            but for a cast: nothing is held of a chunk that several results are made from.
            Says nothing where none is.

    Rows and columns are those of the product that is computed: a tile's are the same.
    """

    over_rows: int = 0
    over_columns: int = 0
    over_both: int = 0
    of_sums: bool = False

    @classmethod
    def of(cls, fusion: Fusion) -> Reductions:
        """Those of a fusion."""
        found = [over_columns(fusion, b.tensor) for b in fusion.reduced]
        both = sum(over_both(fusion, b.tensor) for b in fusion.reduced)
        return cls(found.count(False), found.count(True), both, bool(found) and _of_sums(fusion))

    @property
    def exchanged(self) -> Reductions:
        """Those of the transposed product."""
        rows, columns = self.over_columns - self.over_both, self.over_rows + self.over_both
        return Reductions(rows, columns, self.over_both, self.of_sums)

    @property
    def results(self) -> int:
        """How many there are."""
        return self.over_rows + self.over_columns

    @property
    def types(self) -> tuple[DataType, ...]:
        """The type in which chunks are held to be reduced; none where nothing is."""
        return (DataType.Float,) if self.results else ()


NO_REDUCTIONS = Reductions()


def reduction_reasons(found: Reductions, params: MatmulParams) -> Reasons:
    """Why results cannot be reductions in a schedule of these parameters."""
    reasons = []
    if found.over_columns and params.across > 1:
        reasons.append(
            f"{params.across} warpgroups side by side along N: each would have a part of the "
            "columns that a result is reduced over"
        )
    if found.results and params.batch_invariant:
        reasons.append(
            "batch_invariant=True: a result is reduced tile by tile, and which tiles there are "
            "depends on M"
        )
    return reasons


def _of_sums(fusion: Fusion) -> bool:
    """Whether nothing that is computed has two readers, a result counted as one, and matrices are
    sums of products but for a cast.
    """
    sums, results = {e.output for e in fusion.mmas}, {b.tensor for b in fusion.matrices}
    computed = (e.output for e in fusion.exprs if isinstance(e, CastOp | PointwiseOp))
    alone = all(len(fusion.uses(name)) + (name in results) <= 1 for name in computed)
    stored = (fusion.definition(name) for name in results - sums)
    return alone and all(isinstance(e, CastOp) and e.input in sums for e in stored)


def over_columns(fusion: Fusion, tv: str) -> bool:
    """Whether a reduction is over the columns of the result; of one over both, too."""
    return _summed(fusion, tv)[1]


def over_both(fusion: Fusion, tv: str) -> bool:
    """Whether a reduction is over rows and columns, at once or one behind the other."""
    return all(_summed(fusion, tv))


def over_tile(fusion: Fusion, tv: str, params: MatmulParams) -> tuple[bool, bool]:
    """Whether a reduction is over the rows of a tile, and over its columns: where operands are
    exchanged these are columns and rows of the result.
    """
    rows, columns = _summed(fusion, tv)
    return (columns, rows) if params.exchange_operands else (rows, columns)


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
