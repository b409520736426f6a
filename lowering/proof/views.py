"""The programs of all agents as events of some kind see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lowering.proof.agent import Agent
from lowering.proof.linear import Facts
from lowering.proof.rings import Ring
from lowering.proof.shape import Event, Shape, Shaper
from lowering.proof.state import Walked
from lowering.proof.steps import Steps

__all__ = ["Views"]


@dataclass(frozen=True, slots=True)
class Views:
    """What shapes are made of: the rings of a kernel, the walks and places of its agents."""

    rings: tuple[Ring, ...]
    ways: Mapping[Agent, Walked]
    steps: Mapping[Agent, Steps]
    facts: Facts

    def shape(self, agent: Agent, event: Event) -> Shape:
        """An agent's program as the statements see it that ``event`` has a word for."""
        known = self.facts.natural | self.facts.defined.keys()
        way, steps = self.ways[agent], self.steps[agent]
        return Shaper(agent, steps, event, way, self.rings, known).whole()
