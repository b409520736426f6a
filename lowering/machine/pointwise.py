"""Pointwise operations on the machine: float32 arithmetic of NumPy, with torch's rules for NaN."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from lowering.ground.types import FragmentType
from lowering.kernel.nodes import Frag, FragPointwise, FragUpdate
from lowering.kernel.pointwise import OPS
from lowering.machine.fragment import Array, rounded, to_float32
from lowering.machine.program import Program, Run
from lowering.machine.state import Registers, Warp

__all__ = ["FUNCTIONS", "frag_pointwise", "frag_update"]


def _in_float64(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of Python's, rounded to float32 in the end."""
    vectorized = np.frompyfunc(function, 1, 1)
    return lambda x: np.array(vectorized(np.asarray(x, np.float64)), np.float32)


def _sigmoid(x: Array) -> Array:
    return np.float32(1) / (np.float32(1) + np.exp(-x))


FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "abs": np.abs,
    "relu": lambda x: np.maximum(x, np.float32(0)),
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: np.float32(1) / np.sqrt(x),
    "reciprocal": lambda x: np.float32(1) / x,
    "tanh": np.tanh,
    "sin": lambda x: np.sin(np.asarray(x, np.float64)).astype(np.float32),
    "cos": lambda x: np.cos(np.asarray(x, np.float64)).astype(np.float32),
    "erf": _in_float64(math.erf),
    "erfc": _in_float64(math.erfc),
    "ceil": np.ceil,
    "floor": np.floor,
    "trunc": np.trunc,
    "round": np.rint,
    "frac": lambda x: x - np.trunc(x),
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "pow": np.power,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "where": np.where,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_not": np.logical_not,
    "bitwise_and": np.logical_and,
    "bitwise_or": np.logical_or,
}
"""What each operation of ``lowering.kernel.pointwise.OPS`` computes, on float32 and bool arrays.

``np.minimum`` and ``np.maximum`` give NaN if either argument is, as torch does.
"""


def frag_pointwise(stmt: FragPointwise, program: Program) -> Run:
    """``frag.pointwise``: on a warp's whole part at once; NumPy repeats rows and columns of 1."""
    function, shape, dtype = FUNCTIONS[stmt.op], _shape(stmt.out.type), stmt.out.type.dtype

    def run(warp: Warp) -> None:
        warp.whole(stmt.OP)
        found = function(*_arguments(warp, stmt.op, stmt.args))
        data = np.array(np.broadcast_to(rounded(found, dtype), shape))
        warp.define(stmt.out, Registers(data, warp.epoch))

    return run


def frag_update(stmt: FragUpdate, program: Program) -> Run:
    """``frag.update``: likewise, into the registers of ``acc``, or into some of them."""
    function, args = FUNCTIONS[stmt.op], (stmt.acc, *stmt.args)
    layout, part = stmt.acc.type.layout, stmt.part
    block, group = stmt.row // layout.rows, stmt.col // layout.columns
    mine = np.s_[:, block : block + part.blocks, group : group + part.groups]

    def run(warp: Warp) -> None:
        warp.whole(stmt.OP)
        before, *others = _arguments(warp, stmt.op, args)
        found = function(np.asarray(before)[mine], *others)
        registers = warp.take(stmt.acc)
        registers.data[mine] = found
        warp.define(stmt.out, registers)

    return run


def _arguments(
    warp: Warp, op: str, args: tuple[Frag | float, ...]
) -> Iterator[Array | np.float32 | np.bool_]:
    conditions = OPS[op].conditions
    for i, arg in enumerate(args):
        if isinstance(arg, Frag):
            yield to_float32(warp.read(arg), arg.type.dtype)
        else:
            yield np.bool_(arg != 0) if i < conditions else np.float32(arg)


def _shape(type_: FragmentType) -> tuple[int, ...]:
    return (32, *type_.held)
