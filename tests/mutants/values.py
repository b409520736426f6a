"""Which values names of a kernel can have, of those that have few.

The least sets that hold what the number of a warpgroup, a trip of a loop with a constant number of
them, a constant, and the rest of a size are, and all that is computed of such: a name in a loop has
what it begins with and what it becomes. Of a name with more values than a few, and of what memory,
a parameter or a special register says, nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod

from lowering.ground.expr import (
    Binary,
    Const,
    Expr,
    Special,
    Var,
    evaluate,
    free_vars,
    parts_of,
    substitute,
)
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import For, Let, Roles
from lowering.kernel.visit import walk
from lowering.proof.linear import Facts, natural

__all__ = ["same", "values_of"]

_MANY = 64
"""Values of a name that are still few, and of several names at once the square of it."""

_Values = frozenset[int]
_Known = dict[str, _Values | None]
_Bound = tuple[str, _Values | Expr | None]


def values_of(kernel: Kernel, names: Iterable[str]) -> Mapping[str, _Values]:
    """The values of some names, and of what these are computed of, of each that has few."""
    bound = list(_needed(list(_bound(kernel)), set(names)))
    known: _Known = {name: _Values() for name, _ in bound}
    while (found := _grown(bound, known)) != known:
        known = found
    return {name: values for name, values in known.items() if values}


def same(kernel: Kernel, old: Expr, new: Expr) -> bool:
    """Whether two expressions have one value, whatever the names in them stand for in a kernel."""
    names = {v.name for e in (old, new) for v in free_vars(e)}
    places = _places([old, new], values_of(kernel, names))
    return places is not None and all(evaluate(old, at) == evaluate(new, at) for at in places)


def _needed(bound: Sequence[_Bound], names: set[str]) -> Iterator[_Bound]:
    """What is said of some names, and of those in what is said."""
    said = [(name, values) for name, values in bound if name in names]
    more = {v.name for _, e in said if isinstance(e, Expr) for v in free_vars(e)} - names
    return _needed(bound, names | more) if more else iter(said)


def _bound(kernel: Kernel) -> Iterator[_Bound]:
    """Names, each with values that it may have, or with what they are computed of."""
    lets = {s.var: s.value for s in walk(kernel.body) if isinstance(s, Let)}
    sizes = frozenset(p.name for p in kernel.params)
    facts = Facts(natural=sizes, defined={v.name: e for v, e in lets.items()})

    def of_sizes(e: Expr) -> bool:
        """Whether a number is of sizes alone, any of them, and not negative."""
        names = {v.name for v in free_vars(_written(e, lets))}
        return bool(names) and names <= sizes and natural(e, facts)

    for s in walk(kernel.body):
        match s:
            case Roles():
                for role in (r for r in s.roles if r.group is not None):
                    yield str(role.group), frozenset(range(role.warps // 4))
            case Let(value=Binary("%", x, Const(int() as n))) if n <= _MANY and of_sizes(x):
                yield s.var.name, frozenset(range(n))
            case Let():
                yield s.var.name, s.value
            case For():
                yield s.var.name, _trips(s)
                inner = {x.var: x.value for x in s.body if isinstance(x, Let)}
                for carry, new in zip(s.carries, s.yields, strict=True):
                    for e in (carry.init, new):
                        if isinstance(e, Expr):
                            written = _written(e, inner)
                            yield from ((str(v), written) for v in (carry.var, carry.result))


def _written(e: Expr, lets: Mapping[Var, Expr]) -> Expr:
    """A number with what names of a trip stand for: what each says by itself is of no use where a
    condition and its choice are of the same.
    """
    for _ in lets:
        if not lets.keys() & free_vars(e):
            break
        e = substitute(e, lets)
    return e


def _trips(loop: For) -> _Values | None:
    """The values of a loop's own variable."""
    match loop.start, loop.stop, loop.step:
        case Const(start), Const(stop), Const(step):
            return frozenset(range(start, stop, step))
    return None


def _grown(bound: Iterable[_Bound], known: _Known) -> _Known:
    """The same and what is computed of it in one step; None of a name with many values."""
    found = dict(known)
    for name, values in bound:
        before, more = found[name], _image(values, known) if isinstance(values, Expr) else values
        both = None if before is None or more is None else before | more
        found[name] = None if both is None or len(both) > _MANY else both
    return found


def _image(e: Expr, known: Mapping[str, _Values | None]) -> _Values | None:
    """The values of an expression."""
    places = _places([e], known)
    return None if places is None else frozenset(int(evaluate(e, at)) for at in places)


def _places(es: list[Expr], known: Mapping[str, _Values | None]) -> list[dict[str, int]] | None:
    """All values together that the names of some expressions may have; None if not known, or of too
    many.
    """
    names = sorted({v.name for e in es for v in free_vars(e)})
    few = [values for n in names if (values := known.get(n)) is not None]
    known_at_all = len(few) == len(names) and not any(
        isinstance(p, Special) for e in es for p in parts_of(e)
    )
    if not known_at_all or prod(map(len, few)) > _MANY**2:
        return None
    return [dict(zip(names, at, strict=True)) for at in product(*few)]
