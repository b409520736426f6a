"""Numbers for what is computed, so that two expressions of one value are known by one name.

What is no sum, difference or product gets a name of its own, by its operation and by the values of
its operands, in which names of ``let`` are what they stand for. So nothing is written out: an
expression that has others in it twice, by a name each, would double with every name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lowering.ground.expr import Binary, Expr, Select, Var, binary, free_vars, select, type_of
from lowering.ground.poly import Poly, poly

__all__ = ["Numbering", "depends"]


def depends(e: Expr, names: frozenset[str], lets: Mapping[Var, Expr]) -> bool:
    """Whether an expression is told by some names, or what it is told by stands for such."""
    return any(
        v.name in names or (v in lets and depends(lets[v], names, lets)) for v in free_vars(e)
    )


@dataclass
class Numbering:
    """Values of expressions over what ``lets`` do not define, as polynomials over names."""

    lets: Mapping[Var, Expr]
    found: dict[Expr, Poly] = field(default_factory=dict)
    names: dict[Expr, Var] = field(default_factory=dict)

    def of(self, e: Expr) -> Poly:
        """The value of an expression; of two that are equal, in any way that is seen, the same."""
        known = self.found.get(e)
        if known is None:
            known = self.found[e] = self.value(e)
        return known

    def value(self, e: Expr) -> Poly:
        """What :meth:`of` finds."""
        match e:
            case Var() if e in self.lets:
                return self.of(self.lets[e])
            case Binary("+", a, b):
                return self.of(a) + self.of(b)
            case Binary("-", a, b):
                return self.of(a) - self.of(b)
            case Binary("*", a, b):
                return self.of(a) * self.of(b)
            case Binary(op, a, b):
                return self.named(binary(op, self.of(a).expr(), self.of(b).expr()))
            case Select(cond, a, b):
                parts = (self.of(x).expr() for x in (cond, a, b))
                return self.named(select(*parts))
        return poly(e)

    def named(self, e: Expr) -> Poly:
        """The value of an operation on values that have names."""
        if not isinstance(e, Binary | Select) or poly(e).terms != (((e,), 1),):
            return poly(e)  # folded
        return poly(self.names.setdefault(e, Var(f"#{len(self.names)}", type_of(e))))
