"""Pointwise operations as C++: an expression for each, written for every element of a thread."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from lowering.cuda import elements
from lowering.cuda.emitter import Emitter, Rule
from lowering.cuda.fragments import updated
from lowering.cuda.guarded import guarded
from lowering.cuda.literals import literal
from lowering.cuda.trigonometry import FUNCTIONS
from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.ground.pairs import PAIRED, bits_of
from lowering.kernel.nodes import Frag, FragPointwise, FragUpdate, Stmt
from lowering.kernel.pointwise import OPS

__all__ = ["EXPRESSIONS", "RULES"]

EXPRESSIONS: Mapping[str, str] = {
    "add": "{x} + {y}",
    "sub": "{x} - {y}",
    "mul": "{x} * {y}",
    "div": "{x} / {y}",
    "neg": "-{x}",
    "abs": "fabsf({x})",
    "relu": "ptx::max_nan({x}, 0.0f)",
    "exp": "expf({x})",
    "exp2": "exp2f({x})",
    "expm1": "expm1f({x})",
    "log": "logf({x})",
    "log2": "log2f({x})",
    "log10": "log10f({x})",
    "log1p": "log1pf({x})",
    "sqrt": "sqrtf({x})",
    "rsqrt": "rsqrtf({x})",
    "reciprocal": "1.0f / {x}",
    "tanh": "tanhf({x})",
    "sin": "sine_of_turns({x}, 0)",
    "cos": "sine_of_turns({x}, 1)",
    "erf": "erff({x})",
    "erfc": "erfcf({x})",
    "ceil": "ceilf({x})",
    "floor": "floorf({x})",
    "trunc": "truncf({x})",
    "round": "rintf({x})",
    "frac": "{x} - truncf({x})",
    "sigmoid": "ptx::sigmoid({x})",
    "silu": "{x} * ptx::sigmoid({x})",
    "pow": "powf({x}, {y})",
    "minimum": "ptx::min_nan({x}, {y})",
    "maximum": "ptx::max_nan({x}, {y})",
    "where": "{x} ? {y} : {z}",
    "lt": "{x} < {y}",
    "le": "{x} <= {y}",
    "gt": "{x} > {y}",
    "ge": "{x} >= {y}",
    "eq": "{x} == {y}",
    "ne": "{x} != {y}",
    "isnan": "{x} != {x}",
    "isinf": "fabsf({x}) == __uint_as_float(0x7f800000u)",
    "isfinite": "fabsf({x}) < __uint_as_float(0x7f800000u)",
    "logical_and": "{x} && {y}",
    "logical_or": "{x} || {y}",
    "logical_not": "!{x}",
    "bitwise_and": "{x} && {y}",
    "bitwise_or": "{x} || {y}",
}
"""Each operation of ``lowering.kernel.pointwise.OPS``; arguments are names, elements or literals.

