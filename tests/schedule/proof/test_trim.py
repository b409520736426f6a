"""Bounds of compute's loops from guards, and the one predicate that ends both sides."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import ONE, Const, Expr, Special, Var
from lowering.ground.poly import Poly, poly
from tests.schedule.fusions import linear
from wsched.fusion import IterDomain
from wsched.schedule import Schedule, TransformGraph
from wsched.schedule.graph import Group
from wsched.schedule.proof.bounds import Guard
from wsched.schedule.proof.digits import STEP, Digit
from wsched.schedule.proof.relation import LoadLoop, StepLoop
from wsched.schedule.proof.trim import Trimmed, find_tail, trim

CTA, NONE = Special("ctaid.x"), Poly(())


def of_rows(*factors: int) -> tuple[TransformGraph, list[Group], list[IterDomain]]:
    """M of the result split by some factors: the graph, M and its loops outermost first."""
    s = Schedule(linear())
    for n, factor in enumerate(factors):
        s.split("T5", n, factor)
    graph = TransformGraph(s.fusion)
    t = s.tensor("T5")
    loops = list(t.loop[: len(factors) + 1])
    return graph, [graph.group(t.logical[0]), *map(graph.group, loops)], loops


def digit(group: Group, d: IterDomain, weights: dict[Group, int], role: bool = False) -> Trimmed:
    """A loop whose index counts so much in some groups; as many load steps as in the first."""
    found: dict[Group | None, Poly] = {g: poly(Const(n)) for g, n in weights.items()}
    first = next(iter(found.values()))
    step = StepLoop(d, Var(d.name), first.expr(), role, d.extent)
    return Trimmed(Digit(group, found | {STEP: first, group: poly(ONE)}), step)


def refuse(rule: str, why: str, legal: tuple[str, ...]) -> ScheduleError:
    return ScheduleError(rule, "", why, legal)


def stops(found: Sequence[Trimmed]) -> list[str]:
    return [str(d.loop.stop) for d in found]


def test_the_slowest_loop_ends_with_what_is_left_the_others_with_that() -> None:
    """M = 4 x Mo + Mi, counted whole by the loads: the last Mo has fewer Mi."""
    graph, (m, mo, mi), (outer, inner) = of_rows(4)
    digits = [digit(mo, outer, {m: 4}), digit(mi, inner, {m: 1})]
    found, entry = trim(graph, digits, [Guard(m, {m: poly(ONE)}, NONE)], frozenset(), refuse)
    i, _ = (d.loop.var for d in digits)
    assert stops(found) == ["ceildiv(M, 4)", f"min(max(M - {i} * 4, 0), 4)"]
    assert [d.loop.trimmed for d in found] == [False, True] and entry is None


def test_a_role_is_known_before_all_loops_and_where_there_are_none_it_enters() -> None:
    graph, (m, mo, mi), (outer, inner) = of_rows(4)
    role = digit(mi, inner, {m: 1}, role=True)
    guard = Guard(m, {m: poly(ONE)}, poly(CTA * 4))
    found, entry = trim(graph, [digit(mo, outer, {m: 4}), role], [guard], frozenset(), refuse)
    assert stops(found) == [f"ceildiv(max(M - (%ctaid.x * 4 + {role.loop.var}), 0), 4)", "4"]
    assert entry is None
    _, entry = trim(graph, [role], [guard], frozenset(), refuse)
    assert str(entry) == f"%ctaid.x * 4 + {role.loop.var} < M"


def test_a_group_without_a_linear_index_is_refused() -> None:
    graph, (m, mo, _), (outer, _) = of_rows(4)
    with pytest.raises(ScheduleError) as error:
        trim(
            graph, [digit(mo, outer, {m: 4})], [Guard(m, {m: poly(ONE)}, NONE)], frozenset({m}),
            refuse,
        )  # fmt: skip
    assert (error.value.rule, error.value.why) == (
        "load-bound",
        "M < M does not follow from the load index",
    )


def two_loops() -> tuple[list[LoadLoop], list[Trimmed], Group]:
    """A load nest of two loops, compute's loops that they are, and what both are parts of."""
    _, (m, mo, mi), (outer, inner) = of_rows(64)
    nest = [LoadLoop(mo, mi.extent, mo.extent), LoadLoop(mi, ONE, mi.extent)]
    return nest, [digit(mo, outer, {mo: 1}), digit(mi, inner, {mi: 1})], m


def trimmed(d: Trimmed, stop: Expr) -> Trimmed:
    step = d.loop
    return Trimmed(d.digit, StepLoop(step.domain, step.var, step.coefficient, step.role, stop))


def test_one_predicate_on_the_outermost_load_loop() -> None:
    """Another one that trims what is inside it does not matter: it leaves off no iteration."""
    nest, (top, below), m = two_loops()
    digits = [trimmed(top, Var("n")), trimmed(below, Var("k"))]
    ends = Guard(m, {nest[0].group: poly(Const(8))}, poly(CTA))
    inside = Guard(nest[1].group, {nest[1].group: poly(ONE)}, NONE)
    tail = find_tail(nest, digits, [ends], [inside])
    assert tail is not None
    assert (str(tail.index), tail.extent) == (f"%ctaid.x + 8 * {top.loop.var}", m.extent)
    assert (tail.ended, tail.shared, str(tail.item)) == ({top.loop.var}, True, f"{top.loop.var}")
    assert (tail.items, tail.steps) == (nest[0].stop, nest[0].weight)


def test_the_end_of_what_the_loads_count_themselves() -> None:
    """Each CTA has all of it: there may be any number of CTAs."""
    nest, (top, below), _ = two_loops()
    own = Guard(nest[0].group, {nest[0].group: poly(ONE)}, NONE)
    tail = find_tail(nest, [trimmed(top, Var("n")), below], [], [own])
    assert tail is not None and not tail.shared


@pytest.mark.parametrize("name", ["none", "inside", "two", "cta"])
def test_no_single_predicate(name: str) -> None:
    """None at all; one inside the outermost loop; two on it; one that is the CTA's alone."""
    nest, digits, m = two_loops()
    ends = Guard(m, {nest[0].group: poly(Const(8))}, poly(CTA))
    above = {
        "none": [],
        "inside": [Guard(m, {nest[1].group: poly(ONE)}, poly(CTA))],
        "two": [ends, Guard(m, {nest[0].group: poly(Const(4))}, NONE)],
        "cta": [ends, Guard(m, {}, poly(CTA))],
    }[name]
    assert find_tail(nest, digits, above, []) is None
