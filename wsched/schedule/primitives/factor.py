"""What a factor may be: a positive number that all threads of all CTAs agree on.

A loop's two sides run in different warps and CTAs, so a factor of a thread's own would give them
different loops. What is left are numbers, the extents of the definition, the number of CTAs and
values from memory of which something is assumed; a factor of them has a range, which must not reach
0 for any problem that is launched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import (
    I32_MAX,
    ONE,
    Binary,
    Const,
    Expr,
    ScalarType,
    Special,
    Var,
    free_vars,
    maximum,
    parts_of,
)
from wsched.fusion import (
    MOST_PARTS,
    Fusion,
    IterType,
    PrimitiveCall,
    TensorView,
    call_text,
    has_many_parts,
    is_long,
    nest_text,
)
from wsched.schedule.primitives.checks import Reasons

__all__ = ["CTAS", "LARGEST", "check_factor", "check_traversal", "factor_reasons"]

CTAS = Special("nctaid.x")

LARGEST = I32_MAX
"""Largest number that a kernel counts to, and CTAs of a grid along x."""

_OPERATORS = ("+", "-", "*", "//", "%", "ceildiv", "min", "max")


@dataclass(frozen=True, slots=True)
class _Range:
    """All numbers from ``low`` to ``high``."""

    low: int
    high: int


def check_factor(fusion: Fusion, call: PrimitiveCall, t: TensorView, factor: Expr) -> None:
    """Refuse a factor of a split.

    Raises:
        ScheduleError: rule ``factor``.
    """
    reasons = factor_reasons(fusion, factor)
    if reasons:
        legal = tuple(_legal(fusion, factor))
        raise ScheduleError("factor", str(call), "; ".join(reasons), legal, nest_text(t))


def check_traversal(call: PrimitiveCall, t: TensorView, traversal: int) -> None:
    """Refuse a traversal factor of a merge.

    Raises:
        ScheduleError: rule ``factor``.
    """
    if not 0 <= traversal <= LARGEST:
        number = "" if is_long(traversal) else f" {traversal}"
        why = f"the traversal factor{number} is " + (
            "negative" if traversal < 0 else f"more than {LARGEST}, which a kernel counts to"
        )
        legal = ("0 for row-major", f"1 to {LARGEST}")
        raise ScheduleError("factor", str(call), why, legal, nest_text(t))


def factor_reasons(fusion: Fusion, factor: Expr, ctas: int | None = None) -> Reasons:
    """All reasons why something is no factor.

    Args:
        fusion: the fusion, for its extents and unknowns.
        factor: the expression.
        ctas: least number of CTAs along x; None where the cluster is not known yet, so that
            ``%nctaid.x // 2`` may be the number of clusters.
    """
    if isinstance(factor, Const) and factor.type is ScalarType.I32 and 0 < factor.value <= LARGEST:
        return []
    if has_many_parts(factor):
        return [f"the factor has more than {MOST_PARTS} parts"]
    parts = dict.fromkeys(parts_of(factor))
    if any(map(is_long, parts)):
        return ["a number of the factor has more than 64 bits"]
    known = _extents(fusion) if any(isinstance(e, Var) for e in parts) else {}
    foreign = [r for e in parts if (r := _foreign(e, known))]
    if foreign:
        return foreign
    reasons: Reasons = []
    found = _range(factor, known, ctas, reasons)
    if reasons:
        return list(dict.fromkeys(reasons))
    if found.low < 1:
        unsure = "not" if isinstance(factor, Const) else "not known to be"
        return [f"the factor {factor} is {unsure} positive"]
    if found.low > LARGEST:
        return [f"the factor {factor} is more than {LARGEST}, which a kernel counts to"]
    return []


def _extents(fusion: Fusion) -> dict[Expr, _Range]:
    """The extents of the definition, and what is assumed of the unknowns.

    A launch without results is none, but K may be empty.
    """
    kinds = dict.fromkeys((d.extent, d.iter_type) for t in fusion.tensors for d in t.logical)
    summed = {v for extent, kind in kinds if kind is IterType.Reduction for v in free_vars(extent)}
    every = dict.fromkeys(v for extent, _ in kinds for v in sorted(free_vars(extent), key=str))
    known: dict[Expr, _Range] = {v: _Range(0 if v in summed else 1, LARGEST) for v in every}
    return known | {Var(u.name): _Range(u.least, u.most) for u in fusion.unknowns}


def _foreign(e: Expr, known: Mapping[Expr, _Range]) -> str | None:
    """Why no factor has this in it, its parts aside."""
    match e:
        case Special() if e != CTAS:
            return f"{e} is not the same in all threads of a grid"
        case Var() if e not in known:
            return f"{e} is no extent of the definition"
        case Const(type=t) if t is not ScalarType.I32:
            return f"{e} is no number of type i32"
        case Const() | Special() | Var():
            return None
        case Binary(op=op) if op in _OPERATORS:
            return None
    return f"{e} is not made with {', '.join(_OPERATORS)}"


def _legal(fusion: Fusion, factor: Expr) -> Iterator[str]:
    """What is legal in place of a factor."""
    at_least = maximum(factor, ONE)
    if not isinstance(factor, Const) and not factor_reasons(fusion, at_least):
        yield call_text("maximum", (factor, 1))
        return
    yield f"1 to {LARGEST}"
    low = {v: r.low for v, r in _extents(fusion).items()}
    yield from (
        call_text("maximum", (v, 1)) if not n else f"Var({str(v)!r})" for v, n in low.items()
    )
    yield f"Special({CTAS.name!r})"


def _range(e: Expr, known: Mapping[Expr, _Range], ctas: int | None, reasons: Reasons) -> _Range:
    """A range that the values are in; adds to ``reasons`` what cannot be computed at all."""
    if isinstance(e, Const):
        return _Range(e.value, e.value)
    if not isinstance(e, Binary):
        return known[e] if e in known else _Range(ctas or 1, LARGEST)
    if ctas is None and e.op == "//" and e.lhs == CTAS and _positive(e.rhs):
        return _Range(1, LARGEST)
    a, b = (_range(x, known, ctas, reasons) for x in (e.lhs, e.rhs))
    if e.op in ("//", "%", "ceildiv"):
        found = [f"{e} divides by {e.rhs}, which is not known to be positive"] * (b.low < 1)
        found += [f"{e} divides {e.lhs}, which is not known to be positive or 0"] * (a.low < 0)
        reasons += found
        return _Range(0, LARGEST) if found else _quotient(e.op, a, b)
    return _combined(e.op, a, b)


def _positive(e: Expr) -> bool:
    return isinstance(e, Const) and e.value >= 1


def _quotient(op: str, a: _Range, b: _Range) -> _Range:
    """Of numbers that are not negative, by positive ones."""
    if op == "//":
        return _Range(a.low // b.high, a.high // b.low)
    if op == "ceildiv":
        return _Range(-(-a.low // b.high), -(-a.high // b.low))
    return a if a.high < b.low else _Range(0, min(a.high, b.high - 1))


def _combined(op: str, a: _Range, b: _Range) -> _Range:
    if op == "+":
        return _Range(a.low + b.low, a.high + b.high)
    if op == "-":
        return _Range(a.low - b.high, a.high - b.low)
    if op == "*":
        corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        return _Range(min(corners), max(corners))
    chosen = min if op == "min" else max
    return _Range(chosen(a.low, b.low), chosen(a.high, b.high))
