"""Same steps, however they are counted: what is proved of right kernels, and not of wrong ones."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lowering.ground.expr import (
    Binary,
    Const,
    Expr,
    Var,
    as_expr,
    ceildiv,
    maximum,
    minimum,
    select,
)
from lowering.ground.poly import Poly, poly
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.linear import Facts
from lowering.proof.meet import Meetings
from lowering.proof.prove import prove
from lowering.proof.uneven import Gaps, uneven
from lowering.proof.views import Views
from lowering.proof.words import ended_behind, ended_for, reads_of
from tests.legality.by_hand.parts import (
    epilogue_in_blocks,
    epilogue_in_blocks_of_a_queue,
    epilogue_in_turns_of_a_queue,
)
from tests.legality.by_hand.steps import steps_of_k_in_threes
from tests.legality.machine import compiled
from tests.lowering.proof.test_prove import kernel_of
from tests.proofs import proved

EDITS = {
    "a step more is loaded ahead": (
        "pipelined", "for first in 0 .. min(2, ", "for first in 0 .. min(3, ",
    ),
    "one tile too many is loaded": (
        "pipelined", "if tile2_ahead4 < tiles {", "if tile2_ahead4 <= tiles {",
    ),
    "the last tile is not loaded": (
        "pipelined", "if tile2_ahead4 < tiles {", "if tile2_ahead4 < tiles - 1 {",
    ),
    "a digit begins again too late": ("pipelined", "n_k <= next2", "n_k + 1 <= next2"),
    "a digit is not carried": (
        "pipelined", "tile2_ahead4 + select(wraps2, 1, 0)", "tile2_ahead4 + select(wraps2, 0, 0)",
    ),
    "the first end is nobody's turn": (
        "dynamic_pingpong", "if dealt == n_tiles {", "if dealt == n_tiles + 1 {",
    ),
    "two ends are alike": ("dynamic_pingpong", "0], n_tiles + 1\n", "0], n_tiles\n"),
    "nobody has the first turn": ("dynamic_pingpong", "bar.arrive order[0]\n", "\n"),
    "a team begins a tile late": (
        "stream_k_pingpong", "begin: i32 = max(start, (first + group) * n_k)",
        "begin: i32 = max(start, (first + group + 1) * n_k)",
    ),
    "a team's next tile begins early": (
        "stream_k_pingpong", "yield sum, end + n_k,", "yield sum, end,",
    ),
    "a team's tile is too long": (
        "stream_k_pingpong", "let end: i32 = min(load_stop, (at + 1) * n_k)",
        "let end: i32 = min(load_stop, (at + 2) * n_k)",
    ),
}  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", EDITS)
def test_other_steps_are_not_the_same(name: str) -> None:
    """An edit of the loops that count: a claim that was proved is open."""
    schedule, before, after = EDITS[name]
    text = print_kernel(kernel_of(schedule))
    assert before in text
    found = prove(parse_kernel(text.replace(before, after)))
    wanted = {"same steps", "named barriers", "step", "arrivals"}
    assert {o.name for o in found.open} & wanted, str(found)


BLOCKS = {
    "a block of the other group's": ("stage_chunk2 + 2", "stage_chunk2 + 1"),
    "a block of the next one's": ("stage_chunk2 + 2", "stage_chunk2 + 3"),
    "both begin with the same": ("first_stage: i32 = group2", "first_stage: i32 = 0"),
    "not all of a tile": ("chunk2 in 0 .. 4", "chunk2 in 0 .. 3"),
    "more than a tile has": ("chunk2 in 0 .. 4", "chunk2 in 0 .. 5"),
    "a turn more than there are": ("tile2 + 1 < tiles", "tile2 < tiles"),
    "no turn behind a tile": ("tile2 + 1 < tiles or chunk2 + 1 < 4", "chunk2 + 1 < 4"),
    "no first turn": ("group2 == 1 and 0 < tiles", "group2 == 1 and 1 < tiles"),
}


def blocks() -> str:
    """A kernel in which groups take the blocks of a tile in turn, in a loop of four trips."""
    return print_kernel(compiled(epilogue_in_blocks()))


def test_steps_that_are_dealt_out_within_a_tile() -> None:
    """Steps are left out behind the trips of the inner one of two loops, and turns handed on."""
    proved(parse_kernel(blocks()))


@pytest.mark.parametrize("name", BLOCKS)
def test_other_steps_of_a_tile_are_not_dealt_out(name: str) -> None:
    before, after = BLOCKS[name]
    text = blocks()
    assert text.count(before) == 1
    wrong = text.replace(before, after)
    found = prove(parse_kernel(wrong))
    assert {o.name for o in found.open} & {"same steps", "step", "named barriers"}, str(found)


QUEUES = {"turns": epilogue_in_turns_of_a_queue, "blocks": epilogue_in_blocks_of_a_queue}
"""Groups that share the tiles of a queue, one step of a tile each, or four."""

STEPS_OF_A_WORD = {
    "turns": {
        "a step of the other group's": ("stage_tile22 + 2", "stage_tile22 + 1"),
        "a step of the next one's": ("stage_tile22 + 2", "stage_tile22 + 3"),
        "three steps of a tile": ("m64 in 0 .. 2", "m64 in 0 .. 3"),
        "one step of a tile": ("m64 in 0 .. 2", "m64 in 0 .. 1"),
    },
    "blocks": {
        "a block of the other group's": ("stage_chunk2 + 2", "stage_chunk2 + 1"),
        "a block of the next one's": ("stage_chunk2 + 2", "stage_chunk2 + 3"),
        "not all of a tile": ("chunk2 in 0 .. 4", "chunk2 in 0 .. 3"),
        "more than a tile has": ("chunk2 in 0 .. 4", "chunk2 in 0 .. 5"),
        "as many as trips before": ("chunk2 in 0 .. 4", "chunk2 in 0 .. min(tile2, 4)"),
        "as many as the word says": ("chunk2 in 0 .. 4", "chunk2 in 0 .. min(dealt2, 4)"),
    },
}
"""What is wrong with the steps of one of these, in words that are all right."""

WORDS = {
    "both begin with the same": ("first_stage: i32 = group2", "first_stage: i32 = 0"),
    "the second group is left a turn": ("group2 % 2 == 0", "group2 % 2 == 1"),
    "both are left a turn": (" and group2 % 2 == 0", ""),
    "nobody is left a turn": ("if dealt2 == n_tiles and", "if dealt2 == n_tiles + 1 and"),
    "a turn is left in front of the end": ("if dealt2 == n_tiles and", "if dealt2 == 0 and"),
    "the first turn is the second group's": (
        "if group2 == 1 {\n        bar.arrive order[0]",
        "if group2 == 0 {\n        bar.arrive order[1]",
    ),
    "a first turn if there is a tile": ("if group2 == 1 {", "if group2 == 1 and 0 < n_tiles {"),
    "two first turns": ("if group2 == 1 {", "if group2 <= 1 {"),
    "no first turn": ("bar.arrive order[0]\n", "\n"),
    "a turn is handed on to oneself": ("bar.arrive order[1 - group2]", "bar.arrive order[group2]"),
    "words end a tile early": ("break n_tiles <= dealt2", "break n_tiles - 1 <= dealt2"),
    "words end a tile late": ("break n_tiles <= dealt2", "break n_tiles + 1 <= dealt2"),
    "trips end in front of the words": ("tile2 in 0 .. n_tiles + 1", "tile2 in 0 .. n_tiles"),
    "the end is larger": ("min(ticket, n_tiles)", "min(ticket, n_tiles + 1)"),
    "the end is any number": ("min(ticket, n_tiles)", "ticket"),
    "the word of another step": ("dealt2: i32 = ld.word queue_tile[stage",
                                 "dealt2: i32 = ld.word queue_tile[1 - stage"),
}  # fmt: skip
"""What is wrong with either of them."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", QUEUES)
def test_steps_that_are_dealt_out_within_a_word(name: str) -> None:
    """Groups load the same words of a queue, and take turns with the steps of each."""
    proved(compiled(QUEUES[name]()))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "fault"), [(n, f) for n in QUEUES for f in (*STEPS_OF_A_WORD[n], *WORDS)]
)
def test_other_steps_of_a_word_are_not_dealt_out(name: str, fault: str) -> None:
    before, after = {**STEPS_OF_A_WORD[name], **WORDS}[fault]
    text = print_kernel(compiled(QUEUES[name]()))
    assert text.count(before) == 1
    found = prove(parse_kernel(text.replace(before, after)))
    assert {o.name for o in found.open} & {"same steps", "step", "named barriers", "read"}, str(
        found
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", QUEUES)
def test_a_turn_that_is_handed_on_before_it_has_come(name: str) -> None:
    """There are as many arrivals as syncs of each turn, and still somebody waits for ever: both
    begin with an arrival.
    """
    text = print_kernel(compiled(QUEUES[name]()))
    front, hand, behind = text.partition("bar.arrive order[1 - group2]\n")
    before, turn, waits = front.rpartition("bar.sync order[group2]\n")
    swapped = "".join((before, hand, turn, waits, behind))
    assert hand
    assert turn
    found = prove(parse_kernel(swapped))
    assert {o.name for o in found.open} == {"circles of waits", "named barriers"}, str(found)


def of_words(word: str, event: str, *loops: Expr, synced: bool = False) -> tuple[object, ...]:
    """A program with an event for each word in front of the end, in loops of so many trips."""
    end, inner = Var("tiles"), (event,)
    for stop in reversed(loops):
        inner = (("loop", Const(0), stop, Const(1), (), inner),)
    front = (("if", Var(word).eq(end), ("sync",), ()),) if synced else ()
    until = ("break", Binary("<=", end, Var(word)))
    return (("loop", Const(0), end + 1, Const(1), (), (*front, until, *inner)),)


@pytest.mark.parametrize(
    ("theirs", "inner", "others", "synced", "right"),
    [
        ("%word q[0] of %0", [], [], False, True),
        ("%word q[0] of %0", [Var("n_k"), Const(2)], [Var("n_k"), Const(2)], False, True),
        ("%word q[0] of %0", [Var("n_k")], [Const(2)], False, False),
        ("%word q[0] of %0", [Var("%0")], [Var("%0")], False, False),
        ("%word q[0] of %0", [], [], True, False),
        ("%word q[1] of %0", [], [], False, False),
        ("%word r[0] of %0", [], [], False, False),
        ("%word q[0] of %0 as 1 of 2", [], [], False, False),
        ("q of role epilogue, warp 4", [], [], False, False),
    ],
)
def test_turns_within_a_word(
    theirs: str, inner: list[Expr], others: list[Expr], synced: bool, right: bool
) -> None:
    """As many for each word, of the same words, whoever is left a turn at the end."""
    meetings = Meetings(kernel_of("coop_128x64"), Views((), {}, {}, FACTS))
    meeting = of_words("%word q[0] of %0", "sync", *inner, synced=synced)
    why, first = meetings.turn(meeting, of_words(theirs, "arrive", *others))
    assert (not why, first) == ((True, 0) if right else (False, None)), why


@pytest.mark.parametrize(
    ("theirs", "inner", "first", "right"),
    [
        ("%word q[0] of %0 as 1 of 2", (), True, True),
        ("%word q[0] of %0 as 1 of 2", (), False, False),
        ("%word q[0] of %0 as 1 of 2", (Const(2),), True, False),
        ("%word q[1] of %0 as 1 of 2", (), True, False),
        ("%word q[0] of %0 as 0 of 2", (), True, False),
        ("%word q[0] of %0 as 1 of 3", (), True, False),
    ],
)
def test_turns_of_words_in_turn(
    theirs: str, inner: tuple[Expr, ...], first: bool, right: bool
) -> None:
    """One for each word of the team before, and one more; where the end is, is another question."""
    meetings = Meetings(kernel_of("coop_128x64"), Views((), {}, {}, FACTS))
    mine = of_words("%word q[0] of %0 as 0 of 2", "sync", *inner, synced=True)
    arriving = of_words(theirs, "arrive", *inner)
    why, _ = meetings.turn(mine, ("arrive", *arriving) if first else arriving)
    assert (not why) is right, why


SHARES = {
    "ends where the share before begins": ("stop", "place + 1", "place - 1"),
    "begins behind its end": ("start", "place *", "(place + 2) *"),
    "ends as k is in pairs": ("stop", "n_three * 3", "n_three * 2"),
    "begins as k is in pairs": ("start", "n_three * 3", "n_three * 2"),
    "ends as shares are shorter": ("stop", "* share", "* (share - 1)"),
    "ends in front of the last step": ("stop", ", steps)", ", steps - 1)"),
    "begins behind the last step": ("start", ", steps)", ", steps + 1)"),
    "has one tile more": ("tiles", "- first", "- first + 1"),
    "has tiles of the steps that are counted": ("per_tile", "max(n_k, 1)", "max(n_three * 3, 1)"),
    "begins a tile late": ("begin", "first + group", "first + group + 1"),
    "has tiles that are too long": ("end", "(at + 1) * n_k", "(at + 2) * n_k"),
    "leaves out the steps that are counted": ("skip_stage", "n_k % 4", "n_three * 3 % 4"),
}
"""What is wrong with a share: a name, and its value."""


@pytest.mark.slow
def test_shares_of_steps_that_are_counted_otherwise() -> None:
    """Of the places that the loads count some are no step; two groups take turns with tiles."""
    proved(compiled(steps_of_k_in_threes()))


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARES)
def test_shares_that_are_none(name: str) -> None:
    what, before, after = SHARES[name]
    text = print_kernel(compiled(steps_of_k_in_threes()))
    value = next(re.finditer(rf"\b{what}: i32 = (.*?) ?(->|\n)", text))[1]
    assert before in value
    wrong = text.replace(f"{what}: i32 = {value}", f"{what}: i32 = {value.replace(before, after)}")
    found = prove(parse_kernel(wrong))
    assert {o.name for o in found.open} & {"same steps", "step"}, str(found)


