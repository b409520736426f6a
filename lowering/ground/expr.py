"""Scalar expressions: the one integer language of extents, loop bounds, indices and predicates.

Fusion IR uses it for extents, kernel IR for everything that is not a fragment. Expressions are
immutable trees. Python operators build them and fold constants; the constructors build verbatim,
so that a parsed text equals the expression it was printed from. Division and modulo are floor
division, as in Python. CUDA's truncates, and nothing here knows ranges: whoever builds a kernel
divides only what is never negative, and the machine faults on anything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from lowering.ground.frozen import quick
from lowering.ground.scalar_ops import COMPARISONS, DIVISIONS, NEUTRAL, NEUTRAL_RIGHT, OPS

__all__ = [
    "FALSE", "I32_MAX", "ONE", "TRUE", "ZERO", "Binary", "Const", "Expr", "ExprLike",
    "ScalarType", "Select", "Special", "Var", "as_expr", "binary", "ceildiv", "children",
    "evaluate", "free_vars", "maximum", "minimum", "parity_of", "parts_of", "plain",
    "select", "stage_of", "substitute", "type_of",
]  # fmt: skip


I32_MAX = 2**31 - 1
"""Largest i32: no counter, extent or coordinate of a kernel is larger."""


class ScalarType(Enum):
    """Type of a scalar; the value is its text."""

    I32 = "i32"
    I64 = "i64"
    PRED = "pred"


@dataclass(frozen=True)
class Expr:
    """Base of all scalar expressions; the kinds below are all, none of which has kinds of its own.

    Trees are looked up and asked for their variables in every pass; what depends on a tree alone
    is kept with it when it is first asked for. Until then there is None, of the class: to catch
    what a slot raises costs as much as most answers.
    """

    _free: ClassVar[frozenset[Var] | None] = None
    _hash: ClassVar[int | None] = None
    _poly: ClassVar[Any] = None  # see :mod:`lowering.ground.poly`

    def __add__(self, other: ExprLike) -> Expr:
        return binary("+", self, as_expr(other))

    def __radd__(self, other: int) -> Expr:
        return binary("+", as_expr(other), self)

    def __sub__(self, other: ExprLike) -> Expr:
        return binary("-", self, as_expr(other))

    def __rsub__(self, other: int) -> Expr:
        return binary("-", as_expr(other), self)

    def __mul__(self, other: ExprLike) -> Expr:
        return binary("*", self, as_expr(other))

    def __rmul__(self, other: int) -> Expr:
        return binary("*", as_expr(other), self)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return binary("//", self, as_expr(other))

    def __mod__(self, other: ExprLike) -> Expr:
        return binary("%", self, as_expr(other))

    def __lshift__(self, other: ExprLike) -> Expr:
        return binary("<<", self, as_expr(other))

    def __xor__(self, other: ExprLike) -> Expr:
        return binary("^", self, as_expr(other))

    def __lt__(self, other: ExprLike) -> Expr:
        return binary("<", self, as_expr(other))

    def __le__(self, other: ExprLike) -> Expr:
        return binary("<=", self, as_expr(other))

    def __gt__(self, other: ExprLike) -> Expr:
        return binary("<", as_expr(other), self)

    def __ge__(self, other: ExprLike) -> Expr:
        return binary("<=", as_expr(other), self)

    def eq(self, other: ExprLike) -> Expr:
        """``self == other`` as an expression (``==`` itself compares trees)."""
        return binary("==", self, as_expr(other))

    def logical_and(self, other: ExprLike) -> Expr:
        """``self and other`` on predicates."""
        return binary("and", self, as_expr(other))

    def __str__(self) -> str:
        return _show(self, 0)


ExprLike = Expr | int


@quick
@dataclass(frozen=True, slots=True)
class Const(Expr):
    """An integer, or 0/1 of type ``pred`` (printed ``false``/``true``)."""

    value: int
    type: ScalarType = ScalarType.I32

    __str__ = Expr.__str__

    def __hash__(self) -> int:
        return hash(self.value)  # as of a variable


@quick
@dataclass(frozen=True, slots=True)
class Var(Expr):
    """A scalar with a name: a kernel parameter, a ``let``, a loop index or a carried value."""

    name: str
    type: ScalarType = ScalarType.I32

    __str__ = Expr.__str__

    def __hash__(self) -> int:
        return hash(self.name)  # two types of one name are rare, an enum's hash is slow


@quick
@dataclass(frozen=True, slots=True)
class Special(Expr):
    """A special register: ``%ctaid.x``, ``.y``, ``.z``, ``%nctaid.x``, ``.y``, ``%warp`` (warp of
    the CTA), ``%lane``, ``%warpgroup.warp`` (warp 0..3 of its warpgroup), ``%cluster.ctarank``.
    """

    name: str

    __str__ = Expr.__str__


@quick
@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """``lhs op rhs``; ``op`` is one of the keys of :data:`OPS`."""

    op: str
    lhs: Expr
    rhs: Expr

    __str__ = Expr.__str__

    def __hash__(self) -> int:
        return _kept_hash(self, self.op, self.lhs, self.rhs)


@quick
@dataclass(frozen=True, slots=True)
class Select(Expr):
    """``then if cond else other``, both sides evaluated."""

    cond: Expr
    then: Expr
    other: Expr

    __str__ = Expr.__str__

    def __hash__(self) -> int:
        return _kept_hash(self, self.cond, self.then, self.other)


def _kept_hash(e: Expr, *parts: object) -> int:
    found = e._hash
    if found is None:
        found = hash(parts)
        object.__setattr__(e, "_hash", found)
    return found


ZERO, ONE = Const(0), Const(1)
FALSE, TRUE = Const(0, ScalarType.PRED), Const(1, ScalarType.PRED)
_SMALL = {n: Const(n) for n in range(257)}  # most numbers are such, and are made once

SPECIALS = (
    "ctaid.x", "ctaid.y", "ctaid.z", "nctaid.x", "nctaid.y", "warp", "lane", "warpgroup.warp",
    "cluster.ctarank", "smid",
)  # fmt: skip


def as_expr(value: ExprLike | bool) -> Expr:
    """``value`` as an expression; a Python bool becomes a predicate."""
    if type(value) is not int:
        if isinstance(value, Expr):
            return value
        if isinstance(value, bool):
            return TRUE if value else FALSE
    return _SMALL.get(value) or Const(value)


def ceildiv(a: ExprLike, b: ExprLike) -> Expr:
    """``a / b`` rounded up, the trip count of a split."""
    return binary("ceildiv", as_expr(a), as_expr(b))


def stage_of(step: ExprLike, stages: int) -> Expr:
    """The stage of a step, in a ring of so many."""
    return binary("stage", as_expr(step), Const(stages))


def parity_of(step: ExprLike, stages: int) -> Expr:
    """The parity of the phase in which a ring of so many stages is at a step."""
    return binary("parity", as_expr(step), Const(stages))


def plain(e: Expr) -> Expr:
    """``e``, or the division that it is, if it is a stage or a parity."""
    match e:
        case Binary("stage", m, stages):
            return m % stages
        case Binary("parity", m, stages):
            return m // stages % 2
    return e


def minimum(a: ExprLike, b: ExprLike) -> Expr:
    """The smaller of two integers."""
    return binary("min", as_expr(a), as_expr(b))


def maximum(a: ExprLike, b: ExprLike) -> Expr:
    """The larger of two integers."""
    return binary("max", as_expr(a), as_expr(b))


def select(cond: Expr, then: ExprLike, other: ExprLike) -> Expr:
    """``then if cond else other``, folded when the condition is constant or both sides agree.

    The type stays, as in :func:`binary`.
    """
    plain = Select(cond, as_expr(then), as_expr(other))
    if not isinstance(cond, Const) and plain.then != plain.other:
        return plain
    never = isinstance(cond, Const) and not cond.value
    chosen = plain.other if never else plain.then
    return chosen if type_of(chosen) is type_of(plain) else plain


def type_of(e: Expr) -> ScalarType:
    """Scalar type of ``e``: comparisons are predicates, arithmetic widens to i64."""
    if type(e) is Const or type(e) is Var:
        return e.type
    if type(e) is Binary:
        return _type_of_binary(e.op, e.lhs, e.rhs)
    if type(e) is Select:
        return _wider(type_of(e.then), type_of(e.other))
    return ScalarType.I32


def _type_of_binary(op: str, a: Expr, b: Expr) -> ScalarType:
    return ScalarType.PRED if op in COMPARISONS else _wider(type_of(a), type_of(b))


def _wider(a: ScalarType, b: ScalarType) -> ScalarType:
    if a is b:
        return a
    return ScalarType.I64 if ScalarType.I64 in (a, b) else ScalarType.I32


def binary(op: str, a: Expr, b: Expr) -> Expr:
    """``Binary(op, a, b)`` with constants folded and neutral elements dropped.

    The type stays: what folding would make narrower is left as it is.
    """
    folded = None
    if type(b) is Const:
        if type(a) is not Const:
            folded = _neutral(op, b, a, right=True)
        elif b.value or op not in DIVISIONS:
            kind = ScalarType.PRED if op in COMPARISONS else _wider(a.type, b.type)
            return _number(OPS[op][0](a.value, b.value), kind)
    elif type(a) is Const:
        folded = _neutral(op, a, b)
    return Binary(op, a, b) if folded is None else folded


def _neutral(op: str, x: Const, y: Expr, right: bool = False) -> Expr | None:
    """What ``x op y``, or ``y op x``, is where ``x`` decides it or leaves the other side alone.

    None where it does neither, or ``y`` has another type than the two together.
    """
    if op in ("and", "or"):
        if bool(x.value) is (op == "or"):
            return TRUE if x.value else FALSE
        return y if type_of(y) is ScalarType.PRED else None
    if not 0 <= x.value <= 1:
        return None
    if (op, x.value) in (NEUTRAL_RIGHT if right else NEUTRAL):
        kind = type_of(y)
        return y if _wider(x.type, kind) is kind else None
    if (op, x.value) == ("*", 0) or (right and (op, x.value) == ("%", 1)):
        return _number(0, _wider(x.type, type_of(y)))
    return None


def _number(value: int, kind: ScalarType) -> Const:
    """A number of a type; most are small and of one, and are made once."""
    return (_SMALL.get(value) if kind is ScalarType.I32 else None) or Const(value, kind)


def children(e: Expr) -> tuple[Expr, ...]:
    """Direct operands of ``e``."""
    if type(e) is Binary:
        return (e.lhs, e.rhs)
    return (e.cond, e.then, e.other) if type(e) is Select else ()


def parts_of(e: Expr) -> Iterator[Expr]:
    """An expression and all in it, outermost first."""
    yield e
    for c in children(e):
        yield from parts_of(c)


_NONE = frozenset[Var]()


def free_vars(e: Expr) -> frozenset[Var]:
    """All variables in ``e``."""
    found = e._free
    if found is None:
        found = frozenset((e,)) if isinstance(e, Var) else _NONE
        for c in children(e):
            inside = free_vars(c)
            found = found | inside if found else inside
        object.__setattr__(e, "_free", found)
    return found


def substitute(e: Expr, env: Mapping[Var, Expr] | Mapping[Special, Expr]) -> Expr:
    """``e`` with variables, or special registers, replaced; what changes is folded again."""
    if type(e) is Var or type(e) is Special:
        table: Mapping[Any, Expr] = env
        return table.get(e, e)
    if type(e) is Binary:
        a, b = substitute(e.lhs, env), substitute(e.rhs, env)
        return e if a is e.lhs and b is e.rhs else binary(e.op, a, b)
    if type(e) is Select:
        c, a, b = (substitute(x, env) for x in children(e))
        return e if c is e.cond and a is e.then and b is e.other else select(c, a, b)
    return e


def evaluate(e: Expr, env: Mapping[str, int]) -> int:
    """Value of ``e``; ``env`` maps variable names, and special registers as ``%name``."""
    match e:
        case Const(value):
            return value
        case Var(name):
            return env[name]
        case Special(name):
            return env["%" + name]
        case Select(c, a, b):
            return evaluate(a, env) if evaluate(c, env) else evaluate(b, env)
        case Binary(op, a, b):
            return OPS[op][0](evaluate(a, env), evaluate(b, env))
    raise TypeError(f"not an expression: {e!r}")


def _show(e: Expr, outer: int) -> str:
    match e:
        case Const(value, ScalarType.PRED):
            return "true" if value else "false"
        case Const(value, t):
            return f"{value}" if t is ScalarType.I32 else f"{value}:{t.value}"
        case Var(name):
            return name
        case Special(name):
            return "%" + name
        case Select():
            return f"select({', '.join(_show(c, 0) for c in children(e))})"
        case Binary(op, a, b) if OPS[op][1] == 0:
            return f"{op}({_show(a, 0)}, {_show(b, 0)})"
        case Binary(op, a, b):
            level = OPS[op][1]
            text = f"{_show(a, level)} {op} {_show(b, level + 1)}"
            return f"({text})" if level < outer else text
    raise TypeError(f"not an expression: {e!r}")
