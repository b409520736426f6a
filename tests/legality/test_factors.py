"""What may be a factor: by rule, by computing it in many launches, and every refusal in full."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Const, Expr, Special, Var, ceildiv, maximum, minimum
from tests.legality.builder import CTAS, Matmul, P, matmul
from tests.legality.factors import draw_factor, why_no_factor
from tests.legality.oracle import judge
from wsched.fusion import Fusion, nest_text
from wsched.schedule import split
from wsched.schedule.plan import make_plan
from wsched.schedule.text import parse_calls

M, N, K = map(Var, "MNK")
LEGAL = "1 to 2147483647; Var('M'); maximum(Var('K'), 1); Var('N'); Special('nctaid.x')"

NO_FACTOR: dict[str, tuple[Expr, str, str, str]] = {
    name: (factor, wrote, why, legal)
    for name, factor, wrote, why, legal in (
        *(
            (
                f"a thread's or CTA's own: {name}", Special(name) + 1, f"Special({name!r}) + 1",
                f"%{name} is not the same in all threads of a grid", LEGAL,
            )
            for name in (
                "warp", "warpgroup.warp", "lane", "smid", "ctaid.x", "ctaid.z", "cluster.ctarank",
            )
        ),
        *(
            (f"nobody's: {name}", Var(name), f"Var({name!r})",
             f"{name} is no extent of the definition", LEGAL)
            for name in ("sms", "tile", "banana", "i44")
        ),
        ("0 in small problems", M // 128, "Var('M') // 128",
         "the factor M // 128 is not known to be positive", "maximum(Var('M') // 128, 1)"),
        ("0 where nothing is summed", K, "Var('K')",
         "the factor K is not known to be positive", "maximum(Var('K'), 1)"),
        ("0 on one CTA", CTAS - 1, "Special('nctaid.x') - 1",
         "the factor %nctaid.x - 1 is not known to be positive",
         "maximum(Special('nctaid.x') - 1, 1)"),
        ("a division by 0", M // (N // 2), "Var('M') // (Var('N') // 2)",
         "M // (N // 2) divides by N // 2, which is not known to be positive", LEGAL),
        ("a division of what is negative", maximum((M - N) // 2, 1),
         "maximum((Var('M') - Var('N')) // 2, 1)",
         "(M - N) // 2 divides M - N, which is not known to be positive or 0", LEGAL),
        ("0", Const(0), "0", "the factor 0 is not positive", LEGAL),
        ("more than 31 bits", Const(2**40), "1099511627776",
         "the factor 1099511627776 is more than 2147483647, which a kernel counts to", LEGAL),
        ("a comparison", M < N, "Var('M') < Var('N')",
         "M < N is not made with +, -, *, //, %, ceildiv, min, max", LEGAL),
    )
}  # fmt: skip


@pytest.mark.parametrize("name", NO_FACTOR)
def test_refused(name: str) -> None:
    factor, wrote, why, legal = NO_FACTOR[name]
    m = matmul()
    with pytest.raises(ScheduleError) as error:
        m.s.split(m.loads[0], 0, factor)
    assert str(error.value) == (
        f"ScheduleError[factor]: split('{m.loads[0]}', 0, {wrote}): {why}\n"
        f"  legal here: {legal}\n  in:\n{_nest(m)}"
    )


def _nest(m: Matmul) -> str:
    """The loops of the first load, as refusals have them."""
    lines = nest_text(m.s.tensor(m.loads[0])).splitlines()
    return "\n".join(f"    {line}" for line in lines)


@pytest.mark.parametrize(
    "call", ["split('T6', 0, Special('smid') + 1)", "split('T6', 0, Var('x'))"]
)
def test_refused_in_a_text(call: str) -> None:
    ((_, found),) = parse_calls(f"def schedule(s) -> None :\n    s.{call}\n")
    with pytest.raises(ScheduleError) as error:
        split(matmul().s.fusion, *found.args)
    assert (error.value.rule, error.value.wrote) == ("factor", call)


@pytest.mark.parametrize(
    "factor",
    [
        Const(3), M, ceildiv(M, 128), maximum(M // 128, 1), maximum(K, 1), CTAS * 2, CTAS // 2,
        maximum(CTAS // 3, 1), M % 4 + 1, minimum(M, CTAS), ceildiv(M, maximum(N // 64, 1)),
    ],
)  # fmt: skip
def test_taken(factor: Expr) -> None:
    m = matmul()
    m.s.split(m.loads[0], 0, factor)
    text = str(m.s.history[-1])
    ((_, found),) = parse_calls(f"def schedule(s) -> None :\n    s.{text}\n")
    assert str(found) == text


@pytest.mark.parametrize("traversal", [-1, 2**31])
def test_traversal_refused(traversal: int) -> None:
    m = matmul()
    with pytest.raises(ScheduleError) as error:
        m.s.merge(m.loads[0], 0, traversal=traversal)
    said = "negative" if traversal < 0 else "more than 2147483647, which a kernel counts to"
    assert error.value.rule == "factor"
    assert error.value.why == f"the traversal factor {traversal} is {said}"
    assert error.value.legal == ("0 for row-major", "1 to 2147483647")


@pytest.mark.slow
def test_the_rule_agrees_with_what_launches_compute() -> None:
    """Nothing is accepted that is wrong somewhere, and most of what is refused is."""
    fusion, rng = matmul(), Random(0)
    accepted, refused, cautious = 0, 0, []
    for _ in range(3000):
        factor = draw_factor(rng)
        wrong = why_no_factor(factor)
        try:
            split(fusion.s.fusion, fusion.loads[0], 0, factor)
        except ScheduleError:
            refused += 1
            if wrong is None:
                cautious.append(factor)
            continue
        accepted += 1
        assert wrong is None, (str(factor), wrong)
    assert min(accepted, refused) > 1000
    assert len(cautious) <= refused / 20, list(map(str, cautious))


def _parts(factor: Expr, *, steps: bool = False) -> Fusion:
    """Split-K: so many parts of K on BIDz, or parts of so many steps."""
    m = matmul()
    m.tile(64, 64, 32)
    m.merge(m.every, "Mo No", "tiles")
    m.split(m.every, "tiles", CTAS, "tile cta")
    m.order(m.every, "cta tile k")
    m.run(m.every, "cta", P.BIDx)
    k = (*m.loads, m.acc)
    m.split(k, "k", factor, "part k", outer=not steps)
    m.run(k, "part", P.BIDz)
    m.order(m.loads, "cta part tile k")
    m.steps("tile k")
    m.stage()
    m.order(m.compute, "cta tile part")
    m.fragments("tile")
    m.inline("tile")
    return m.s.fusion


def _ctas_by(number: int) -> Fusion:
    """Rows of tiles in so many runs of neighbours, columns as well; a CTA for each pair of runs."""
    m = matmul()
    m.tile(64, 64, 32)
    m.split(m.every, "Mo", number, "rows row", outer=True)
    m.split(m.every, "No", number, "columns column", outer=True)
    m.merge(m.every, "rows columns", "ctas")
    m.order(m.every, "ctas row column k")
    m.run(m.every, "ctas", P.BIDx)
    m.steps("row column k")
    m.stage()
    m.order(m.compute, "ctas row column")
    m.fragments("column")
    m.inline("column")
    return m.s.fusion


NO_GRID: dict[str, tuple[Callable[[], Fusion], str]] = {
    "more parts than CTAs along z": (
        lambda: _parts(Const(70000)),
        "ScheduleError[grid]: part [BIDz]: loop part of T4 has 70000 iterations, and a grid has at "
        "most 65535 CTAs along BIDz\n  legal here: 1 to 65535\n",
    ),
    "parts by the number of CTAs": (
        lambda: _parts(CTAS),
        "ScheduleError[grid]: part [BIDz]: loop part of T4 has %nctaid.x iterations, and the parts "
        "of a sum are added up by a number of CTAs that is known\n  legal here: 1 to 65535\n",
    ),
    "parts of four steps": (
        lambda: _parts(Const(4), steps=True),
        "ScheduleError[grid]: part [BIDz]: loop part of T4 has ceildiv(ceildiv(K, 32), 4) "
        "iterations, and the parts of a sum are added up by a number of CTAs that is known\n"
        "  legal here: 1 to 65535\n",
    ),
    "more CTAs than are along x": (
        lambda: _ctas_by(60000),
        "ScheduleError[grid]: ctas [BIDx]: loop ctas of T4 has 3600000000 iterations, and a grid "
        "has at most 2147483647 CTAs along BIDx\n  legal here: 1 to 2147483647\n",
    ),
}


@pytest.mark.parametrize("name", NO_GRID)
def test_no_grid(name: str) -> None:
    make, text = NO_GRID[name]
    fusion = make()
    with pytest.raises(ScheduleError) as error:
        make_plan(fusion)
    assert str(error.value).startswith(text)
    assert judge(fusion).why is not None


def test_clusters_where_there_are_none() -> None:
    m = matmul()
    m.tile(64, 64, 32)
    m.deal()
    m.split(m.every, "tile", CTAS // 2, "tile turn")
    m.steps("tile turn k")
    m.stage()
    m.order(m.compute, "cta tile turn")
    m.fragments("turn")
    m.inline("turn")
    with pytest.raises(ScheduleError) as error:
        make_plan(m.s.fusion)
    assert str(error.value).startswith(
        "ScheduleError[grid]: split('T4', 1, Special('nctaid.x') // 2, labels=('tile', 'turn')): "
        "the factor %nctaid.x // 2 is not known to be positive: a grid may have 1 CTAs\n"
        "  legal here: maximum(Special('nctaid.x') // 2, 1); "
        "the number of clusters that there are\n"
    )