TILES, STEPS, FIRST = Var("tiles"), Var("n_k"), Var("first")
TRIP, BEGIN = Var("%0"), Var("%0.0")
FACTS = Facts(
    natural=frozenset({"n_k", "from", "stop"}),
    defined={
        "per_tile": maximum(STEPS, 1),
        "first": Var("from") // Var("per_tile"),
        "tiles": ceildiv(Var("stop"), Var("per_tile")) - FIRST,
        "load_stop": select(as_expr(0) < STEPS, Var("stop"), Var("from")),
    },
) + (poly(Var("stop")) - poly(Var("from")),)


def spans(trips: Expr, init: Expr, following: Expr, end: Expr) -> tuple[object, ...]:
    """A program of spans as waits see it."""
    inner = ("loop", BEGIN, end, Const(1), (), ("wait",))
    return (("loop", Const(0), trips, Const(1), ((init, following),), (inner,)),)


def end_of(trip: Expr) -> Expr:
    return minimum(Var("load_stop"), (FIRST + trip + 1) * STEPS)


@pytest.mark.parametrize("wrong", ["", "begin", "skip", "late", "end"])
@pytest.mark.parametrize("team", [0, 1, 2])
def test_spans_of_a_team(team: int, wrong: str) -> None:
    """Every third tile of an interval, by any three teams; each number has to be right."""
    whole = spans(TILES, Var("from"), end_of(TRIP), end_of(TRIP))
    init = maximum(Var("from"), (FIRST + team + (wrong == "begin")) * STEPS)
    end = end_of(TRIP * 3 + team + (wrong == "end"))
    part = spans(ceildiv(maximum(TILES - team, 0), 3), init, end + STEPS * 2, end)
    late = init - Var("from") + (wrong == "late")
    gaps = Gaps(poly(late), poly(STEPS * (3 if wrong == "skip" else 2)), 8)
    assert uneven(whole, part, team, 3, gaps, FACTS) is not bool(wrong)
    if not wrong:
        assert not uneven(whole, part, team, 2, gaps, FACTS)
        assert not uneven(whole, part, (team + 1) % 3, 3, gaps, FACTS)
        assert not uneven(whole, part, team, 3, Gaps(Poly(()), gaps.skips, 8), FACTS) or team == 0


