"""Arrivals and bytes of a step, of agents whose walks are given, against what barriers await."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.expr import ONE, ZERO, Expr, Var, as_expr
from lowering.ground.poly import Poly, poly
from lowering.kernel.control import Break, Elect, For, If, Let
from lowering.kernel.kernel import Kernel, MBarrierArray, TensorMap
from lowering.kernel.memory import TmaLoad
from lowering.kernel.nodes import Body, MBarrierInit, MBarrierInval, MBarrierRef, Stmt
from lowering.kernel.operands import GmemRef, SmemRef
from lowering.kernel.traits import Memory
from lowering.proof.agent import Agent
from lowering.proof.counts import arrivals, bytes_of, first_arrivals, initialised
from lowering.proof.obligation import Obligation, Verdict
from lowering.proof.rings import Ring
from lowering.proof.state import Fill, Told, Walked

N, TRIP, NONE = Var("n"), Var("i"), Poly(())
RING = Ring("f", "e", 2, frozenset("s"), True, False, Memory.SHARED, frozenset())
MAP = TensorMap("T", DType.BF16, (N, as_expr(64)), (8, 64))
CLIPPED = replace(MAP, name="C", clipped=True)


def kernel(full: int = 1, empty: int = 1, cluster: int = 1, body: Body = ()) -> Kernel:
    storage = MBarrierArray("f", 2, full), MBarrierArray("e", 2, empty), MAP, CLIPPED
    return Kernel("k", 64, ONE, (N,), storage, body, cluster=cluster)


def warp(number: int, rank: int = 0, warps: int = 1) -> Agent:
    return Agent(f"r{number}", None, tuple(range(number, number + warps)), rank, ())


def said(claims: list[Obligation]) -> list[str]:
    for claim in claims:
        assert (claim.verdict is Verdict.PROVED) == (not claim.why)
    return [f"{c.subject}: {c.why}" if c.why else "" for c in claims]


ONE_THREAD, WARP, FIRST, NEXT = (None, 1), (None, 32), (ZERO, 1), (ONE, 1)
UNKNOWN: Told = (N, 1)


def fills(*told: Told) -> Walked:
    return Walked(fills={"f": {Fill("f", NONE, True, told=told)}})


def reads(*told: Told) -> Walked:
    return Walked(releases={"f": {frozenset(told)}})


def taken(
    ways: dict[Agent, Walked], full: int = 1, empty: int = 1, cluster: int = 1,
    teams: dict[Agent, int] | None = None, known: bool = True,
) -> list[str]:  # fmt: skip
    found = [*arrivals(kernel(full, empty, cluster), RING, ways, (teams or {}) if known else None)]
    assert all(o.name == "arrivals" for o in found)
    return said(found)


STEP = "{}: {} arrivals for a step at CTA {}, which awaits {}"


def test_arrivals_of_a_step() -> None:
    """Of each warp, and each thread of it that arrives, at the barrier of a CTA."""
    load, read, more = warp(0), warp(1), warp(2, warps=4)
    right = {load: fills(ONE_THREAD), read: reads(ONE_THREAD)}
    assert taken(right) == ["", ""]
    assert taken(right, full=2) == [STEP.format("f", 1, 0, 2), ""]
    assert taken(right, empty=2) == ["", STEP.format("e", 1, 0, 2)]
    assert taken({load: fills(WARP), read: reads(WARP)}, 32, 32) == ["", ""]
    assert taken({load: fills(ONE_THREAD, ONE_THREAD), read: reads(ONE_THREAD)}, 2) == ["", ""]
    assert taken({**right, more: reads(ONE_THREAD)}, empty=5) == ["", ""]
    assert taken({**right, more: fills(ONE_THREAD)}, full=5) == ["", ""]
    assert taken({**right, more: Walked()}) == ["", ""]


def test_an_agent_that_does_several_things() -> None:
    load, read = warp(0), warp(1)
    two = Walked(fills={"f": {Fill("f", NONE, True, told=t) for t in ((ONE_THREAD,), (WARP,))}})
    assert taken({load: two, read: reads(ONE_THREAD)}) == [
        "f: an agent fills its steps in several ways", ""]  # fmt: skip
    ways = Walked(releases={"f": {frozenset({ONE_THREAD}), frozenset({WARP})}})
    assert taken({load: fills(ONE_THREAD), read: ways}) == [
        "", "e: an agent releases its steps in several ways"]  # fmt: skip
    copy = TmaLoad(SmemRef("s", ZERO, (ZERO, ZERO)), GmemRef("T", (ZERO, ZERO)))
    plain = Fill("f", NONE, True, told=(ONE_THREAD,))
    for other in (
        replace(plain, bytes=poly(ONE)), replace(plain, copies=(copy,)),
        replace(plain, stored=frozenset("s")), replace(plain, told=(ONE_THREAD, ONE_THREAD)),
    ):  # fmt: skip
        given = {load: Walked(fills={"f": {plain, other}}), read: reads(ONE_THREAD)}
        assert taken(given)[0] == "f: an agent fills its steps in several ways"
    again = {plain, replace(plain, one=False)}
    assert taken({load: Walked(fills={"f": again}), read: reads(ONE_THREAD)}) == ["", ""]


def test_arrivals_at_other_ctas() -> None:
    """Of a cluster, of which one CTA may fill what both read."""
    load, read, other = warp(0), warp(1), warp(1, 1)
    ways = {load: fills(FIRST, NEXT), read: reads(FIRST), other: reads(FIRST)}
    assert taken(ways, 1, 2, 2) == ["", ""]
    assert taken(ways, 1, 1, 2) == ["", STEP.format("e", 2, 0, 1)]
    ways[load] = fills(FIRST)
    assert taken(ways, 1, 2, 2) == [STEP.format("f", 0, 1, 1), ""]
    ways[load] = fills(FIRST, UNKNOWN)
    assert taken(ways, 1, 2, 2) == [STEP.format("f", 0, 1, 1), ""]
    ways[load], ways[other] = fills(FIRST, NEXT), reads(ONE_THREAD)
    assert taken(ways, 1, 2, 2) == ["", STEP.format("e", 1, 0, 2)]


def test_arrivals_of_teams() -> None:
    """One of which takes a step; where it is not known which, enough arrive in no way."""
    load, first, second = warp(0), warp(1), warp(2)
    ways = {load: fills(ONE_THREAD), first: reads(ONE_THREAD), second: reads(ONE_THREAD)}
    assert taken(ways, teams={first: 0, second: 1}) == ["", ""]
    assert taken(ways, teams={first: 0, second: 0}) == ["", STEP.format("e", 2, 0, 1)]
    assert taken(ways) == ["", STEP.format("e", 2, 0, 1)]
    assert taken(ways, empty=2, teams={first: 0}) == ["", ""]
    assert taken(ways, known=False) == ["", "e: who takes which steps is not known"]
    assert taken(ways, empty=2, known=False) == ["", ""]


def test_first_arrivals() -> None:
    """At each stage, of all who release; none where who fills waits a round less."""
    load, read = warp(0), warp(1, warps=2)
    both = (("e", 0, ONE_THREAD), ("e", 1, ONE_THREAD))

    def found(first: tuple[tuple[str, int, Told], ...], empty: int = 2, late: bool = False) -> str:
        filling = replace(fills(ONE_THREAD), late={"e"} if late else set())
        ways = {load: filling, read: replace(reads(ONE_THREAD), first=first)}
        claim = first_arrivals(kernel(1, empty), RING, ways)
        assert (claim.name, claim.subject) == ("first arrivals", "f")
        return claim.why

    short = "{} first arrivals at stage {} of CTA 0, not {}"
    assert found(both) == found((), late=True) == ""
    assert found(both, 1) == short.format(2, 0, 1)
    assert found(both[:1]) == short.format(0, 1, 2)
    assert found(both[1:]) == short.format(0, 0, 2)
    assert found(both, late=True) == short.format(2, 0, 0)
    assert found((*both, ("x", 0, ONE_THREAD))) == ""
    assert found((("e", 0, NEXT), both[1])) == short.format(0, 0, 2)
    other = replace(fills(ONE_THREAD), late={"e"})
    ways = {load: fills(ONE_THREAD), warp(5): other, read: replace(reads(), first=both)}
    claim = first_arrivals(kernel(1, 2), RING, ways)
    assert claim.why == "those who fill it disagree about the first round"
    late = {load: replace(other), read: replace(reads(), late={"e"})}
    assert first_arrivals(kernel(1, 2), RING, late).why == ""


def copy(name: str = "T", mask: int | None = None, group: int = 1) -> TmaLoad:
    multicast = None if mask is None else as_expr(mask)
    at = SmemRef("s", ZERO, (ZERO, ZERO))
    return TmaLoad(at, GmemRef(name, (ZERO, ZERO)), multicast=multicast, cta_group=group)


def landed(
    *given: tuple[int, Expr | None, tuple[TmaLoad, ...]], cluster: int = 1, body: Body = ()
) -> str:
    """Of agents in CTAs, with the bytes that they announce and what they copy."""
    ways = {}
    for n, (rank, count, copies) in enumerate(given):
        size = None if count is None else poly(count)
        fill = Fill("f", NONE, True, told=(ONE_THREAD,), bytes=size, copies=copies)
        ways[warp(n, rank)] = Walked(fills={"f": {fill}})
    ways[warp(99)] = Walked()
    claim = bytes_of(kernel(cluster=cluster, body=body), RING, ways)
    assert (claim.name, claim.subject) == ("bytes", "f")
    return claim.why


@pytest.mark.parametrize("cluster", [1, 2])
def test_bytes_that_land(cluster: int) -> None:
    one, lands = as_expr(1024), "{} bytes land in CTA {}, {} announced"
    assert landed((0, one, (copy(),)), cluster=cluster) == ""
    assert landed((0, one, (copy(), copy())), cluster=cluster) == lands.format(2048, 0, 1024)
    assert landed((0, one, (copy(),)), (0, None, ()), cluster=cluster) == ""
    assert landed((0, one, (copy(),)), (0, one, (copy(),)), cluster=cluster) == ""
    assert landed((0, None, (copy(),)), cluster=cluster) == lands.format(1024, 0, 0)
    rows = clipped()
    assert landed((0, rows, (copy("C"),)), cluster=cluster) == ""
    assert landed((0, one, (copy("C"),)), cluster=cluster).startswith("min(")
    named: Stmt = Let(Var("bytes"), one)
    assert landed((0, Var("bytes"), (copy(),)), cluster=cluster, body=(named,)) == ""


def clipped() -> Expr:
    """The bytes of as many rows as a clipped box has."""
    return kernel().tensor_map("C").box_lines * 128


def test_bytes_that_land_in_several_ctas() -> None:
    one, two = as_expr(1024), as_expr(2048)
    lands = "{} bytes land in CTA {}, {} announced"
    both = copy(mask=3)
    assert landed((0, one, (both,)), (1, one, ()), cluster=2) == ""
    assert landed((0, one, (both,)), cluster=2) == lands.format(1024, 1, 0)
    assert landed((0, one, (copy(mask=1),)), cluster=2) == ""
    assert landed((0, one, (copy(mask=2),)), cluster=2) == lands.format(0, 0, 1024)
    assert landed((0, two, (both,)), (1, two, (both,)), cluster=2) == ""
    pair = copy(group=2)
    assert landed((0, two, (pair,)), (1, None, (pair,)), cluster=2) == ""
    assert landed((0, one, (pair,)), (1, one, (pair,)), cluster=2) == lands.format(2048, 0, 1024)
    assert landed((0, two, (copy(mask=3, group=2),)), cluster=2) == ""


def init(*stages: Expr, count: int = 3, kind: type[Stmt] = MBarrierInit) -> Body:
    bars = [MBarrierRef("f", s) for s in stages]
    if kind is MBarrierInval:
        return tuple(map(MBarrierInval, bars))
    return tuple(MBarrierInit(bar, count) for bar in bars)


@pytest.mark.parametrize("kind", [MBarrierInit, MBarrierInval])
def test_each_barrier_is_initialised_once(kind: type[Stmt]) -> None:
    """By one thread of one warp of the first CTA, and so invalidated."""
    barrier = MBarrierArray("f", 2, 3)
    made = Kernel("k", 64, ONE, (N,), (barrier,), ())
    both: Body = (Elect(init(ZERO, ONE, kind=kind)),)
    rest: Body = (Elect(init(ZERO, ONE, kind={MBarrierInit: MBarrierInval,
                                              MBarrierInval: MBarrierInit}[kind])),)  # fmt: skip

    def found(body: Body, warps: tuple[int, ...] = (0,), rank: int = 0) -> str:
        one = Agent("r", None, (9,), 0, rest)
        other = Agent("r", None, warps, rank, body)
        by_kind = {o.name: o for o in initialised(made, (one, other))}
        assert all(o.subject == "f" for o in by_kind.values())
        wrong = [o for o in by_kind.values() if o.why]
        assert all(o.name == kind.OP and o.verdict is Verdict.REFUTED for o in wrong)
        return wrong[0].why if wrong else ""

    def counted(*stages: tuple[int, int]) -> str:
        count = 3 if kind is MBarrierInit else None
        table = {(stage, count): times for stage, times in stages}
        return f"{kind.OP} of (stage, arrivals), how often: {table}"

    assert found(both) == ""
    assert found((Elect((For(TRIP, ZERO, as_expr(2), init(TRIP, kind=kind)),)),)) == ""
    assert found((Elect((For(TRIP, ZERO, N, init(TRIP, kind=kind)),)),)) == counted((-1, 1))
    one = init(TRIP, kind=kind)
    assert found((Elect((For(TRIP, ZERO, as_expr(2), one, as_expr(2)),)),)) == counted((0, 1))
    assert found((Elect((For(TRIP, ZERO, as_expr(3), one, as_expr(2)),)),)) == counted(
        (0, 1), (2, 1))  # fmt: skip
    left = Break(N < 3), *one
    assert found((Elect((For(TRIP, ZERO, as_expr(2), left),)),)) == counted((-1, 1))
    assert found((Elect((For(TRIP, ZERO, as_expr(1 << 30), one),)),)) == counted((-1, 1))
    assert found((Elect((If(N < 3, both),)),)) == counted((-1, 2))
    assert found((If(N < 3, (), both),)) == counted((-1, 2))
    assert found((If(ONE < ZERO, (), both),)) == found((If(ZERO < ONE, both),)) == ""
    assert found((If(ONE < ZERO, both),)) == counted()
    first = If(TRIP.eq(ZERO), init(ZERO, kind=kind), init(ONE, kind=kind))
    assert found((Elect((For(TRIP, ZERO, as_expr(2), (first,)),)),)) == ""
    assert found(init(ZERO, ONE, kind=kind)) == counted((0, 32), (1, 32))
    assert found(both, (0, 1)) == counted((0, 2), (1, 2))
    assert found((*both, *both)) == counted((0, 2), (1, 2))
    assert found((Elect(init(ZERO, kind=kind)),)) == counted((0, 1))
    assert found(both, rank=1) == counted()
    assert found((Elect((For(TRIP, ONE, as_expr(3), init(TRIP, kind=kind)),)),)) == counted(
        (1, 1), (2, 1))  # fmt: skip
    if kind is MBarrierInit:
        few = f"{kind.OP} of (stage, arrivals), how often: {{(0, 2): 1, (1, 2): 1}}"
        assert found((Elect(init(ZERO, ONE, count=2)),)) == few


def test_the_barriers_of_every_cta_are_initialised() -> None:
    barrier = MBarrierArray("f", 1, 3)
    made = Kernel("k", 32, ONE, (N,), (barrier,), (), cluster=2)
    right: Body = (Elect((*init(ZERO), *init(ZERO, kind=MBarrierInval))),)

    def found(first: Body, second: Body) -> list[str]:
        bodies = enumerate((first, second))
        return said([*initialised(made, tuple(Agent("r", None, (0,), n, b) for n, b in bodies))])

    why = "f: {}{} of (stage, arrivals), how often: {{}}"
    assert found(right, right) == ["", ""]
    assert found(right, ()) == [
        why.format(k, " in CTA 1") for k in ("mbarrier.init", "mbarrier.inval")
    ]
    assert found((), right) == [why.format(k, "") for k in ("mbarrier.init", "mbarrier.inval")]
