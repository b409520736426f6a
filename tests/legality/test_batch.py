"""Batches: what the oracle and the proof say where matrices are counted otherwise."""

from __future__ import annotations

import pytest

from tests.batches import batched
from tests.legality.agreement import outcome
from tests.legality.builder import CTAS, Matmul, P, matmul
from tests.legality.oracle import judge, tile_of, worlds
from tests.legality.parts import Parts
from wsched.fusion import Fusion


def begun(ranks: tuple[int, int] = (3, 3)) -> Matmul:
    m = matmul(batched(ranks=ranks))
    m.tile(64, 32, 32)
    m.order(m.every, "B Mo No")
    return m


def in_shares(m: Matmul, steps: str) -> Fusion:
    """Matrices and tiles in one loop each, the loads' steps in an order of their own."""
    m.merge(m.every, "Mo No", "tile")
    m.steps(steps)
    merged = steps.replace(" ", "·")
    m.split(m.loads, merged, CTAS, "cta step", outer=True)
    m.run(m.loads, "cta", P.BIDx)
    m.stage()
    m.order(m.compute, "B tile")
    m.fragments("tile", 16)
    m.inline("tile")
    return m.s.fusion


def test_worlds_have_matrices() -> None:
    parts = Parts(in_shares(begun(), "B tile k"))
    assert (parts.outer, tile_of(parts.fusion)) == (1, (64, 32, 32))
    assert {w.batch for w in worlds(parts)} == {1, 2, 3, 5}
    assert {w.batch for w in worlds(Parts(matmul().s.fusion))} == {None}


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("ranks", [(3, 3), (3, 2), (2, 3)])
def test_shares_of_steps_of_all_matrices(ranks: tuple[int, int]) -> None:
    m = begun(ranks)
    m.merge(m.every, "B Mo", "Mo")
    said = outcome(in_shares(m, "tile k"))
    assert (said.fault, said.legal, said.ran) == (None, True, True)


def test_a_matrix_behind_its_steps() -> None:
    """The loads bring each slice of K of all matrices, one behind the other."""
    verdict = judge(in_shares(begun(), "tile k B"))
    assert verdict.why is not None and "takes other steps than are filled (B=" in verdict.why
    assert outcome(in_shares(begun(), "tile k B")).refused == "load-order"


def test_matrices_in_threes_the_other_way_round() -> None:
    """The loads bring every third matrix, compute has three neighbours: of up to three the same."""
    m = begun()
    m.merge(m.every, "Mo No", "tile")
    m.order(m.every, "tile B")
    m.run(m.every, "tile", P.BIDx)
    m.split(m.every, "B", 3, "three one")
    m.merge(m.loads, "one three", "B")
    m.steps("B k")
    m.stage()
    m.order(m.compute, "tile three one")
    m.fragments("one", 16)
    m.inline("one")
    verdict = judge(m.s.fusion)
    assert verdict.why is not None and "takes other steps than are filled (B=5" in verdict.why
    assert outcome(m.s.fusion).refused == "load-order"


def parts_of_k(*, twice: bool) -> Fusion:
    """CTAs along y have a matrix in turns; K is in halves along z, for all of the batch or not."""
    m = begun()
    m.split(m.every, "B", 2, "B one")
    m.run(m.every, "one", P.BIDy)
    m.merge(m.every, "Mo No", "cta")
    m.run(m.every, "cta", P.BIDx)
    k = (*m.loads, m.acc)
    m.split(k, "k", 2, "part k", outer=True)
    m.run((m.acc,) if twice else k, "part", P.BIDz)
    m.order(m.loads, "one cta part B k")
    m.steps("part B k" if twice else "B k")
    m.stage()
    m.order(m.compute, "one cta B part")
    m.fragments("B", 16)
    m.inline("B")
    return m.s.fusion


@pytest.mark.slow
def test_matrices_in_pairs_of_ctas() -> None:
    """Who has the second of a pair runs on where there is none, or ends before it."""
    said = outcome(parts_of_k(twice=False))
    assert (said.fault, said.legal, said.ran) == (None, True, True)


def test_each_part_is_loaded_by_all() -> None:
    said = outcome(parts_of_k(twice=True))
    assert not said.legal and said.refused == "load-index"


@pytest.mark.slow
def test_turns_of_rows_of_which_a_cta_may_have_one() -> None:
    """Tiles go in pairs along the matrices, and of an odd one out one warpgroup has all tiles."""
    m = begun()
    m.split(m.every, "B", 2, "B one")
    m.run(m.every, "one", P.BIDy)
    m.order(m.every, "one B Mo No")
    m.merge(m.every, "B Mo", "Mo")
    m.merge(m.every, "Mo No", "tile", traversal=2)
    m.split(m.every, "tile", 2, "it turn")
    m.run(m.compute, "turn", P.TIDz)
    m.order(m.loads, "one it turn k")
    m.steps("it turn k")
    m.split(m.loads, "it·turn·k", CTAS, "cta step", outer=True)
    m.run(m.loads, "cta", P.BIDx)
    m.stage()
    m.order(m.compute, "one it turn")
    m.fragments("turn", 16)
    m.inline("turn")
    said = outcome(m.s.fusion)
    assert (said.fault, said.legal, said.ran) == (None, True, True)
