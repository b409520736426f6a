"""The proof against the oracle and the machine, schedule by schedule.

A share of what ``python -m tests.legality`` draws. Choices are spread evenly, from a seed that
Hypothesis gives: its own choices would be mostly the first of everything.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowering.proof.obligation import Obligation, Proof
from lowering.proof.obligation import Verdict as Proved
from tests.legality import agreement
from tests.legality.__main__ import KINDS
from tests.legality.agreement import outcome
from tests.legality.builder import CTAS, P, matmul
from tests.legality.draws import (
    draw,
    draw_apart,
    draw_gated,
    draw_loads,
    draw_rings,
    draw_steps,
    draw_stored,
    made,
)
from tests.legality.illegal import ILLEGAL, SOUND, TRIMMED
from tests.legality.oracle import Verdict
from wsched.fusion import Fusion, LoadStoreOpType, WarpSpecialized, history_text

DRAWS = 60


@pytest.mark.slow
@settings(max_examples=DRAWS, deadline=None, derandomize=True)
@given(rng=st.randoms(use_true_random=True))
def test_what_is_accepted_is_legal_and_runs_right(rng: Random) -> None:
    fusion = draw(rng)
    assert outcome(fusion).fault is None, history_text(fusion)


@pytest.mark.slow
@pytest.mark.parametrize("option", KINDS)
@settings(max_examples=DRAWS // 4, deadline=None, derandomize=True)
@given(rng=st.randoms(use_true_random=True))
def test_so_is_what_is_drawn_otherwise(option: str, rng: Random) -> None:
    fusion = KINDS[option][0](rng)
    assert outcome(fusion).fault is None, history_text(fusion)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("drawn", "least"),
    [(draw_steps, 2), (draw_rings, 4), (draw_apart, 4), (draw_loads, 4), (draw_stored, 4)],
)
def test_some_of_these_run(drawn: Callable[[Random], Fusion], least: int) -> None:
    """When this was written, 4, 7, 5, 7 and 9 of these 16; none was refused though legal."""
    said = [outcome(drawn(Random(n))) for n in range(16)]
    assert sum(o.ran for o in said) >= least
    assert sum(o.cautious for o in said) <= 1


@pytest.mark.slow
def test_some_of_these_are_legal_and_some_are_not() -> None:
    """When this was written, 8 of these 16 were legal, and all of them ran."""
    said = [outcome(draw_gated(Random(n))) for n in range(16)]
    legal = [o for o in said if o.legal]
    assert 4 <= len(legal) <= 12
    assert sum(o.ran for o in legal) >= 4
    assert sum(o.cautious for o in legal) <= 1


@pytest.mark.slow
def test_draws_are_legal_often_enough_and_most_of_these_run() -> None:
    """Otherwise the tests above could pass because everything is refused.

    When this was written, 22 of these 30 were legal and 15 of them ran; four had no lowering. The
    proof refused three: one for registers, which the oracle does not count, one for a factor that
    is more than the slices of K in its worlds, and one on CTAs of a cluster.
    """
    said = [outcome(draw(Random(n))) for n in range(DRAWS // 2)]
    judged = [o for o in said if o.oracle is not None]
    legal = [o for o in judged if o.legal]
    assert len(legal) >= len(judged) / 4 >= DRAWS / 16
    assert sum(o.ran for o in legal) >= len(legal) / 3
    assert sum(o.cautious for o in legal) <= 3
    assert sum(o.unsupported for o in legal) <= 4


def test_a_draw_is_made_again_from_its_calls() -> None:
    for n in range(10):
        fusion = draw(Random(n))
        assert made(fusion.history) == fusion


@pytest.mark.sampled
@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_is_refused(name: str) -> None:
    assert outcome(ILLEGAL[name][0]()).refused is not None


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", TRIMMED)
def test_trimmed_is_refused_or_right(name: str) -> None:
    said = outcome(TRIMMED[name]())
    assert said.legal
    assert said.fault is None


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("verdict", "fault", "unproved"),
    [
        (
            Proved.REFUTED,
            "runs right, but is refuted: refuted    arrivals (ring): 3 of 4",
            None,
        ),
        (Proved.UNPROVED, None, ("arrivals",)),
        (Proved.PROVED, None, ()),
    ],
)
def test_the_kernel_is_judged_as_well(
    monkeypatch: pytest.MonkeyPatch, verdict: Proved, fault: str | None, unproved: tuple[str] | None
) -> None:
    """A claim that is refuted is a fault, whatever the machine saw; one that is open is counted."""
    claim = Obligation("arrivals", "ring", verdict, "3 of 4")
    monkeypatch.setattr(agreement, "prove", lambda k, _: Proof(k.name, (claim, claim)))
    said = outcome(draw(Random(1)))
    assert said.legal and said.ran
    assert (said.fault, said.unproved) == (fault, unproved)


def test_a_proof_of_a_kernel_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def forever(*_: object) -> None:
        while True:
            pass

    monkeypatch.setattr(agreement, "prove", forever)
    monkeypatch.setattr(agreement, "SECONDS", 0.05)
    said = outcome(draw(Random(1)))
    assert (said.fault, said.unproved) == (None, ("nothing in 0.05 s",))


def test_a_proof_that_fails_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "prove", lambda *_: 1 // 0)
    said = outcome(draw(Random(1)))
    assert str(said.fault).startswith("runs right, but the kernel's proof fails: ZeroDivisionError")


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ((), "is proved"),
        ((Proved.UNPROVED, Proved.PROVED), "is proved but for arrivals"),
        ((Proved.UNPROVED, Proved.REFUTED), "is refuted: refuted    arrivals (ring): 3 of 4"),
    ],
)
def test_of_a_kernel_that_runs_wrong_the_proof_is_asked_too(
    monkeypatch: pytest.MonkeyPatch, claims: tuple[Proved, ...], says: str
) -> None:
    """One that has all claims proved of a wrong kernel is wrong itself."""
    found = tuple(Obligation("arrivals", "ring", verdict, "3 of 4") for verdict in claims)
    monkeypatch.setattr(agreement, "prove", lambda k, _: Proof(k.name, found))
    monkeypatch.setattr(agreement, "run_wrong", lambda *_: "T5 differs")
    said = outcome(draw(Random(1)))
    assert said.legal and said.fault == f"{says}, but T5 differs"
    assert said.unproved is None


@pytest.mark.slow
def test_nothing_is_loaded_at_k_of_0() -> None:
    """The loads cut all of K in one part: where it is empty, no stage of theirs has a gap."""
    m = matmul()
    m.split(m.loads, "K", 1, "one K", outer=True)
    m.merge(m.loads, "one K", "K")
    m.tile(64, 32, 32)
    m.deal()
    m.steps("tile k")
    m.stage()
    m.fragments("tile", 32)
    m.inline("tile")
    said = outcome(m.s.fusion)
    assert (said.oracle, said.fault, said.ran) == (Verdict(), None, True)


@pytest.mark.slow
def test_a_cluster_of_more_ctas_than_a_problem_has_sms() -> None:
    """Neighbouring rows of tiles on three CTAs, all of which take every step. Threads load B, which
    no CTA loads for others then.
    """
    tma, threads = LoadStoreOpType.CpAsyncBulkTensorTile, LoadStoreOpType.Set
    m = matmul(operands=(tma, threads))
    m.tile(64, 32, 32)
    m.split(m.every, "Mo", 3, "Mo place")
    m.merge(m.every, "Mo No", "tiles")
    m.split(m.every, "tiles", CTAS // 3, "tile cta")
    m.order(m.every, "cta place tile")
    m.merge(m.every, "cta place", "cta")
    m.run(m.every, "cta", P.BIDx)
    m.steps("tile k")
    m.stage(how=WarpSpecialized(P.TIDy, None, 2))
    m.fragments("tile", 32)
    m.inline("tile")
    said = outcome(m.s.fusion)
    assert (said.oracle, said.fault, said.ran) == (Verdict(), None, True)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOUND)
def test_sound_runs(name: str) -> None:
    said = outcome(SOUND[name]())
    assert said.ran
    assert said.fault is None
