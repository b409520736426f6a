"""Whether draws say enough: how many are legal, and how many refusals the oracle agrees with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.legality.agreement import Outcome

__all__ = ["AGREEING", "ENOUGH", "LEGAL", "Shares"]

LEGAL = 0.25
"""Of the draws that the oracle judges at least so many are legal, or acceptance is hardly tried."""

AGREEING = 0.95
"""Of the proof's refusals that the oracle judges at least so many are of something illegal."""

ENOUGH = 300
"""Draws, and refusals, from which on their share is held to that; of fewer it is chance."""


@dataclass
class Shares:
    """What is counted, over all draws of a run."""

    judged: int = 0
    legal: int = 0
    refused: int = 0
    agreed: int = 0

    def count(self, said: Outcome) -> None:
        """One more draw; where the oracle has no opinion, it is none.

        What the proof leaves to the lowering, for its shape, is no refusal of the proof.
        """
        if said.oracle is not None:
            refused = said.refused is not None
            self.judged += 1
            self.legal += said.legal
            self.refused += refused
            self.agreed += refused and not said.legal

    def lines(self) -> Iterator[str]:
        """Both shares."""
        yield _line("legal", self.legal, self.judged, "draws judged", LEGAL)
        yield _line("agreed with", self.agreed, self.refused, "refusals judged", AGREEING)

    @property
    def too_low(self) -> bool:
        """Whether one of them is too low, of as many as it takes to say so."""
        return any(
            of >= ENOUGH and part < least * of
            for part, of, least in (
                (self.legal, self.judged, LEGAL),
                (self.agreed, self.refused, AGREEING),
            )
        )


def _line(what: str, part: int, of: int, whole: str, least: float) -> str:
    share = f"{part / of:.1%}" if of else "none"
    held = f"at least {least:.0%}" if of >= ENOUGH else f"too few to hold to {least:.0%}"
    return f"{what}: {part} of {of} {whole}, {share} ({held})"
