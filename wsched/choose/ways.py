"""Schedules that are priced before they are made: most of them are never taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lowering.ground.frozen import quick
from wsched.choose.cost import Cost
from wsched.choose.cost_model import Terms, Tiled, priced
from wsched.choose.launch import Launch
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["Way", "fastest", "ways"]


@quick
@dataclass(frozen=True, slots=True)
class Way:
    """A schedule that is priced, and made where it is asked for.

    Args:
        tiled: what it shares with others.
        launch: what it does not.
        terms: what its time is made of.
        cost: what it costs.
    """

    tiled: Tiled
    launch: Launch
    terms: Terms
    cost: Cost

    @property
    def params(self) -> MatmulParams:
        """The schedule."""
        return self.launch.given_to(self.tiled.params)


def ways(tiles: Iterable[Tiled], launches: Sequence[Launch]) -> list[Way]:
    """Each of the tiles, launched in each of these ways."""
    found = ((t, launch, t.terms(launch)) for t in tiles for launch in launches)
    return [Way(t, launch, terms, priced(terms)) for t, launch, terms in found]


def fastest(found: Iterable[Way]) -> Way:
    """That with the least cost; of equals the first."""
    return min(found, key=lambda way: way.cost.by_laws)
