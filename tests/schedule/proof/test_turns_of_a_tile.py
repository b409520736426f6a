"""Rings of one epilogue that warpgroups take unlike: all of a tile, in runs, one by one."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.epilogues import epilogue
from tests.legality.agreement import outcome
from tests.legality.builder import ON_TIDY, Matmul, P, matmul
from tests.schedule.proof.test_tile_steps import TWO
from wsched.fusion import Fusion

THREE = epilogue("r: [-1, -1]", "q: [-1, -1]", "p: [-1, -1]", "s = fd.ops.mul(y, r)",
                 "t = fd.ops.add(s, q)", "u = fd.ops.mul(t, p)",
                 "d = fd.ops.cast(u, dtype=DataType.BFloat16)")  # fmt: skip


@dataclass(frozen=True)
class Brought:
    """A ring of the epilogue.

    Args:
        own: the loops of which a warpgroup takes its own steps, of what is shared on them.
        stages: of the ring.
        chunk: columns of a step; 0 for all that there are.
    """

    own: str = ""
    stages: int = 1
    chunk: int = 0


SHARED = {"row": ("Mi", 64), "column": ("Ni", 16)}
ROW, RUN, ONE = "row", "column", "column row"


def scheduled(m: Matmul, tile: str, shared: str, brought: list[Brought]) -> Fusion:
    """What is left of a schedule whose loops over tiles and shares are there."""
    m.steps(f"{tile} k")
    m.stage()
    m.order(m.compute, f"cta {tile} {shared}")
    for tv, ring in zip(m.rings, brought, strict=True):
        steps = [*tile.split(), *ring.own.split()]
        for label in ring.own.split():
            of, size = SHARED[label]
            m.split((tv,), of, size, f"{label} {of}")
        if ring.chunk:
            m.split((tv,), "Ni", ring.chunk, "chunk Ni")
            steps.append("chunk")
        m.order((tv,), " ".join(["cta", *steps]))
        m.steps(" ".join(steps), (tv,))
        m.fill((tv,), ring.stages, 0, ON_TIDY)
    m.fragments(shared.split()[-1], min(r.chunk or 16 for r in brought))
    m.inline(shared.split()[-1])
    return m.s.fusion


def in_turns(text: str, *brought: Brought, dynamic: bool = False) -> Fusion:
    """Two pairs of warpgroups take turns; each has half of the rows of its tile."""
    m = matmul(text, ring=True)
    m.tile(128, 32, 32)
    m.deal(dynamic=dynamic)
    m.split(m.every, "tile", 2, "tile turn")
    m.run(m.compute, "turn", P.TIDz)
    m.share("Mi", 64, "row", P.TIDy)
    return scheduled(m, "tile turn", "row", list(brought))


def in_runs(*brought: Brought) -> Fusion:
    """Four warpgroups have half of the rows and columns of a tile each."""
    m = matmul(TWO, ring=True)
    m.tile(128, 32, 32)
    m.deal()
    m.share("Mi", 64, "row", P.TIDy)
    m.share("Ni", 16, "column", P.TIDz)
    return scheduled(m, "tile", "column row", list(brought))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second", "dynamic"),
    [
        (Brought(ROW), Brought(), False),
        pytest.param(Brought(), Brought(ROW), True, marks=pytest.mark.slow),
        pytest.param(Brought(ROW, 1, 8), Brought("", 4, 8), False, marks=pytest.mark.slow),
        pytest.param(Brought(ROW, 1, 8), Brought("", 4, 8), True, marks=pytest.mark.slow),
        pytest.param(Brought("", 4, 8), Brought(ROW), False, marks=pytest.mark.slow),
        pytest.param(Brought(ROW), Brought("", 4, 8), True, marks=pytest.mark.slow),
    ],
)
def test_one_ring_is_dealt_out_and_one_is_not(
    first: Brought, second: Brought, dynamic: bool
) -> None:
    """A warpgroup has turns of its own with the one, a pair has one with the other, in the same
    loop or not; a step of the one may be held around all that are taken of the other.
    """
    said = outcome(in_turns(TWO, first, second, dynamic=dynamic))
    assert (said.fault, said.why, said.legal) == (None, "", True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "brought",
    [
        (Brought(ROW), Brought("", 2, 16), Brought(ROW)),
        (Brought(ROW, 2), Brought("", 1, 8), Brought(ROW, 2)),
    ],
)
def test_what_all_take_is_beside_two_that_are_dealt_out(brought: tuple[Brought, ...]) -> None:
    """Where all go through its chunks with one stage, nobody goes through them in a turn."""
    said = outcome(in_turns(THREE, *brought))
    assert (said.fault, said.why, said.legal) == (None, "", True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Brought(RUN, 4, 8), Brought(ONE)),
        pytest.param(Brought(ONE), Brought(RUN, 4, 8), marks=pytest.mark.slow),
        pytest.param(Brought(RUN, 1, 8), Brought(ONE, 2), marks=pytest.mark.slow),
    ],
)
def test_runs_and_single_warpgroups(first: Brought, second: Brought) -> None:
    """Both warpgroups of a run meet where their turn begins, in front of those that each has: the
    second one's step comes when the first one, which holds one, has gone through the run's chunks.
    """
    said = outcome(in_runs(first, second))
    assert (said.fault, said.why, said.legal) == (None, "", True)


def test_who_is_ahead_in_a_run_needs_stages() -> None:
    """It is legal with one: who is ahead by a step waits, and then the other one is."""
    said = outcome(in_runs(Brought(RUN, 1, 8), Brought(ONE, 1, 8)))
    assert (said.refused, said.fault, said.legal, said.unsupported) == (None, None, True, True)
    assert "within its turn, and the next one holds those" in said.why
    assert "supported: at least 2 stages of T16" in said.why
