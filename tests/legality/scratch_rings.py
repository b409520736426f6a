"""Random schedules from nothing with rings of what the epilogue reads."""

from __future__ import annotations

from dataclasses import dataclass

from tests.legality.builder import ON_TIDY
from tests.legality.scratch import TILES, Scratch
from wsched.fusion import CircularBufferType, Pipelined, WarpSpecialized

__all__ = ["Rings"]


@dataclass
class Rings(Scratch):
    """Matrices of the epilogue come in boxes of columns of a tile, or of what nobody would load.

    Args:
        how: who loads the operands.
    """

    how: CircularBufferType = ON_TIDY

    def _loader(self, turns: str) -> WarpSpecialized | Pipelined:
        self.how = ON_TIDY if self.maybe(0.8) else super()._loader(turns)
        return self.how

    def _epilogue(self, last: str, chunk: int) -> None:
        self.m.fragments(last, chunk)
        for tv in self.m.rings:
            self._ring(tv, chunk)
        self._unlike(chunk)
        self.m.inline(last)
        if self.maybe(0.3):
            moved = self.rng.choice(self.m.epilogue[:-1])
            self.m.s.inline_at(moved, self.rng.choice((last, "chunk", "m64")))

    def _ring(self, tv: str, chunk: int) -> None:
        """One serial loop over boxes, mostly those of the tiles' chunks."""
        rng, m, one = self.rng, self.m, (tv,)
        labels = [d.label for d in m.s.tensor(tv).loop]
        steps = [x for x in TILES if x in labels and x not in self.ctas]
        if not steps or self.maybe(0.9):
            columns = chunk if self.maybe(0.8) else rng.choice((8, 16, 32, 64))
            m.split(one, "Ni", columns, "chunk Ni")
            steps.append("chunk")
        if self.maybe(0.15):
            m.split(one, "Mi", 64, "rows Mi")
            steps.insert(len(steps) - rng.randrange(2), "rows")
        if self.maybe(0.06):
            rng.shuffle(steps)
        m.order(one, " ".join([*self.ctas, *steps]))
        m.steps(" ".join(steps), one)
        stages = rng.choice((1, 2, 2, 3, 4))
        how = self.how if self.maybe(0.92) else super()._loader("")
        if isinstance(how, WarpSpecialized) and self.maybe(0.15):
            how = WarpSpecialized(how.on, None, len(self.ctas) + 1 + rng.choice((0, 0, 1)))
        m.fill(one, stages, rng.randrange(stages), how)

    def _unlike(self, chunk: int) -> None:
        """Maybe a tensor of the epilogue in other chunks than the result, or in another order."""
        rng, m = self.rng, self.m
        if not self.maybe(0.2):
            return
        tv = rng.choice(m.epilogue)
        if self.maybe(0.5) and chunk > 8:
            m.split((tv,), "chunk", 2, "twice chunk")
        elif m.s.axis(tv, "m64") >= 0:
            labels = [d.label for d in m.s.tensor(tv).loop]
            m.order((tv,), " ".join([*labels[: labels.index("chunk")], "m64 chunk"]))
