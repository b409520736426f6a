"""Places in stages of shared and tensor memory, and what tiles lie there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from lowering.ground.expr import Expr
from lowering.ground.frozen import quick, replaced
from lowering.kernel.operands import SmemRef, TmemRef
from lowering.kernel.tensors import SharedBuffer
from lowering.proof.board import Walker
from lowering.proof.tile import Tile

__all__ = ["Ref", "Spot", "asks"]

Ref = SmemRef | TmemRef


def asks(*refs: object) -> tuple[Expr, ...]:
    """What has to be known of references; nothing of values in registers."""
    return tuple(e for ref in refs if isinstance(ref, Ref) for e in (ref.stage, *ref.coords))


@quick
@dataclass(frozen=True, slots=True)
class Spot:
    """A line and a column of a stage of a buffer in a CTA."""

    cta: int
    buffer: str
    stage: int
    line: int
    col: int

    @staticmethod
    def of(w: Walker, ref: Ref, at: Iterator[int]) -> Spot:
        """Where a reference leads, whose values, those that it :func:`asks` for, come next."""
        stage, *coords = islice(at, 1 + len(ref.coords))  # those of ``asks``
        buffer = w.board.buffers[ref.buffer]
        line = buffer.line(coords) if isinstance(buffer, SharedBuffer) else coords[-2]
        return Spot(w.cta, ref.buffer, stage, line, coords[-1])

    def in_peer(self, w: Walker, rank: int | None) -> Spot:
        """The same of another CTA of the cluster, if one is named."""
        return self if rank is None else replaced(self, cta=w.board.peer(w.cta, rank))

    def beside(self, ctas: int) -> Spot:
        """The same so many CTAs further."""
        return replaced(self, cta=self.cta + ctas)

    def below(self, lines: int) -> Spot:
        """So many lines further."""
        return replaced(self, line=self.line + lines) if lines else self

    def take(self, w: Walker, rows: int, cols: int) -> Tile:
        """What is in so many rows and columns from here on."""
        return self._stage(w, rows, cols).cut(self.line, self.col, rows, cols)

    def put(self, w: Walker, tile: Tile) -> None:
        """Put something there."""
        stage = self._stage(w, tile.rows, tile.cols).put(self.line, self.col, tile)
        w.board.flow.stages[self.cta, self.buffer, self.stage] = stage

    def _stage(self, w: Walker, rows: int, cols: int) -> Tile:
        """The stage, of which so many rows and columns are touched."""
        w.board.touch(self.buffer, self.stage, (self.line, rows), (self.col, cols))
        found = w.board.flow.stages.get((self.cta, self.buffer, self.stage))
        return Tile(*w.board.shape(self.buffer)) if found is None else found
