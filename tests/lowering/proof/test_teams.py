"""Steps that teams take in turn: whose programs are parts of one, and whose are not."""

from __future__ import annotations

import pytest

from lowering.ground.expr import ONE, ZERO, Binary, Const, Expr, Var, as_expr, ceildiv, maximum
from lowering.ground.poly import Poly, poly
from lowering.kernel.control import For
from lowering.kernel.nodes import MBarrierRef, MBarrierWait
from lowering.kernel.operands import Stmt
from lowering.kernel.traits import Memory
from lowering.proof.agent import Agent
from lowering.proof.linear import Facts
from lowering.proof.rings import Ring
from lowering.proof.shape import Shape
from lowering.proof.state import Walked
from lowering.proof.teams import dealt

N, M, END = Var("n"), Var("m"), Var("end")
FACTS = Facts(natural=frozenset({"n", "m", "end"}))
WAIT: Stmt = MBarrierWait(MBarrierRef("f", ZERO), ZERO)


def ring(stages: int) -> Ring:
    return Ring("f", "e", stages, frozenset("w"), True, False, Memory.SHARED, frozenset())


def trips(name: str, *body: Stmt) -> For:
    return For(Var(name), ZERO, N, body)


def loop(stop: Expr, *inner: object) -> tuple[object, ...]:
    return ("loop", ZERO, stop, ONE, (), inner)


def part(stop: Expr, team: int, count: int) -> Expr:
    """Trips of a team."""
    return poly(ceildiv(maximum(stop - team, 0), count)).expr()


def member(team: int, rank: int = 0, body: tuple[Stmt, ...] = ()) -> Agent:
    return Agent("r", team, (4 * team,), rank, body or (trips("i", WAIT),))


def way(begin: Poly | int = 0, skip: Poly | int = 0, length: int = 1, at: str = "i") -> Walked:
    """A walk that begins late, and leaves out steps behind each trip."""
    late, left, each = (
        x if isinstance(x, Poly) else poly(as_expr(x)) for x in (begin, skip, length)
    )
    return Walked(
        begins={("i", "f"): late} if late.terms else {},
        skips={(at, "f"): left} if left.terms else {},
        lengths={(at, "f"): each},
    )


Member = tuple[Shape, Walked]


def said(shape: Shape, *members: Member, stages: int = 8, ends: int = 0) -> str:
    """What keeps teams from taking all steps of a program; else which they are."""
    parts = {member(n): m for n, (m, _) in enumerate(members)}
    ways = {member(n): w for n, (_, w) in enumerate(members)}
    found = dealt(shape, parts, ways, ring(stages), ends, FACTS)
    assert bool(found.why) is not bool(found.teams)
    return found.why or " ".join(str(found.teams[a]) for a in parts)


def of_teams(count: int, length: int = 1) -> list[Member]:
    """Teams, each with its part of the trips of a loop that waits so often in each."""
    waits = ("wait",) * length
    return [
        ((loop(part(N, t, count), *waits),), way(t * length, (count - 1) * length, length))
        for t in range(count)
    ]


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("length", [1, 2])
def test_trips_in_turn(count: int, length: int) -> None:
    """Each has its own ones, whatever a trip is; what is left out counts modulo the ring."""
    shape: Shape = (loop(N, *("wait",) * length),)
    members = of_teams(count, length)
    assert said(shape, *members) == " ".join(map(str, range(count)))
    assert said(shape, *members[::-1]) == " ".join(map(str, reversed(range(count))))
    late = [(m, way(t * length, (count - 1) * length + 16, length))
            for t, (m, _) in enumerate(members)]  # fmt: skip
    assert said(shape, *late) == " ".join(map(str, range(count)))


def test_more_teams_than_are_tried() -> None:
    assert "is no team's part of" in said((loop(N, "wait"),), *of_teams(5))


