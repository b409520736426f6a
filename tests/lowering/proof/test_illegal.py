"""Kernels of illegal schedules, lowered past the proof of legality: each is refuted.

Nothing of the schedule is known to the proof of the kernel. What stays out of reach has no kernel:
the rules of the lowering, which give statements, refuse it by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lowering.ground.errors import WschedError
from lowering.ground.expr import Expr
from lowering.proof.obligation import Verdict
from lowering.proof.prove import prove
from tests.legality.illegal import ILLEGAL
from tests.legality.machine import compiled
from wsched.schedule import plan
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.proof import legality
from wsched.schedule.proof.bounds import Guard

NO_KERNEL = {
    "more warpgroups than a CTA has": "are 1152 threads, limit 1024",
    "stream-K, the quarters of all tiles in turns": "serial loops where load steps are dealt out",
    "(e) specialized on TIDx, groups on TIDy": "each of the 2 compute warpgroups would get one",
    "(g) a row loop outside k": "loop row 2 [Serial] of T4 is not supported",
    "(h) a loop on CTAs made serial": "T5: cta of run-time extent %nctaid.x is not supported",
    "(h) loops reordered": "where T8 is not in registers is not supported",
    "(h) a load set to local": "of a part of T6, or of other steps is not supported",
    "(b) ping-pong loaded tile·k·group": "waits for steps of T6, T7 within its turn, and the next",
}
"""What the lowering says of those."""

RIGHT = {"three in turns, each with a third of a CTA's tiles"}
"""Illegal because loads end with the last tile that somebody needs: the kernel, whose loads go on
behind it, as its warpgroups do, is right.
"""


def _extents(graph: TransformGraph, groups: Sequence[Group], guards: Sequence[Guard]) -> list[Expr]:
    """Where load loops end if nobody asks who would need the rest."""
    return [g.extent for g in groups]


@pytest.fixture(autouse=True)
def _unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is refused by what the proof of legality checks."""
    for module in (plan, legality):
        for name in vars(module):
            if name.startswith("check_"):
                monkeypatch.setattr(module, name, lambda *args: ())
    monkeypatch.setattr(legality, "load_stops", _extents)


@pytest.mark.parametrize("name", ILLEGAL)
def test_an_illegal_schedule(name: str) -> None:
    """Its kernel is refuted, or there is none."""
    make, _ = ILLEGAL[name]
    if name in NO_KERNEL:
        with pytest.raises(WschedError) as error:
            compiled(make())
        assert NO_KERNEL[name] in str(error.value)
        return
    found = prove(compiled(make()))
    assert found.proved == (name in RIGHT), str(found)
    assert found.proved or any(o.verdict is Verdict.REFUTED for o in found.open), str(found)