@pytest.mark.parametrize("form", ["as it is", "another begin", "several first begins"])
@pytest.mark.parametrize("of", ["whole", "part"])
def test_spans_of_other_forms_are_not_known(form: str, of: str) -> None:
    """Trips that begin elsewhere than where those before ended; a first begin that is no number."""
    whole = spans(TILES, Var("from"), end_of(TRIP), end_of(TRIP))
    end = end_of(TRIP * 3 + 1)
    init = maximum(Var("from"), (FIRST + 1) * STEPS)
    part = spans(ceildiv(maximum(TILES - 1, 0), 3), init, end + STEPS * 2, end)
    gaps = Gaps(poly(init - Var("from")), poly(STEPS * 2), 8)

    def changed(shape: tuple[Any, ...]) -> tuple[Any, ...]:
        ((kind, start, trips, by, ((first, after),), ((inner, begin, *rest),)),) = shape
        begin = Var("from") if form == "another begin" else begin
        first = (first,) if form == "several first begins" else first
        return ((kind, start, trips, by, ((first, after),), ((inner, begin, *rest),)),)

    both = (changed(whole), part) if of == "whole" else (whole, changed(part))
    assert uneven(*both, 1, 3, gaps, FACTS) is (form == "as it is")


def test_an_end_for_each_team() -> None:
    """In a condition that is that of the end, of nothing but waits."""
    last = Binary("<=", TILES, Var("%word q[0] of %0"))

    def reads(cond: object, more: tuple[object, ...]) -> tuple[object, ...]:
        inner = ("wait", ("if", cond, more, ()), ("break", last))
        return (("loop", Const(0), STEPS, Const(1), (), inner),)

    alone = (("loop", Const(0), STEPS, Const(1), (), ("wait", ("break", last))),)
    assert ended_for(reads(last, ("wait", "wait"))) == (alone, 3)
    for other in (
        reads(last, ("wait", "meet")), reads(Var("p"), ("wait",)), reads(last, ()), alone,
    ):  # fmt: skip
        assert ended_for(other) == (other, 0)


def test_ends_behind_loops() -> None:
    """Words of nested loops, then an end for each team; who reads stops at its own first one."""
    inner = ("loop", Const(0), STEPS, Const(1), (), ("wait",))
    nest = ("loop", Const(0), TILES, Const(1), (), (inner,))
    assert [ended_behind((nest, *("wait",) * n)) for n in range(3)] == [0, 1, 2]
    assert ended_behind(("wait",)) == ended_behind((nest, nest)) == 0
    until = ("break", Binary("<=", TILES, Var("%word q[0] of %0")))
    reads = (("loop", Const(0), STEPS, Const(1), (), ("wait", until)),)
    assert ended_behind((*reads, "wait")) == 0
    mine = ("break", Binary("<=", TILES, Var("%word q[0] of %0 as 1 of 2")))
    team = (("loop", Const(0), STEPS, Const(1), (), ("wait", mine)),)
    assert reads_of([team, reads], frozenset({"q"})) == reads
    assert reads_of([team], frozenset({"r"})) is None