WHOLE: Shape = (loop(N, "wait"),)
FIRST, SECOND = of_teams(2)
WRONG: dict[str, tuple[list[Member], str]] = {
    "both are the first": ([FIRST, FIRST], "teams [0] of 2 in CTA 0"),
    "one is missing": ([FIRST], "teams [0] of 2 in CTA 0"),
    "teams of two and of three": ([FIRST, of_teams(3)[1]], "teams [0, 1] of 3 in CTA 0"),
    "begins a step early": (
        [FIRST, (SECOND[0], way(0, 1))],
        "role r, group 1, warp 4, which begins 0 steps late and skips 1: "
        "((loop 0 ceildiv(max(n - 1, 0), 2) 1 () (wait))) is no team's part of "
        "((loop 0 n 1 () (wait)))",
    ),
    "leaves out a step more": ([FIRST, (SECOND[0], way(1, 2))], "1 steps late and skips 2: "),
    "leaves out nothing": ([FIRST, (SECOND[0], way(1, 0))], "1 steps late and skips 0: "),
    "has a trip more": (
        [FIRST, ((loop(part(N, 1, 2) + 1, "wait"),), way(1, 1))], "is no team's part of"),
    "waits twice in a trip": (
        [FIRST, ((loop(part(N, 1, 2), "wait", "wait"),), way(1, 1))], "is no team's part of"),
    "has no loop": ([FIRST, (("wait",), way(1, 1))], "is no team's part of"),
    "carries something": (
        [FIRST, ((("loop", ZERO, part(N, 1, 2), ONE, ((ZERO, ONE),), ("wait",)),), way(1, 1))],
        "is no team's part of"),
    "goes in steps": (
        [FIRST, ((("loop", ZERO, part(N, 1, 2), as_expr(2), (), ("wait",)),), way(1, 1))],
        "is no team's part of"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_part(name: str) -> None:
    members, why = WRONG[name]
    assert said(WHOLE, FIRST, SECOND) == "0 1"
    assert why in said(WHOLE, *members)


@pytest.mark.parametrize(("stages", "right"), [(2, True), (3, False), (4, False), (8, False)])
def test_steps_count_modulo_two_rounds_of_the_ring(stages: int, right: bool) -> None:
    """Four more steps are two rounds of two stages, and no whole rounds of three."""
    found = said(WHOLE, FIRST, (SECOND[0], way(1, 5)), stages=stages)
    assert (found == "0 1") is right


def test_trips_of_which_something_is_asked() -> None:
    """Not of their numbers, which are other ones of a team, and not where they end elsewhere."""

    def members(*inner: object) -> tuple[Shape, list[Member]]:
        parts = [((loop(part(N, t, 2), *inner),), way(t, 1)) for t in range(2)]
        return (loop(N, *inner),), parts

    for inner in (
        (loop(M, ("if", Var("%1") < 2, ("wait",), ())),), (("if", M < 2, ("wait",), ()),),
    ):  # fmt: skip
        shape, parts = members(*inner)
        assert said(shape, *parts) == "0 1"
    for inner in (
        (("if", Var("%0") < 2, ("wait",), ()),), (loop(Var("%0"), "wait"),),
        (("break", Var("%memory G[0]") < M), "wait"), (("break", Var("%0") < M), "wait"),
    ):  # fmt: skip
        shape, parts = members(*inner)
        assert "is no team's part of" in said(shape, *parts)


def test_teams_in_each_cta() -> None:
    """All of them are in each CTA of a cluster."""
    shapes = [m for m, _ in (FIRST, SECOND)]
    ways = [w for _, w in (FIRST, SECOND)]
    both = [(team, rank) for rank in range(2) for team in range(2)]
    for left, why in ((both, ""), (both[:3], "teams [0] of 2 in CTA 1")):
        parts = {member(*at): shapes[at[0]] for at in left}
        walks = {member(*at): ways[at[0]] for at in left}
        assert dealt(WHOLE, parts, walks, ring(8), 0, FACTS).why == why


def nested(stop: Expr, inner: Expr) -> Shape:
    return (loop(stop, loop(inner, "wait")),)


def inside(team: int, shape: Shape, skip: int = 1, begin: int | None = None) -> str:
    """What is said of two teams that leave out steps behind the trips of an inner loop."""
    body: tuple[Stmt, ...] = (trips("i", trips("j", WAIT)),)
    agents = [member(t, body=body) for t in range(2)]
    walks = [way(t, 1, at="j") for t in range(2)]
    walks[team] = way(team if begin is None else begin, skip, at="j")
    parts = {a: nested(part(N * 2, t, 2), ONE) for t, a in enumerate(agents)}
    parts[agents[team]] = shape
    found = dealt(nested(N, as_expr(2)), parts, dict(zip(agents, walks, strict=True)),
                  ring(8), 0, FACTS)  # fmt: skip
    return found.why or " ".join(str(found.teams[a]) for a in agents)


@pytest.mark.parametrize("team", [0, 1])
def test_trips_of_loops_in_each_other(team: int) -> None:
    """As many trips as a team has of all, whatever loops they are in."""
    assert inside(team, nested(part(N * 2, team, 2), ONE)) == "0 1"
    assert inside(team, nested(N, ONE)) == "0 1"  # one step of each two
    for wrong in (
        nested(N, as_expr(2)), nested(N + 1, ONE), (loop(N, "wait"),), nested(N, Var("%0")),
        (loop(N, loop(ONE, "wait"), "wait"),), (loop(N, loop(ONE, "wait", "wait")),),
        (("loop", ONE, N + 1, ONE, (), (loop(ONE, "wait"),)),),
    ):  # fmt: skip
        assert "is no team's part of" in inside(team, wrong), wrong
    assert "is no team's part of" in inside(team, nested(N, ONE), skip=2)
    assert "is no team's part of" in inside(team, nested(N, ONE), begin=team + 2)


def test_steps_that_several_loops_leave_out() -> None:
    """One loop does, and begins late only where no other one is around it."""
    body: tuple[Stmt, ...] = (trips("i", trips("j", WAIT), WAIT),)
    why = "role r, group 0, warp 0 leaves out steps in more than one loop"
    one = poly(ONE)
    for walk in (
        Walked(skips={("i", "f"): one, ("j", "f"): one}), Walked(begins={("j", "f"): one}),
        Walked(skips={("k", "f"): one}), Walked(skips={("j", "f"): one}),
    ):  # fmt: skip
        agent = member(0, body=body)
        assert dealt(WHOLE, {agent: FIRST[0]}, {agent: walk}, ring(8), 0, FACTS).why == why
    other = Walked(skips={("i", "f"): one, ("j", "e"): one}, lengths={("i", "f"): one})
    agent = member(0, body=body)
    assert dealt(WHOLE, {agent: FIRST[0]}, {agent: other}, ring(8), 0, FACTS).why == (
        "teams [0] of 2 in CTA 0")  # fmt: skip


def until(word: str, *inner: object, front: tuple[object, ...] = ()) -> Shape:
    """A loop that a word ends."""
    return (loop(END + 1, *front, ("break", Binary("<=", END, Var(word))), *inner),)


@pytest.mark.parametrize(
    ("first", "second", "ends", "why"),
    [
        ("w[0] of %0 as 0 of 2", "w[0] of %0 as 1 of 2", 2, ""),
        ("w[0] of %0 as 0 of 2", "w[0] of %0 as 1 of 2", 0, "ends for 0 teams of 2"),
        ("w[0] of %0 as 0 of 2", "w[0] of %0 as 1 of 2", 1, "ends for 1 teams of 2"),
        ("w[0] of %0 as 0 of 2", "w[0] of %0 as 1 of 2", 3, "ends for 3 teams of 2"),
        ("w[0] of %0 as 0 of 2", "w[0] of %0 as 0 of 2", 2, "is no team's part of"),
        ("w[0] of %0 as 0 of 2", "w[1] of %0 as 1 of 2", 2, "is no team's part of"),
        ("w[0] of %0", "w[0] of %0", 2, "is no team's part of"),
    ],
)
def test_words_that_end_a_loop(first: str, second: str, ends: int, why: str) -> None:
    """A team's own words do, of which there is an end for each."""
    shapes = (until(f"%word {word}", "wait") for word in (first, second))
    members = [(s, w) for s, (_, w) in zip(shapes, (FIRST, SECOND), strict=True)]
    found = said(until("%word w[0] of %0", "wait"), *members, ends=ends)
    assert why in found and (bool(why) or found == "0 1")


def test_ends_where_no_word_is() -> None:
    """As many as teams, if there are any."""
    assert said(WHOLE, FIRST, SECOND, ends=2) == "0 1"
    assert said(WHOLE, FIRST, SECOND, ends=3) == "ends for 3 teams of 2"


def test_steps_of_each_word_in_turn() -> None:
    """Both load the same words, and take turns with the steps of each."""
    word, other = "%word v[0] of %0", "%word v[1] of %0"
    whole = until(word, loop(Const(4), "wait"))
    mine = until(word, loop(Const(2), "wait"))
    body: tuple[Stmt, ...] = (trips("i", trips("j", WAIT)),)
    for shapes, right in (
        ((mine, mine), True),
        ((mine, until(other, loop(Const(2), "wait"))), False),
        ((mine, until(word, loop(Const(3), "wait"))), False),
        ((mine, until(word, loop(Const(2), "wait"), front=("wait",))), False),
        ((mine, until(word, loop(Var("%0"), "wait"))), False),
    ):
        agents = [member(t, body=body) for t in range(2)]
        parts = dict(zip(agents, shapes, strict=True))
        walks = {a: way(t, 1, at="j") for t, a in enumerate(agents)}
        found = dealt(whole, parts, walks, ring(8), 0, FACTS)
        assert (found.why == "") is right and (
            found.teams == {a: t for t, a in enumerate(agents)}
        ) is right
