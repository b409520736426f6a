"""Shares of CTAs: what they take one behind the other is all that there is, at all sizes.

Where each CTA takes steps ``start .. stop``, with ``start = min(place * share, total)`` of its
place and ``stop = min(start + share, total)``, the first start is none, and the stop of one is the
start of the next: in front of the total the next multiple of the share, else the total. So all
steps are somebody's if as many shares as there are places are no less than the total. That they are
at the sizes that are followed says nothing of larger ones: what shares are counted by instead may
be more there.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowering.ground.expr import ONE, Binary, Const, Expr, Special, Var
from lowering.ground.poly import poly
from lowering.kernel.kernel import Kernel
from lowering.proof.linear import Facts
from lowering.proof.obligation import Obligation, Verdict
from lowering.proof.rings import defined

__all__ = ["shares"]

NAME = "shares of CTAs"

_CTA, _CTAS = Special("ctaid.x"), Special("nctaid.x")


def shares(kernel: Kernel, facts: Facts) -> Iterator[Obligation]:
    """One claim for each end that is a share behind a start of a CTA's place."""
    for name, value in facts.defined.items():
        match value:
            case Binary("min", Binary("+", Var(begin), more), end):
                match facts.defined.get(begin):
                    case Binary("min", Binary("*", place, share), total) if _count(kernel, place):
                        why = _wrong(kernel, place, (share, total), (more, end), facts)
                        verdict = Verdict.UNPROVED if why else Verdict.PROVED
                        yield Obligation(NAME, f"{begin} .. {name}", verdict, why)


def _count(kernel: Kernel, place: Expr) -> Expr | None:
    """How many places there are, if one is that of a CTA, or of a cluster, along x."""
    match defined(kernel, place):
        case Binary("//", inner, Const(n)) if n == kernel.cluster:
            return None if _count_of(inner) is None else _CTAS // n
        case inner:
            return _count_of(inner)


def _count_of(place: Expr) -> Expr | None:
    forms = poly(_CTA), poly(_CTAS) - poly(ONE) - poly(_CTA)
    return _CTAS if poly(place) in forms else None


def _wrong(
    kernel: Kernel, place: Expr, parts: tuple[Expr, Expr], ends: tuple[Expr, Expr], facts: Facts
) -> str:
    """What is wrong with shares, of which starts and stops have a share and a total; empty if
    nothing is.
    """
    count = _count(kernel, place)
    assert count is not None
    (share, total), (more, end) = (
        [poly(defined(kernel, e)) for e in pair] for pair in (parts, ends)
    )
    if share != more:
        return f"starts are {parts[0]} apart, and {ends[0]} is taken from there"
    if total != end:
        return f"starts go up to {parts[1]}, stops up to {ends[1]}"
    known = Facts(natural=facts.natural)
    if not known.follows(poly(count) * share - total, products=True):
        return f"{count} shares of {parts[0]} may be less than {parts[1]}"
    return ""