Division and square root are IEEE. The others are CUDA's single precision functions (at most 2 ulp;
powf and erfcf 4), which need no local memory, and ``ptx::sigmoid`` (see ``device.cuh``). In place
of those of CUDA that do need it, the trigonometric ones, are wsched's own (``trigonometry.py``).
"""

_PRODUCTS = {2.0: "{x} * {x}", 3.0: "{x} * {x} * {x}"}
"""Powers with such a constant exponent are products, as in torch."""


def _pointwise(e: Emitter, s: FragPointwise) -> None:
    """A loop over the groups of 8 columns for each block of 64 rows; ``r`` is the group."""
    if s.op not in EXPRESSIONS:
        raise InternalError("emit_cuda", f"no C++ for the pointwise operation {s.op}")
    e.declare(s.out)
    if s.out.type.dtype in PAIRED:
        _in_pairs(e, s)
    else:
        _elements(e, s)


_PAIR = """\
__device__ __forceinline__ unsigned NAME(unsigned x, unsigned y) {
  unsigned pair;
  asm("OP.KINDx2 %0, %1, %2;" : "=r"(pair) : "r"(x), "r"(y));
  return pair;
}"""
"""Rounded to nearest even, which is not said: so ptxas may make one instruction of it and of a
product that is exact."""


def _in_pairs(e: Emitter, s: FragPointwise) -> None:
    """A line for two neighbours of a row, which are a register."""
    kind = s.out.type
    name = f"{s.op}_{kind.dtype.ptx}x2"
    text = _PAIR.replace("NAME", name).replace("OP", s.op).replace("KIND", kind.dtype.ptx)
    e.functions[name] = text
    rows, cols = kind.group
    for block in range(kind.blocks):
        with e.groups(kind.groups):
            for row, col in product(range(rows), range(0, cols, 2)):
                register, _ = e.element(s.out, block, row, col)
                args = ", ".join(_pair(e, x, kind.dtype, (block, row, col)) for x in s.args)
                e.out.line(f"{register} = {name}({args});")


def _pair(e: Emitter, value: Frag | float, dtype: DType, at: tuple[int, int, int]) -> str:
    """Two neighbours of an argument, or the one element or number that both are."""
    if not isinstance(value, Frag):
        bits = bits_of(dtype, value)
        if bits is None:
            raise InternalError("emit_cuda", f"{value}, which {dtype.value} has not")
        return f"{bits * 0x10001:#x}u"
    block, row, col = at
    first, second = (e.element(value, block, row, col + n) for n in (0, 1))
    if first != second:
        return first[0]
    return f"__byte_perm({first[0]}, 0, {(0x1010, 0x3232)[first[1]]:#x})"


def _update(e: Emitter, s: FragUpdate) -> None:
    """The same in place: the plan gave ``out`` the registers of ``acc``, and a name to the part of
    them that is updated.
    """
    if s.op not in EXPRESSIONS:
        raise InternalError("emit_cuda", f"no C++ for the pointwise operation {s.op}")
    part = updated(s)
    _elements(e, FragPointwise(part, s.op, (part, *s.args)))


def _elements(e: Emitter, s: FragPointwise) -> None:
    if s.op in FUNCTIONS:
        name, text = FUNCTIONS[s.op]
        e.functions[name] = text
    any_numbers, shorter = _template(s), guarded(s)
    if shorter is None:
        _each(e, s, any_numbers)
        return
    with e.out.block(""):
        e.out.line("bool plain = true;")
        _each(e, s, shorter.holds, "plain = plain & ({value});")
        with e.out.block("if (plain)"):
            _each(e, s, shorter.plain)
        with e.out.block("else"):
            _each(e, s, any_numbers)


def _each(e: Emitter, s: FragPointwise, template: str, line: str = "{out} = {value};") -> None:
    """A line for each element, with its arguments in the template."""
    kind = s.out.type
    for block in range(kind.blocks):
        with e.groups(kind.groups):
            for row in range(kind.group[0]):
                for col in range(kind.group[1]):
                    arguments = [_argument(e, s, i, (block, row, col)) for i in range(len(s.args))]
                    value = template.format(**dict(zip("xyz", arguments, strict=False)))
                    out = _element(e, s.out, block, row, col)
                    e.out.line(line.format(out=out, value=value))


def _template(s: FragPointwise) -> str:
    exponent = s.args[-1]
    if s.op == "pow" and isinstance(exponent, float):
        return _PRODUCTS.get(exponent, EXPRESSIONS[s.op])
    return EXPRESSIONS[s.op]


def _argument(e: Emitter, s: FragPointwise, index: int, at: tuple[int, int, int]) -> str:
    """An element of an argument, or the number that it is."""
    value = s.args[index]
    if isinstance(value, Frag):
        return _element(e, value, *at)
    if index < OPS[s.op].conditions:
        return "true" if value else "false"
    text = literal(value)
    return f"({text})" if text.startswith("-") else text


def _element(e: Emitter, value: Frag, block: int, row: int, col: int) -> str:
    """An element of a group as a C++ operand; rows and columns that are one are repeated."""
    register, half = e.element(value, block, row, col)
    return elements.value(value.type.dtype, register, half)


RULES: Mapping[type[Stmt], Rule] = {FragPointwise: _pointwise, FragUpdate: _update}
