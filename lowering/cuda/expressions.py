"""Scalar expressions as C++.

Values are ``int`` (i32), ``long long`` (i64) and ``bool`` (pred). Divided values are not negative,
so floor division is C's; by a power of two it is a shift or a mask, otherwise an unsigned division
(``ptx::div``), which the hardware does with fewer instructions than a signed one.
"""

from __future__ import annotations

from collections.abc import Callable

from lowering.ground.errors import InternalError
from lowering.ground.expr import (
    Binary,
    Const,
    Expr,
    ScalarType,
    Select,
    Special,
    Var,
    plain,
    type_of,
)

__all__ = ["C_TYPES", "SPECIAL_REGISTERS", "expression", "power_of_two"]

C_TYPES = {ScalarType.I32: "int", ScalarType.I64: "long long", ScalarType.PRED: "bool"}

SPECIAL_REGISTERS = {
    "ctaid.x": ("ctaid", "blockIdx.x"),
    "ctaid.y": ("ctaid_y", "blockIdx.y"),
    "ctaid.z": ("ctaid_z", "blockIdx.z"),
    "nctaid.x": ("nctaid", "gridDim.x"),
    "nctaid.y": ("nctaid_y", "gridDim.y"),
    # The shuffle tells the compiler that all lanes hold the same warp index, so that what is
    # computed from it (branches, descriptors, addresses) can live in uniform registers.
    "warp": ("warp", "__shfl_sync(0xffffffffu, threadIdx.x / 32, 0)"),
    "lane": ("lane", "threadIdx.x % 32"),
    "warpgroup.warp": ("warpgroup_warp", "warp & 3"),
    "cluster.ctarank": ("cluster_ctarank", "ptx::cluster_ctarank()"),
    "smid": ("smid", "ptx::smid()"),
}
"""Special register -> (C++ name, how it is read)."""

# C++ operator and binding strength; "^" binds weaker than comparisons there.
_INFIX = {
    "or": ("||", 1), "and": ("&&", 2), "^": ("^", 3), "==": ("==", 5), "!=": ("!=", 5),
    "<": ("<", 6), "<=": ("<=", 6), "<<": ("<<", 7), "+": ("+", 8), "-": ("-", 8), "*": ("*", 9),
}  # fmt: skip
_SHIFT, _AND, _ATOM = 7, 4, 10
_CALLS = {
    "//": "ptx::div", "%": "ptx::mod", "ceildiv": "ptx::ceildiv", "min": "min", "max": "max",
    "mulhi": "ptx::mulhi",
}  # fmt: skip


def power_of_two(value: int) -> int | None:
    """log2 of a positive power of two, else None."""
    return value.bit_length() - 1 if value > 0 and value & (value - 1) == 0 else None


def expression(e: Expr, name_of: Callable[[Expr], str], *, addend: bool = False) -> str:
    """C++ text of ``e``; ``name_of`` gives the identifier of a Var or Special.

    As an ``addend`` the text may follow a ``+``.
    """
    return _show(e, name_of, _INFIX["+"][1] if addend else 0)


def _show(e: Expr, name_of: Callable[[Expr], str], outer: int) -> str:
    if type(e) is Var or type(e) is Special:
        return name_of(e)
    if type(e) is Const:
        return _number(e, outer)
    if type(e) is Select:
        sides = (_widened(x, type_of(e), name_of, 1) for x in (e.then, e.other))
        return f"({_show(e.cond, name_of, 1)} ? {' : '.join(sides)})"
    if type(e) is not Binary:
        raise InternalError("emit_cuda", f"no C++ for the expression {e!r}")
    if e.op == "stage" or e.op == "parity":
        return _show(plain(e), name_of, outer)
    return _binary(e.op, e.lhs, e.rhs, name_of, outer)


def _number(e: Const, outer: int) -> str:
    if e.type is ScalarType.PRED:
        return "true" if e.value else "false"
    text = f"{e.value}{'ll' if e.type is ScalarType.I64 else ''}"
    return f"({text})" if e.value < 0 and outer else text


def _binary(op: str, a: Expr, b: Expr, name_of: Callable[[Expr], str], outer: int) -> str:
    log = power_of_two(b.value) if isinstance(b, Const) else None
    if op == "//" and log is not None:
        return _paren(f"{_show(a, name_of, _ATOM)} >> {log}", _SHIFT, outer)
    if op == "%" and log is not None and isinstance(b, Const):
        return _paren(f"{_show(a, name_of, _ATOM)} & {b.value - 1}", _AND, outer)
    if op in _CALLS:
        wide = ScalarType.I64 if ScalarType.I64 in (type_of(a), type_of(b)) else ScalarType.I32
        operands = ", ".join(_widened(x, wide, name_of, 0) for x in (a, b))
        return f"{_CALLS[op]}({operands})"
    symbol, level = _INFIX[op]
    text = f"{_show(a, name_of, level)} {symbol} {_show(b, name_of, level + 1)}"
    return _paren(text, level, outer)


def _paren(text: str, level: int, outer: int) -> str:
    # Shifts and masks inside something else are always in parentheses: few know C++'s rules there.
    return f"({text})" if level < outer or (outer and level in (_SHIFT, _AND)) else text


def _widened(e: Expr, to: ScalarType, name_of: Callable[[Expr], str], outer: int) -> str:
    """``e`` converted, where its type differs and C++ would have to choose between overloads."""
    if type_of(e) is to or (isinstance(e, Const) and to is ScalarType.I32):
        return _show(e, name_of, outer)
    if isinstance(e, Const):
        return _show(Const(e.value, to), name_of, outer)
    return f"({C_TYPES[to]})({_show(e, name_of, 0)})"
