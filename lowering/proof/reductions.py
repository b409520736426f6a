"""What reductions take of a tile: no more, and no less, than lies in front of the ends of what it
is made of.

Behind an end there is anything: a bias that was added, or what lay in a stage of which a clipped
box has filled a part. A mask says what counts; without one all of the tile does. More than there is
may count where zeros are added: of elements that are loaded, which are zeros behind the end; in a
stage that TMA fills as well, but for rows that a clipped box does not have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite

from lowering.ground.expr import Expr, free_vars
from lowering.kernel.compute import (
    FragCast,
    FragColumns,
    FragLoadGlobal,
    FragPointwise,
    FragRows,
    LdMatrix,
    LdShared,
    Wgmma,
)
from lowering.kernel.control import For
from lowering.kernel.kernel import Kernel
from lowering.kernel.memory import TmaLoad
from lowering.kernel.operands import Body, Frag, GmemRef, SmemRef, Stmt
from lowering.kernel.reduction import FragBelow, FragReduce, FragReduceToShared
from lowering.kernel.tensor_memory import Tcgen05Mma
from lowering.kernel.traits import Memory
from lowering.kernel.visit import bodies, operands, walk
from lowering.proof.ends import grouped, tables_of
from lowering.proof.tile import Along, Tile

__all__ = ["Reduction", "Reductions", "limits"]

Reduction = FragReduce | FragReduceToShared

_Ends = tuple[frozenset[Along], tuple[object, ...]]
"""The ways in which a fragment is zeros behind the ends, and where that is."""

_BOTH, _COLS = frozenset({Along.ROWS, Along.COLS}), frozenset({Along.COLS})


@dataclass(frozen=True, slots=True)
class Reductions:
    """What decides about all reductions of a kernel.

    Args:
        zeros: fragments that are zeros behind the ends of what they are loaded from, and which ends
            these are.
        whole: fragments that are reduced over rows of as many elements as a tile has columns.
        groups: the parameters that say how many groups there are, or up to where they go: how much
            of those counts depends on where a group ends.
    """

    zeros: Mapping[str, _Ends]
    whole: frozenset[str]
    groups: frozenset[str]

    @staticmethod
    def of(kernel: Kernel) -> Reductions:
        """Those of a kernel."""
        walked = list(walk(kernel.body))
        if not any(isinstance(s, Reduction) for s in walked):
            return Reductions({}, frozenset(), frozenset())
        # without products and loops it is launched for rows that fill a tile, and for no others
        products = any(isinstance(s, Wgmma | Tcgen05Mma) for s in walked)
        whole = frozenset(() if products else _at_once(kernel.body))
        groups = grouped(kernel) if any(True for _ in tables_of(kernel)) else frozenset[str]()
        return Reductions(_zeros(walked, _filled(kernel, walked)), whole, groups)

    def taken(
        self, stmt: Reduction, value: Tile, below: Tile | None
    ) -> Iterator[tuple[Along, int, int]]:
        """The ways in which a tile is reduced: of so many rows or columns so many are taken."""
        kind = stmt.out.type if isinstance(stmt, FragReduce) else None
        mask = None if below is None else Along.ROWS if below.cols == 1 else Along.COLS
        rows = kind is None or kind.rows < value.rows
        cols = kind is not None and kind.cols < value.cols
        for way, fewer, size in ((Along.ROWS, rows, value.rows), (Along.COLS, cols, value.cols)):
            if below is not None and mask is way:
                yield way, size, below.known
            elif fewer and not self.none_behind(stmt, way):
                yield way, size, size

    def none_behind(self, stmt: Reduction, way: Along) -> bool:
        """Whether what is behind the ends leaves a result as it is without a mask."""
        if way is Along.COLS and stmt.value.name in self.whole:
            return True
        ends = self.zeros.get(stmt.value.name)
        factor = ends if stmt.factor is None else self.zeros.get(stmt.factor.name)
        return stmt.op == "sum" and ends is not None and ends == factor and way in ends[0]

    def counts(self, extent: Expr) -> bool:
        """Whether a dimension of that extent ends where all of it does, and no group."""
        return not self.groups & {v.name for v in free_vars(extent)}


def _at_once(body: Body) -> Iterator[str]:
    """What is reduced outside of all loops."""
    for stmt in body:
        if isinstance(stmt, FragReduce):
            yield stmt.value.name
        if not isinstance(stmt, For):
            for inner in bodies(stmt):
                yield from _at_once(inner)


def _filled(kernel: Kernel, walked: list[Stmt]) -> dict[str, frozenset[Along]]:
    """Stages that TMA alone fills, and the ways in which they are zeros behind the ends."""
    under = {name for b in kernel.shared for name in b.over}
    found = {b.name: _BOTH for b in kernel.shared if not b.over and b.name not in under}
    for stmt in walked:
        into = {ref.buffer for ref in operands(stmt) if isinstance(ref, SmemRef)} & found.keys()
        for name in into:
            if isinstance(stmt, TmaLoad):
                found[name] &= _COLS if kernel.tensor_map(stmt.src.map).clipped else _BOTH
            elif stmt.TRAITS.writes & (Memory.SHARED | Memory.SHARED_ASYNC):
                found[name] = frozenset()
    return found


def _zeros(walked: list[Stmt], filled: Mapping[str, frozenset[Along]]) -> dict[str, _Ends]:
    """Fragments that are loaded, and those that are computed of such with the same ends, element by
    element and so that zeros stay zeros.
    """
    found: dict[str, _Ends] = {}
    for stmt in walked:
        match stmt:
            case FragLoadGlobal(out=out, src=GmemRef() as src, limit=None, index=None):
                found[out.name] = _BOTH, (src, stmt.trans, out.type.rows, out.type.cols)
            case LdMatrix(out=out, src=src) | LdShared(out=out, src=src, cta=None):
                ways = filled.get(src.buffer, frozenset())
                found[out.name] = ways, (src, out.type.rows, out.type.cols)
            case FragCast(out=out, value=Frag() as value) if value.name in found:
                found[out.name] = found[value.name]
            case FragPointwise(out=out, op="mul" | "neg" | "abs", args=args):
                ends = {found.get(x.name) for x in args if isinstance(x, Frag)}
                finite = all(isinstance(x, Frag) or isfinite(x) for x in args)
                if finite and len(ends) == 1 and (end := ends.pop()) is not None:
                    found[out.name] = end
    return found


def limits(kernel: Kernel) -> frozenset[str]:
    """The fragments of ``frag.below``, and those that are made of nothing else."""
    found = set[str]()
    for s in walk(kernel.body):
        match s:
            case FragBelow(out=out):
                found.add(out.name)
            case FragColumns(out=out, value=value) | FragRows(out=out, value=value):
                found |= {out.name} if value.name in found else set()
            case FragPointwise(out=out, args=args):
                frags = {x.name for x in args if isinstance(x, Frag)}
                found |= {out.name} if frags and frags <= found else set()
    return frozenset(found)
