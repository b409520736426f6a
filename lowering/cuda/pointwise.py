"""Pointwise operations as C++: an expression for each, written for every element of a thread."""

from __future__ import annotations

from collections.abc import Mapping

from lowering.cuda.emitter import Emitter, Rule
from lowering.cuda.literals import literal
from lowering.errors import InternalError
from lowering.ir.nodes import Frag, FragPointwise, Stmt
from lowering.ir.types import DType

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
    "log": "logf({x})",
    "sqrt": "sqrtf({x})",
    "rsqrt": "rsqrtf({x})",
    "reciprocal": "1.0f / {x}",
    "tanh": "tanhf({x})",
    "erf": "erff({x})",
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
    "logical_and": "{x} && {y}",
    "logical_or": "{x} || {y}",
    "logical_not": "!{x}",
    "bitwise_and": "{x} && {y}",
    "bitwise_or": "{x} || {y}",
}
"""Each operation of ``lowering.ir.pointwise.OPS``; the arguments are names, elements or literals.

Division and square root are IEEE. The others are CUDA's single precision functions (at most 2 ulp;
powf 4), which need neither local memory nor calls, and ``ptx::sigmoid`` (see ``device.cuh``).
"""

_PRODUCTS = {2.0: "{x} * {x}", 3.0: "{x} * {x} * {x}"}
"""Powers with such a constant exponent are products, as in torch."""

_UNPACK = {DType.BF16: "ptx::cvt_f32_bf16", DType.F16: "ptx::cvt_f32_f16"}


def _pointwise(e: Emitter, s: FragPointwise) -> None:
    """A loop over the groups of 8 columns for each block of 64 rows; ``r`` is the group."""
    if s.op not in EXPRESSIONS:
        raise InternalError("emit_cuda", f"no C++ for the pointwise operation {s.op}")
    e.declare(s.out)
    kind = s.out.type
    for block in range(kind.blocks):
        with e.groups(kind.groups):
            for row in range(kind.group[0]):
                for col in range(kind.group[1]):
                    arguments = [_element(e, a, block, row, col) for a in s.args]
                    value = _expression(s, arguments)
                    e.out.line(f"{_element(e, s.out, block, row, col)} = {value};")


def _expression(s: FragPointwise, arguments: list[str]) -> str:
    exponent = s.args[-1]
    template = EXPRESSIONS[s.op]
    if s.op == "pow" and isinstance(exponent, float):
        template = _PRODUCTS.get(exponent, template)
    return template.format(**dict(zip("xyz", arguments, strict=False)))


def _element(e: Emitter, value: Frag | float, block: int, row: int, col: int) -> str:
    """An element of a group as a C++ operand; rows and columns that are one are repeated."""
    if not isinstance(value, Frag):
        text = literal(value)
        return f"({text})" if text.startswith("-") else text
    register, half = e.element(value, block, row, col)
    unpack = _UNPACK.get(value.type.dtype)
    return f"{unpack}<{half}>({register})" if unpack else register


RULES: Mapping[type[Stmt], Rule] = {FragPointwise: _pointwise}
