"""Factors drawn at random, and what is wrong with one, found by computing it in many launches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

from lowering.ground.expr import (
    SPECIALS,
    Binary,
    Const,
    Expr,
    Special,
    Var,
    binary,
    children,
    evaluate,
)

__all__ = ["draw_factor", "why_no_factor"]

_EXTENTS = tuple(map(Var, "MNK"))
_CTAS = Special("nctaid.x")
_FOREIGN = (*(Special(n) for n in SPECIALS if n != _CTAS.name), Var("sms"), Var("tile"))
_OPS = ("//", "//", "//", "ceildiv", "ceildiv", "*", "+", "-", "%", "min", "max", "max")

_QUOTIENTS = ("//", "%", "ceildiv")

_SIZES = (1, 2, 63, 64, 200)
_GRIDS = (1, 2, 3, 132)


def draw_factor(rng: Random, depth: int = 2) -> Expr:
    """Numbers, extents, special registers, and what is made of them; a third is only one of these.

    Quotients of the number of CTAs by a number are left out: whether those are clusters is no
    matter of the factor.
    """
    if not depth or rng.random() < 0.3:
        leaf = rng.random()
        if leaf < 0.4:
            return rng.choice(_EXTENTS)
        if leaf < 0.55:
            return _CTAS
        return Const(rng.choice((1, 2, 3, 4))) if leaf < 0.9 else rng.choice(_FOREIGN)
    op = rng.choice(_OPS)
    a, b = draw_factor(rng, depth - 1), draw_factor(rng, depth - 1)
    if op == "max":
        b = Const(1)
    elif (op, a) == ("//", _CTAS):
        a = _EXTENTS[0]
    return binary(op, a, b)


def _launches() -> Iterator[dict[str, int]]:
    for m, n, k, grid in product(_SIZES, _SIZES, (0, *_SIZES), _GRIDS):
        yield {"M": m, "N": n, "K": k, "%nctaid.x": grid}


def why_no_factor(factor: Expr) -> str | None:
    """What is wrong with a factor, and where; None if it is one in all launches that are tried."""
    foreign = [e for e in _FOREIGN if e in _all(factor)]
    if foreign:
        return f"{foreign[0]} is a thread's own, or nobody's"
    for env in _launches():
        for e in reversed(_all(factor)):
            if isinstance(e, Binary) and e.op in _QUOTIENTS and not _divides(e, env):
                return f"{e} is not computed in {env}"
        if evaluate(factor, env) < 1:
            return f"it is {evaluate(factor, env)} in {env}"
    return None


def _divides(e: Binary, env: dict[str, int]) -> bool:
    """Whether a number that is not negative is divided by a positive one."""
    return evaluate(e.lhs, env) >= 0 and evaluate(e.rhs, env) >= 1


def _all(e: Expr) -> list[Expr]:
    """An expression and all in it, each behind what it is in."""
    return [e, *(x for c in children(e) for x in _all(c))]
