"""Random schedules from nothing: the choices that a person makes, and some that nobody would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Const, Expr, Special
from tests.legality.builder import Matmul, P
from wsched.fusion import Fusion, ParallelType, Pipelined, WarpSpecialized

__all__ = ["CTAS", "TILES", "Scratch", "from_nothing"]

CTAS = Special("nctaid.x")
_TRIES = 50

TILES = ("B", "tile", "Mo", "No", "to", "ti", "it", "turn")
"""Loops that say which tile, slowest first, as far as a schedule has them."""


def from_nothing(begin: Callable[[], Scratch]) -> Fusion:
    """A schedule whose sides are tiled alike, and part somewhere.

    Args:
        begin: makes one with nothing chosen; what is refused is begun again.
    """
    for _ in range(_TRIES):
        try:
            return begin().fusion()
        except ScheduleError:
            continue
    return begin().m.s.fusion


@dataclass
class Scratch:
    """A schedule in the making.

    Args:
        rng: chooses.
        m: what is scheduled.
        ctas: loops on CTAs, outside of all others.
        rows, columns: of a tile.
        parts_of_k: how often CTAs have parts of K.
    """

    rng: Random
    m: Matmul
    ctas: tuple[str, ...] = ()
    rows: int = 64
    columns: int = 64
    parts_of_k: float = 0.15

    def maybe(self, chance: float) -> bool:
        """True as often as ``chance`` says."""
        return self.rng.random() < chance

    def fusion(self) -> Fusion:
        """The schedule.

        Raises:
            ScheduleError: a primitive refuses a call.
        """
        rng, m = self.rng, self.m
        self.rows, self.columns = self._size()
        m.tile(self.rows, self.columns, rng.choice((16, 32)))
        tiles = self._tiles()
        tiles = self._levels(tiles)
        roles, turns = self._roles(tiles)
        part = self._parts_of_k()
        k = self._k()
        self._loads("turn" if turns else "", part, k)
        tiles = [*tiles, *turns]
        m.order(m.compute, " ".join([*self.ctas, *tiles, *roles, *part]))
        last = ([*self.ctas, *tiles, *roles])[-1]
        self._epilogue(last, rng.choice((16, 32, self.columns // (2 if "column" in roles else 1))))
        return m.s.fusion

    def _size(self) -> tuple[int, int]:
        """Rows and columns of a tile."""
        return self.rng.choice((64, 64, 128, 128)), self.rng.choice((32, 64))

    def _epilogue(self, last: str, chunk: int) -> None:
        """The sums in wgmmas, what follows in chunks of columns, all inside loop ``last``."""
        self.m.fragments(last, chunk)
        self.m.inline(last)

    def _tiles(self) -> list[str]:
        """Loops over tiles and CTAs; the labels of the serial ones."""
        rng, m = self.rng, self.m
        kind = rng.choice(["dealt", "dealt", "dealt", "dealt", "one", "rows", "columns"])
        if kind in ("rows", "columns"):
            cta, tile = ("Mo", "No") if kind == "columns" else ("No", "Mo")
            m.run(m.every, cta, P.BIDx)
            m.order(m.every, f"{cta} {tile}")
            self.ctas = (cta,)
            return [tile]
        axes = rng.choice(("Mo No", "No Mo"))
        m.merge(m.every, axes, "tiles", rng.choice((0, 0, 0, 2, 3)))
        if kind == "one":
            m.run(m.every, "tiles", P.BIDx)
            self.ctas = ("tiles",)
            return []
        outer = self.maybe(0.25)
        labels = "cta tile" if outer else "tile cta"
        number, at_run_time = self._number_of_ctas(), not outer and self.maybe(0.1)
        m.split(m.every, "tiles", number, labels, outer=outer, dynamic=at_run_time)
        m.order(m.every, "cta tile")
        m.run(m.every, "cta", P.BIDx)
        self.ctas = ("cta",)
        return ["tile"]

    def _number_of_ctas(self) -> Expr:
        usual = self.maybe(0.85)
        return CTAS if usual else self.rng.choice((Const(2), Const(3), CTAS * 2, CTAS * 3))

    def _levels(self, tiles: list[str]) -> list[str]:
        """Maybe the tile loop in two, on both sides or one."""
        if not tiles or not self.maybe(0.25):
            return tiles
        who = self.rng.choice((self.m.every, self.m.every, self.m.compute, self.m.loads))
        factor, outer = self.rng.choice((2, 3)), self.maybe(0.3)
        self.m.split(who, tiles[0], factor, "to ti", outer=outer)
        if who == self.m.loads:
            self.m.merge(who, "to ti", tiles[0])
            return tiles
        if who == self.m.every:
            self.m.merge(self.m.loads, self.rng.choice(("to ti", "to ti", "to ti", "ti to")), "ti")
        return ["to", "ti"]

    def _roles(self, tiles: list[str]) -> tuple[list[str], list[str]]:
        """Warpgroups: loops that share a tile, and those that take turns with tiles."""
        m, roles, turns = self.m, list[str](), list[str]()
        axes = self.rng.sample((P.TIDy, P.TIDy, P.TIDz), 3)
        axis = axes.pop()
        if tiles and self.maybe(0.35):
            turns = ["turn"]
            count = self.rng.choice((2, 2, 2, 3, 4))
            who = m.every if self.maybe(0.8) else m.compute
            outer = self.maybe(0.15)
            m.split(who, tiles[-1], count, "turn it" if outer else "it turn", outer=outer)
            tiles[-1] = "it"
            m.run(m.compute, "turn", axis)
            axis = P.TIDz if axis is P.TIDy else P.TIDy
            if count == 4 and self.maybe(0.6):
                m.split(m.compute, "turn", 2, "slow turn")
                m.run(m.compute, "slow", axis)
                return roles, ["slow", "turn"]
        if self.rows > 64 and self.maybe(0.6):
            m.split(m.compute, "Mi", 64, "row Mi")
            m.run(m.compute, "row", axis)
            roles.append("row")
            axis = P.TIDz if axis is P.TIDy else P.TIDy
        if len(roles) + bool(turns) < 2 and self.maybe(0.2):
            m.split(m.compute, "Ni", self.columns // 2, "column Ni")
            m.run(m.compute, "column", axis)
            roles.append("column")
        return roles, turns

    def _parts_of_k(self) -> list[str]:
        """Maybe split-K: neighbouring slices for each part, or every so many."""
        if not self.maybe(self.parts_of_k):
            return []
        outer = self.maybe(0.5)
        k = (*self.m.loads, *self.m.sums)
        self.m.split(k, "k", 2, "part k" if outer else "k part", outer=outer)
        self.m.run(k, "part", P.BIDz)
        return ["part"]

    def _k(self) -> str:
        """Maybe k in two levels, on both sides or one; the loads' loops over k."""
        if not self.maybe(0.3):
            return "k"
        m, who = self.m, self.rng.choice(["load", "compute", "both"])
        factor, outer = self.rng.choice((2, 3)), self.maybe(0.3)
        if who != "load":
            m.split(m.sums, "k", factor, "ko ki", outer=outer)
        if who == "compute":
            return "k"
        m.split(m.loads, "k", factor, "ko ki", outer=outer)
        return "ko ki" if self.maybe(0.9) else "ki ko"

    def _loads(self, turns: str, part: list[str], k: str) -> None:
        """The loads' one loop, mostly in the order of the compute side."""
        rng, m = self.rng, self.m
        labels = [d.label for d in m.s.tensor(m.loads[0]).loop]
        order = [x for x in TILES if x in labels and x not in self.ctas]
        if turns and "it" in order and self.maybe(0.1):
            order = [x for x in order if x != "turn"] + ["turn"] * ("turn" in order)
            order.insert(len(order), order.pop(rng.randrange(len(order))))
        steps = [*order, *k.split()]
        if self.maybe(0.06):
            rng.shuffle(steps)
        m.order(m.loads, " ".join([*self.ctas, *part, *steps]))
        merged = steps[0]
        for x in steps[1:]:
            m.merge(m.loads, f"{merged} {x}", f"{merged}·{x}")
            merged = f"{merged}·{x}"
        self._deal(merged)
        stages = self._stages()
        least = min(1, stages - 1)
        m.stage(stages, rng.randrange(least, stages), self._loader(turns))

    def _stages(self) -> int:
        return self.rng.choice((2, 3, 4))

    def _deal(self, steps: str) -> None:
        """What becomes of the loop over all load steps of a CTA."""

    def _loader(self, turns: str) -> WarpSpecialized | Pipelined:
        if self.maybe(0.05 if turns else 0.15):
            return Pipelined()
        usual: tuple[ParallelType, ...] = (P.TIDy,) * 8 + (P.TIDz, P.TIDx)
        return WarpSpecialized(self.rng.choice(usual))
