"""Random scalar expressions, and the numbers to evaluate them with."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from lowering.ground.expr import (
    Binary,
    Const,
    Expr,
    ScalarType,
    Select,
    Special,
    Var,
)
from lowering.ground.scalar_ops import COMPARISONS, OPS

INTEGERS = tuple(Var(n) for n in "abc")
WIDE = Var("w", ScalarType.I64)
PREDICATES = tuple(Var(n, ScalarType.PRED) for n in "pq")
PARAMS = (*INTEGERS, WIDE, *PREDICATES)
SPECIALS = (Special("ctaid.x"), Special("warpgroup.warp"))

LOGIC = ("and", "or")
RELATIONS = tuple(sorted(COMPARISONS - set(LOGIC)))
ARITHMETIC = tuple(sorted(set(OPS) - COMPARISONS - {"<<"}))
BOOLEANS = tuple(Const(i, ScalarType.PRED) for i in (0, 1))


def budget(examples: int) -> settings:
    """So many examples, at any speed: other tests may keep the machine busy."""
    slow = (HealthCheck.too_slow, HealthCheck.filter_too_much)
    return settings(max_examples=examples, deadline=None, suppress_health_check=slow)


values = st.integers(-9, 9)
environments = st.fixed_dictionaries(
    {v.name: values for v in (*INTEGERS, WIDE)}
    | {v.name: st.integers(0, 1) for v in PREDICATES}
    | {f"%{s.name}": st.integers(0, 9) for s in SPECIALS}
)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3, predicate: bool = False) -> Expr:
    """A well-typed tree of at most ``depth`` operators, built verbatim."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        if predicate:
            return draw(st.sampled_from((*PREDICATES, *BOOLEANS)))
        constants = st.builds(Const, values, st.sampled_from((ScalarType.I32, ScalarType.I64)))
        return draw(st.sampled_from((*INTEGERS, WIDE, *SPECIALS)) | constants)

    def part(of_predicates: bool) -> Expr:
        return draw(expressions(depth - 1, of_predicates))

    if draw(st.integers(0, 5)) == 0:
        return Select(part(True), part(predicate), part(predicate))
    if not predicate and draw(st.integers(0, 9)) == 0:
        return Binary("<<", part(False), Const(draw(st.integers(0, 4))))
    if not predicate:
        return Binary(draw(st.sampled_from(ARITHMETIC)), part(False), part(False))
    logical = draw(st.booleans())
    op = draw(st.sampled_from(LOGIC if logical else RELATIONS))
    return Binary(op, part(logical), part(logical))


any_expression = st.booleans().flatmap(lambda predicate: expressions(predicate=predicate))
