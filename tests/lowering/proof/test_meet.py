"""Named barriers: turns of all forms, held against a count of what is there, and whole programs.

A turn is right if there are as many arrivals as syncs at every size: what is proved is tried at
small ones, and what is said of each form is a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from lowering.ground.expr import ONE, ZERO, Binary, Const, Expr, Var, as_expr, binary, evaluate
from lowering.kernel.kernel import Kernel, NamedBarrierArray
from lowering.kernel.nodes import BarSync, Body, For, SmemRef, Stmt, StWord
from lowering.kernel.operands import NamedBarrierRef
from lowering.kernel.sync import BarArrive
from lowering.proof.agent import Agent
from lowering.proof.linear import Facts
from lowering.proof.meet import Meetings, _event, _handed_on, _last_words, _words
from lowering.proof.obligation import Verdict
from lowering.proof.shape import Shape
from lowering.proof.state import Walked
from lowering.proof.steps import Steps
from lowering.proof.views import Views
from tests.conftest import Golden
from tests.lowering.proof.by_words import body

N, M, TRIP, INNER = Var("n"), Var("m"), Var("%0"), Var("%1")
FACTS = Facts(natural=frozenset({"n", "m"}))
BARE = Kernel("k", 256, ONE, (), (), ())
SYNC: Shape = ("sync",)
ARRIVE: Shape = ("arrive",)


def loop(stop: Expr, *inner: object, start: Expr = ZERO, step: Expr = ONE) -> tuple[object, ...]:
    return ("loop", start, stop, step, (), inner)


def arrive_if(cond: Expr) -> tuple[object, ...]:
    return ("if", cond, ARRIVE, ())


def either(a: Expr, b: Expr) -> Expr:
    return binary("or", a, b)


def events(shape: Shape, env: dict[str, int], depth: int = 0) -> Iterator[str]:
    """What a program does at some sizes."""
    for part in shape:
        match part:
            case str():
                yield part
            case ("if", Expr() as cond, tuple() as then, tuple() as other):
                yield from events(then if evaluate(cond, env) else other, env, depth)
            case ("loop", Expr() as start, Expr() as stop, Expr() as step, (), tuple() as inner):
                for n in range(*(evaluate(e, env) for e in (start, stop, step))):
                    yield from events(inner, env | {f"%{depth}": n}, depth + 1)


MEETING: dict[str, Shape] = {
    "n": (loop(N, "sync"),),
    "n + 1": (loop(N + 1, "sync"),),
    "from 1": (loop(N, "sync", start=ONE),),
    "in twos": (loop(N, "sync", step=as_expr(2)),),
    "two each": (loop(N, "sync", "sync"),),
    "n of m": (loop(N, loop(M, "sync")),),
    "n of 2": (loop(N, loop(as_expr(2), "sync")),),
    "3 of 2": (loop(as_expr(3), loop(as_expr(2), "sync")),),
    "fewer each": (loop(N, loop(TRIP, "sync")),),
    "two of m": (loop(N, loop(M, "sync", "sync")),),
    "one": SYNC,
}  # fmt: skip
FIRST, FIRST_OF_TWO, ANY = (
    arrive_if(ZERO < N),
    arrive_if((ZERO < N).logical_and(ZERO < M)),
    "arrive",
)
ARRIVING: dict[str, Shape] = {
    "of n": (loop(N, arrive_if(TRIP < N)),),
    "of n, m trips": (loop(M, arrive_if(TRIP < N)),),
    "of n, more trips": (loop(N + M, arrive_if(TRIP < N)),),
    "of n, fewer trips": (loop(N - 1, arrive_if(TRIP < N)),),
    "of n + 1": (loop(N + 1, arrive_if(TRIP < N + 1)),),
    "the next of n": (FIRST, loop(N, arrive_if(TRIP + 1 < N))),
    "the next of n, fewer trips": (FIRST, loop(N - 1, arrive_if(TRIP + 1 < N))),
    "the next of n, two fewer": (FIRST, loop(N - 2, arrive_if(TRIP + 1 < N))),
    "the next, no first": (loop(N, arrive_if(TRIP + 1 < N)),),
    "the same, and a first": (FIRST, loop(N, arrive_if(TRIP < N))),
    "the first of m": (arrive_if(ZERO < M), loop(N, arrive_if(TRIP + 1 < N))),
    "from 1": (loop(N, arrive_if(TRIP < N), start=ONE),),
    "two each": (loop(N, arrive_if(TRIP < N), "arrive"),),
    "always": (loop(N, "arrive"),),
    "at most n": (loop(N, arrive_if(TRIP <= N)),),
    "a sync": (loop(N, ("if", TRIP < N, SYNC, ())),),
    "a first sync": (("if", ZERO < N, SYNC, ()), loop(N, arrive_if(TRIP + 1 < N))),
    "one": ARRIVE,
    "of n of m": (loop(N, loop(M, arrive_if((TRIP < N).logical_and(INNER < M)))),),
    "of n of 2": (loop(N, loop(as_expr(2), arrive_if((TRIP < N).logical_and(INNER < 2)))),),
    "of m of n": (loop(M, loop(N, arrive_if((TRIP < M).logical_and(INNER < N)))),),
    "of n of m, or": (loop(N, loop(M, arrive_if(either(TRIP < N, INNER < M)))),),
    "the next of n of m": (
        FIRST_OF_TWO, loop(N, loop(M, arrive_if(either(TRIP + 1 < N, INNER + 1 < M))))),
    "the next of n of m, and": (
        FIRST_OF_TWO, loop(N, loop(M, arrive_if((TRIP + 1 < N).logical_and(INNER + 1 < M))))),
    "the next of n of m, any": (
        FIRST, loop(N, loop(M, arrive_if(either(TRIP + 1 < N, INNER + 1 < M))))),
    "the next of n of 2": (
        FIRST, loop(N, loop(as_expr(2), arrive_if(either(TRIP + 1 < N, INNER + 1 < 2))))),
    "the next of n of 2, twice": (
        FIRST_OF_TWO, loop(N, loop(as_expr(2), arrive_if(either(TRIP + 1 < N, INNER + 1 < 2))))),
    "the next of 3 of 2": (
        FIRST, loop(as_expr(3), loop(as_expr(2), arrive_if(either(TRIP + 1 < 3, INNER + 1 < 2))))),
    "no first of n of m": (loop(N, loop(M, arrive_if(either(TRIP + 1 < N, INNER + 1 < M)))),),
    "always of n of m": (loop(N, loop(M, "arrive")),),
    "a sync of n of m": (loop(N, loop(M, ("if", (TRIP < N).logical_and(INNER < M), SYNC, ()))),),
}  # fmt: skip


@pytest.mark.parametrize("name", MEETING)
def test_turns(name: str, golden: Golden) -> None:
    meetings, lines = Meetings(BARE, Views((), {}, {}, FACTS)), list[str]()
    for kind, arriving in ARRIVING.items():
        why, first = meetings.turn(MEETING[name], arriving)
        lines.append(f"{kind}: {why or 'right'}, {first}")
        for n, m in product(range(4), repeat=2) if not why else ():
            come, told = (
                list(events(shape, {"n": n, "m": m})) for shape in (MEETING[name], arriving)
            )
            assert told == ["arrive"] * len(come), (kind, n, m)
    assert "\n".join(lines) == golden


HANDED: list[tuple[Shape, Shape, int | None]] = [
    (SYNC, ARRIVE, 0),
    ((loop(N, "sync"),), (loop(N, "arrive"),), 0),
    ((loop(N, "sync"),), (loop(M, "arrive"),), None),
    ((loop(N, "sync"), "sync"), ("arrive", loop(N, "arrive")), 1),
    ((loop(N, "sync"), "sync"), (loop(N, "arrive"),), None),
    ((loop(N, "sync"),), ("arrive", loop(N, "arrive")), None),
    ((loop(N, "sync"), "sync"), ("arrive", loop(M, "arrive")), None),
    ((loop(N, "sync"), ("break", TRIP < N)), (loop(N, "arrive"), ("break", TRIP < N)), 0),
    ((), (), 0),
    ((loop(N, "sync"), "sync"), (arrive_if(TRIP < N), loop(N, "arrive")), None),
    (
        (loop(N, "sync"), loop(M, "sync"), "sync"),
        ("arrive", loop(N, "arrive"), loop(M, "arrive")),
        1,
    ),
    ((loop(N, "sync"), loop(M, "sync")), ("arrive", loop(N, "arrive")), None),
]


@pytest.mark.parametrize(("meeting", "arriving", "wanted"), HANDED)
def test_turns_that_are_handed_on(meeting: Shape, arriving: Shape, wanted: int | None) -> None:
    assert _handed_on(meeting, arriving) == wanted


LAST: list[tuple[Shape, tuple[set[str], set[str]] | None]] = [
    ((), (set(), set())),
    (("sync",), ({"sync"}, set())),
    (("sync", "arrive"), ({"arrive"}, set())),
    (("sync", "sync"), ({"sync"}, set())),
    (("arrive", "arrive"), None),
    ((loop(N, "sync"),), ({"sync"}, set())),
    ((loop(N, "arrive"),), None),
    ((loop(N, "sync", "arrive"),), ({"arrive"}, set())),
    (("arrive", loop(N, "sync", "arrive")), ({"arrive"}, set())),
    (("sync", loop(N, "arrive", "sync")), ({"sync"}, set())),
    (("arrive", loop(N, "arrive", "sync")), None),
    (("arrive", loop(N, "sync", "arrive"), "arrive"), None),
    (("arrive", loop(N, "sync", "arrive"), "sync"), ({"sync"}, set())),
    ((("if", N < M, SYNC, ()), "arrive"), ({"arrive"}, set())),
    ((("if", N < M, ARRIVE, ()), "arrive"), None),
    ((("if", N < M, (), ARRIVE), "arrive"), None),
    ((("if", N < M, SYNC, ARRIVE),), ({"sync", "arrive"}, set())),
    ((("if", N < M, ("arrive", "arrive"), ()),), None),
    ((("if", N < M, (), ("arrive", "arrive")),), None),
    (("sync", ("break", N < M), "arrive"), ({"arrive"}, {"sync"})),
    (("sync", ("if", N < M, (("break", N < M),), ()), "arrive"), ({"arrive"}, {"sync"})),
    (("sync", ("if", N < M, (), (("break", N < M),)), "arrive"), ({"arrive"}, {"sync"})),
    (("sync", loop(N, ("break", N < M), "arrive", "sync"), "arrive"), ({"arrive"}, set())),
    (("sleep",), None),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "wanted"), LAST)
def test_the_last_words(shape: Shape, wanted: tuple[set[str], set[str]] | None) -> None:
    """At the end, and where a loop around is left; nothing where two arrivals follow each other."""
    assert _last_words(shape, frozenset()) == wanted


def test_words_of_a_shape() -> None:
    assert _words((loop(N, "sync", arrive_if(N < M)), "sync")) >= {"sync", "arrive"}
    assert _words(()) == _words(ONE) == set()


def at(array: str, index: Expr, kind: type[BarSync] | type[BarArrive] = BarSync) -> Stmt:
    return kind(NamedBarrierRef(array, index))


@pytest.mark.parametrize(
    ("stmt", "index", "wanted"),
    [
        (at("t", ZERO), 0, "sync"), (at("t", ZERO), None, "sync"), (at("t", ZERO), 1, None),
        (at("t", ONE), 1, "sync"), (at("u", ZERO), 0, None), (at("u", ZERO), None, None),
        (at("t", ZERO, BarArrive), 0, "arrive"), (at("t", ONE, BarArrive), 0, None),
        (For(Var("i"), ZERO, N, ()), 0, None),
    ],
)  # fmt: skip
def test_events(stmt: Stmt, index: int | None, wanted: str | None) -> None:
    assert _event("t", index, stmt) == wanted


MEANS = {
    f"{word}{n}": at("t", Const(n), kind)
    for word, kind in (("s", BarSync), ("a", BarArrive))
    for n in (0, 1)
} | {"sx": at("t", N), "ax": at("t", N, BarArrive), "u": at("u", ZERO)}
WHOLE = NamedBarrierArray("t", 2, 256)


def claim(*programs: str, cluster: int = 1) -> str:
    """Of an array of two barriers, at which warpgroups have these programs in each CTA."""
    each = len(programs) // cluster
    warps = []
    for n, words in enumerate(programs):
        first = 4 * (n % each)
        made: Body = body(words, MEANS)
        warps.append(Agent(f"r{n}", None, tuple(range(first, first + 4)), n // each, made))
    kernel = Kernel("k", 256, ONE, (N,), (WHOLE,), (), cluster=cluster)
    steps = {a: Steps.of(a.body, (), FACTS) for a in warps}
    views = Views((), {a: Walked() for a in warps}, steps, FACTS)
    (found,) = Meetings(kernel, views).claims()
    assert (found.name, found.subject) == ("named barriers", "t")
    assert found.verdict is (Verdict.UNPROVED if found.why else Verdict.PROVED)
    return found.why


COME = "{} threads come to t[{}], 256 do not"
TWICE = "role r{}, warps {} arrives twice in a row: "
PROGRAMS = {
    ("s0", "s0"): "",
    ("[ s0 ]", "[ s0 ]"): "",
    ("[ s0 s1 ]", "[ s0 s1 ]"): "",
    ("[ s0 ]", "s0"): "warps come to t[0] in several ways",
    ("s0", "u"): COME.format(128, 0),
    ("s1", "u"): COME.format(128, 1),
    ("s0", "s0", "s0"): COME.format(384, 0),
    ("sx", "sx"): "an index is no number",
    ("s0 ax", "s0"): "an index is no number",
    ("sx s0", "sx s0"): "an index is no number",
    ("a0", "a0"): "nobody waits there",
    ("a0", "[ a0 ]"): "warps come to t[0] in several ways",
    ("s0", "a0"): "0 arrivals are made before the first turn",
    ("[ s0 a1 ]", "a0 [ s1 a0 ] s1"): "(arrive (loop 0 n 1 () (arrive))) is no loop of arrivals",
    ("[ s0 a1 ] s0", "a0 [ s1 a0 ]"): "",
    ("a1 [ s0 a1 ]", "[ s1 a0 ] s1"): "",
    ("[ s0 a1 ]", "[ s1 a0 ]"): "0 arrivals are made before the first turn",
    ("a1 [ s0 a1 ] s0", "a0 [ s1 a0 ] s1"): "2 arrivals are made before the first turn",
    ("[ a1 s0 ] s0", "a0 [ s1 a0 ]"): "role r0, warps 0..3 and role r1, warps 4..7 begin with an",
    ("[ s0 a1 ] s0", "a0 [ a0 s1 ]"): TWICE.format(1, "4..7"),
    ("", ""): "",
    ("u", "u"): "",
}


@pytest.mark.parametrize("programs", PROGRAMS, ids="; ".join)
def test_programs(programs: tuple[str, ...]) -> None:
    """Who meets whom; one of those who wait in a circle can go on."""
    wanted = PROGRAMS[programs]
    found = claim(*programs)
    assert found.startswith(wanted) and bool(found) is bool(wanted), found


def test_each_cta_of_a_cluster_has_barriers_of_its_own() -> None:
    right, turns = ("s0", "s0"), ("[ s0 a1 ] s0", "a0 [ s1 a0 ]")
    assert claim(*right, *right, cluster=2) == claim(*right, "s1", "s1", cluster=2) == ""
    assert claim(*right, "", "", cluster=2) == ""
    assert claim(*right, "s0", "s1", cluster=2) == "CTA 1: 128 threads come to t[0], 256 do not"
    assert claim("s0", "", *right, cluster=2) == "128 threads come to t[0], 256 do not"
    assert claim(*right, "[ s0 ]", "s0", cluster=2) == "CTA 1: warps come to t[0] in several ways"
    assert claim(*right, *right, "s0", "", cluster=3).startswith("CTA 2: ")
    assert claim(*turns, *turns, cluster=2) == ""
    why = claim(*turns, "[ s0 a1 ]", "[ s1 a0 ]", cluster=2)
    assert why == "CTA 1: 0 arrivals are made before the first turn"
    why = claim(*turns, "[ a1 s0 ] s0", "a0 [ s1 a0 ]", cluster=2)
    assert why.startswith("CTA 1: CTA 1 role r2, warps 0..3 and CTA 1 role r3, warps 4..7 begin")


def word(name: str, bound: Expr, *inner: object, front: Shape = ()) -> Shape:
    until = ("break", Binary("<=", bound, Var(name)))
    return (loop(bound + 1, *front, until, *inner),)


def test_loops_of_words_that_are_none() -> None:
    """A sync in front of the end is at the bound itself, and nothing else stands there."""
    meetings, own = Meetings(BARE, Views((), {}, {}, FACTS)), "%word q[0] of %0"
    right = word(own, N, "sync"), word(own, N, "arrive")
    assert meetings.turn(*right) == ("", 0)
    ends = (("if", Var(own).eq(N), SYNC, ()),)
    for front in (
        (("if", Var(own).eq(M), SYNC, ()),), (("if", Var(own).eq(N), ARRIVE, ()),), SYNC,
    ):  # fmt: skip
        why, first = meetings.turn(word(own, N, "sync", front=front), right[1])
        assert why.endswith("is no loop of turns") and first is None
    why, _ = meetings.turn(word(own, N, "sync", front=ends), right[1])
    assert why == f"0 arrivals and those for {own} are made for {own}"
    synced = word(own, N, "arrive", front=ends)
    assert meetings.turn(right[0], synced)[0].endswith("is no loop of arrivals")
    assert meetings.turn(right[0], word(own, M, "arrive"))[0].endswith("is no loop of arrivals")
    assert meetings.turn(right[0], word(own, N, "sync"))[0].startswith("(sync) within a word")
    assert meetings.turn(word(own, N, "arrive"), right[1])[0].startswith("(arrive) within a word")
    assert meetings.turn(right[0], ("arrive", *right[1]))[1] is None


T = Var("t")
STORED: Body = (
    For(T, ZERO, N, (StWord(SmemRef("q", ZERO, (ZERO,)), T, None),)),
    StWord(SmemRef("q", ZERO, (ZERO,)), N, None),
    StWord(SmemRef("q", ZERO, (ZERO,)), N + 1, None),
)
"""Words of all tiles, then larger ones."""


def of_team(team: int, count: int, event: str, synced: bool, loops: tuple[Expr, ...]) -> Shape:
    name = "%word q[0] of %0" + (f" as {team} of {count}" if count > 1 else "")
    inner: Shape = (event,)
    for stop in loops:
        inner = (loop(stop, *inner),)
    return word(name, N, *inner, front=(("if", Var(name).eq(N), SYNC, ()),) if synced else ())


@pytest.mark.parametrize("loops", [(), (as_expr(2),)], ids=["one", "two"])
def test_turns_of_teams_that_load_words(loops: tuple[Expr, ...]) -> None:
    """The team before arrives, the last one once before all; or all teams load the same words."""
    agent = Agent("load", None, (0,), 0, STORED)
    steps = {agent: Steps.of(STORED, (), FACTS)}
    meetings = Meetings(BARE, Views((), {}, steps, FACTS))
    for count in (1, 2, 3):
        for team, theirs, synced, first in product(
            range(count), range(count), (False, True), (0, 1)
        ):
            meeting = of_team(team, count, "sync", synced, loops)
            arriving = of_team(theirs, count, "arrive", False, loops)
            why, found = meetings.turn(meeting, ("arrive",) * first + arriving)
            if team == theirs:
                right = first == synced and (count == 1 or not first)
            else:
                right = (
                    theirs == (team - 1) % count and synced and first == (team == 0) and not loops
                )
            assert (not why, found) == (right, first if right else None), (team, theirs, count, why)


@pytest.mark.parametrize(("end", "right"), [(N, True), (N + 1, False)])
def test_a_sync_at_the_end_needs_that_end(end: Expr, right: bool) -> None:
    stored: Body = (*STORED[:1], StWord(SmemRef("q", ZERO, (ZERO,)), end, None))
    agent = Agent("load", None, (0,), 0, stored)
    meetings = Meetings(BARE, Views((), {}, {agent: Steps.of(stored, (), FACTS)}, FACTS))
    synced, plain = (of_team(0, 1, "sync", s, ()) for s in (True, False))
    why, first = meetings.turn(synced, ("arrive", *of_team(0, 1, "arrive", False, ())))
    wrong = "the first end of q may not be n"
    assert (why, first) == (("", 1) if right else (wrong, None))
    assert meetings.turn(plain, of_team(0, 1, "arrive", False, ())) == ("", 0)
    unknown = word("another", N, "sync"), word("another", N, "arrive")
    assert meetings.turn(*unknown) == ("whose words another are is not known", None)
