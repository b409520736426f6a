"""What a refusal says is legal here is legal: it is followed, and accepted."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Expr, Special, Var, ceildiv
from tests.legality import illegal
from tests.schedule.advice import PROSE, followed
from tests.schedule.fusions import ON_TIDY, buffered, cached, linear, tile, tiled
from tests.schedule.proof import (
    test_bounds,
    test_bystanders,
    test_check_interval,
    test_dealt,
    test_grid,
    test_legality_refused,
    test_placement,
    test_roles,
)
from tests.schedule.whole import whole
from wsched.fusion import Fusion, PrimitiveCall
from wsched.schedule import Schedule, load_relations, make_plan
from wsched.schedule.primitives.replay import replay
from wsched.schedule.text import parse_calls

CTAS = Special("nctaid.x")


def of_operands() -> dict[str, Callable[[], Fusion]]:
    """Schedules of the operands' loads and the accumulator alone."""

    def after(change: Callable[[Schedule], None]) -> Callable[[], Fusion]:
        def made() -> Fusion:
            s = tiled()
            change(s)
            return buffered(s)

        return made

    def shares(cluster: int, change: Callable[[Schedule], None]) -> Callable[[], Fusion]:
        def made() -> Fusion:
            s = test_check_interval.tiled(cluster)
            change(s)
            return test_check_interval.done(s)

        return made

    def dealt(name: str) -> Callable[[], Fusion]:
        def made() -> Fusion:
            s = test_dealt.scheduled(*test_dealt.REFUSED[name])
            test_dealt.one_load_loop(s)
            return buffered(s)

        return made

    changes = (
        {n: c for n, (c, *_) in test_legality_refused.ILLEGAL.items()}
        | test_bounds.REFUSED
        | test_bystanders.REFUSED
    )
    return (
        {n: after(c) for n, c in changes.items()}
        | {n: lambda c=c: c(tiled()) for n, c in test_roles.REFUSED.items()}
        | {n: shares(k, c) for n, (k, c, *_) in test_check_interval.ILLEGAL.items()}
        | {n: dealt(n) for n in test_dealt.REFUSED}
        | {"turns of warps that load": test_legality_refused.turns_of_warps_that_load}
        | {
            f"{groups} groups with {load} and {compute}": lambda g=groups, p=(load, compute): (
                test_legality_refused.with_registers(g, p)
            )
            for groups, load, compute in ((2, 40, 240), (4, 24, 88), (1, 40, 232))
        }
    )


def complete() -> dict[str, Callable[[], Fusion]]:
    """Complete schedules."""

    def after(change: Callable[[Schedule], None]) -> Callable[[], Fusion]:
        def made() -> Fusion:
            s = test_placement.schedule()
            change(s)
            return s.fusion

        return made

    found = {n: after(c) for n, c in test_placement.REFUSED.items()}
    found |= {n: lambda t=t: whole(t).fusion for n, t in test_grid.REFUSED.items()}
    return found | {n: make for n, (make, _) in illegal.ILLEGAL.items()}


def _refusal(prove: Callable[[Fusion], object], fusion: Fusion) -> ScheduleError:
    with pytest.raises(ScheduleError) as error:
        prove(fusion)
    return error.value


def calls(*texts: str) -> tuple[PrimitiveCall, ...]:
    lines = "".join(f"    s.{text}\n" for text in texts)
    return tuple(call for _, call in parse_calls(f"def schedule(s):\n{lines}"))


CASES = [
    *((name, make, load_relations) for name, make in of_operands().items()),
    *((name, make, make_plan) for name, make in complete().items()),
]


@pytest.mark.parametrize(("name", "make", "prove"), CASES, ids=[c[0] for c in CASES])
def test_what_is_said_to_be_legal_is(
    name: str, make: Callable[[], Fusion], prove: Callable[[Fusion], object]
) -> None:
    fusion = make()
    for advice in _refusal(prove, fusion).legal:
        if not any(re.fullmatch(words, advice) for words in PROSE):
            prove(followed(fusion, advice, linear()))


@pytest.mark.parametrize(
    "factor", [Var("K") // 2, Var("M") - 128, CTAS - 1, Var("L"), ceildiv(8, CTAS - 1)]
)
def test_factors_that_are_said_to_be_legal_are(factor: Expr) -> None:
    s = tiled()
    with pytest.raises(ScheduleError) as error:
        s.split("T4", 1, factor)
    numbers = re.compile(r"1 to (\d+)")
    for advice in error.value.legal:
        found = numbers.fullmatch(advice)
        for text in ("1", found[1]) if found else (advice,):
            call = next(
                c for _, c in parse_calls(f"def schedule(s):\n    s.split('T4', 1, {text})")
            )
            replay(s.fusion, (call,))


def test_what_rings_are_said_to_lack_is_enough() -> None:
    s = cached()
    tile(s, "T6", (128, 256, 64), strided=True)
    ring = PrimitiveCall("circular_buffer", ("T6", 4, 2, ON_TIDY))
    with pytest.raises(ScheduleError) as error:
        replay(s.fusion, (ring,))
    missing = calls(*error.value.legal)
    assert len(missing) == 2
    for call in (*missing, ring):
        getattr(s, call.op)(*call.args, **dict(call.kwargs))
