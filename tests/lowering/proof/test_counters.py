"""Counters and partial sums: what is refuted, or open, where a kernel is not right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.expr import ONE, Expr, Special, Var
from lowering.ground.poly import poly
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.agent import agents
from lowering.proof.counters import _Splits, splits
from lowering.proof.linear import Facts
from lowering.proof.obligation import Verdict
from lowering.proof.prove import prove
from lowering.proof.views import Views
from tests.lowering.proof.test_prove import kernel_of
from tests.on_machine import kernel as compiled
from tests.schedules import cooperative, split_k

READY = "ready[(tile * %nctaid.x + %ctaid.x) * 2 * 2 + group]"
OTHER, BOTH = READY.replace("group", "1 - group"), READY.replace(" + group", "")
NEXT = READY.replace(" * 2 * 2", "")
SLOT = "+ %ctaid.z) * 2 + group], sum"

EDITS = {
    "dynamic": {
        "a ticket is missing": ("n_tiles + %nctaid.x - 1", "n_tiles + %nctaid.x - 2"),
        "the trips are over first": ("entry in 0 .. n_tiles + 1 ", "entry in 0 .. n_tiles "),
    },
    "dynamic_cluster": {"tickets of CTAs": ("+ %nctaid.x // 2 - 1", "+ %nctaid.x - 1")},
    "split_3_traversal": {
        "another counter is raised": (f"atom add, {READY}", f"atom add, {OTHER}"),
        "it is raised by two": (f"{READY}, 1, order", f"{READY}, 2, order"),
        "one for both warpgroups": (READY, BOTH),
        "one with the next CTA": (READY, NEXT),
        "the slots of others": (SLOT, SLOT.replace("group", "1 - group")),
        "one slot of two parts": (SLOT, ") * 2 + group], sum"),
        "fewer are awaited": ("select(completes, 2, 0)", "select(completes, 1, 0)"),
        "two parts wait": ("%ctaid.z == 2", "1 <= %ctaid.z"),
    },
    "stream_k": {
        "told without a release": (", 1, order=release.gpu", ", 1"),
        "set back by who waits for none": ("if 0 < others {", "if 0 <= others {"),
        "set to another number": ("], 0\n", "], 1\n"),
        "told before all have stored": ("sum\n          bar.sync parts_sync[group]\n", "sum\n"),
    },
}  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("schedule", "name"), [(s, n) for s, e in EDITS.items() for n in e])
def test_what_is_not_right(schedule: str, name: str) -> None:
    """Of tickets, of who raises and waits, of slots: a claim that was proved is open."""
    before, after = EDITS[schedule][name]
    text = print_kernel(kernel_of(schedule))
    assert before in text
    found = prove(parse_kernel(text.replace(before, after)))
    assert {o.name for o in found.open} & {"counters", "order of partial sums"}, str(found)


SPLIT = split_k(cooperative(64, 16, 16, stages=3, groups=1, registers=None), 2)


def test_partial_sums_that_are_right() -> None:
    """Of the warps alone that hand them over: the others neither raise a counter nor wait."""
    found = [o for o in prove(compiled(SPLIT).kernel).obligations if o.name == "counters"]
    assert [(o.subject, o.verdict) for o in found] == [("parts", Verdict.PROVED)]


@pytest.mark.parametrize("some", [False, True])
def test_partial_sums_that_nobody_is_known_to_hand_over(some: bool) -> None:
    """Of no agent at all, and of agents whose walks came to no end: nothing is proved by that."""
    kernel = compiled(SPLIT).kernel
    warps = agents(kernel) if some else ()
    (found,) = splits(kernel, warps, Views((), {}, {}, Facts()))
    assert (found.subject, found.verdict) == ("parts", Verdict.UNPROVED)


def test_of_kernels_whose_ctas_share_out_no_k_nothing_is_claimed() -> None:
    plain = cooperative(64, 16, 16, stages=3, groups=1, registers=None)
    assert [*splits(compiled(plain).kernel, (), Views((), {}, {}, Facts()))] == []


X, CTAS, TRIP, Y = Special("ctaid.x"), Special("nctaid.x"), Var("%0"), Special("ctaid.y")


@pytest.mark.parametrize(
    ("places", "looped", "apart"),
    [
        ({(0, 0): X}, False, True),
        ({(0, 0): X}, True, False),
        ({(0, 0): TRIP * CTAS + X}, True, True),
        ({(0, 0): X * 2, (1, 0): X * 2 + 1}, False, True),
        ({(0, 0): X * 2 + 1, (1, 0): X * 2}, False, False),  # it is not told
        ({(0, 0): X, (1, 0): X + 1}, False, False),
        ({(0, 0): X, (1, 0): X}, False, False),
        ({(0, 0): X, (1, 0): CTAS + X}, False, True),
        ({(0, 0): X * 2, (0, 1): X * 2 + 1}, False, True),
        ({(0, 0): X * 3, (0, 1): X * 3 + 1, (0, 2): X * 3 + 2}, False, True),
        ({(0, 0): X * 2, (0, 1): X * 2 + 1, (0, 2): X * 2 + 2}, False, False),
        ({(0, 0): X * 4, (0, 1): X * 4 + 1, (0, 2): X * 4 + 3}, False, False),  # in no steps
        ({(g, n): X * 4 + (2 * g + n) for g in (0, 1) for n in (0, 1)}, False, True),
        ({(g, n): X * 4 + (g + n) for g in (0, 1) for n in (0, 1)}, False, False),
        ({(0, 0): X * 2, (1, 1): X * 2 + 1}, False, False),  # one warpgroup lacks a part
        ({(0, 0): X * 2}, False, True),
    ],
)
def test_places_that_are_apart(
    places: dict[tuple[int, int], Expr], looped: bool, apart: bool
) -> None:
    """For all trips, CTAs, warpgroups and parts, as digits of one number."""
    found = _Splits(compiled(SPLIT).kernel, ONE)
    assert found.distinct({key: poly(at) for key, at in places.items()}, looped) is apart


def test_ctas_along_y_are_a_digit_too() -> None:
    kernel = replace(compiled(SPLIT).kernel, grid_y=Var("B"))
    found = _Splits(kernel, Var("B"))
    assert not found.distinct({(0, 0): poly(X)}, looped=False)
    assert found.distinct({(0, 0): poly(Y * CTAS + X)}, looped=False)
    assert found.distinct({(0, 0): poly((TRIP * Var("B") + Y) * CTAS + X)}, looped=True)
    assert not found.distinct({(0, 0): poly((TRIP + Y) * CTAS + X)}, looped=True)
