"""Which operations of ``fd.ops`` an epilogue may have, what type each result has, and which not.

The promotion is nvFuser's, read off its own IR (tests/importer/test_promotion.py builds the
definitions): arithmetic on 16-bit tensors is cast to fp32 and stays fp32, a few operations keep the
type of their operands, comparisons take fp32 and make Bool. A number never widens a tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from lowering.kernel.pointwise import OPS
from wsched.fusion.names import COLS, ROWS, SUMMED

__all__ = [
    "ADDED", "ALIASES", "COMPOSITE", "FORMS", "GROUPED", "HALVES", "MATMULS", "MISSING", "PRODUCTS",
    "SCALAR", "STRUCTURE", "Promotion", "arity_of", "ops_text", "promotion",
]  # fmt: skip

MATMULS = ("linear", "matmul")
"""What kernels are made around."""

GROUPED = "grouped_mm"
"""A matmul for each group."""

ADDED = "index_put_accumulate"
"""Rows added to those of a tensor, by an index: by the name that nvFuser's IR has for it."""

FORMS: Mapping[tuple[int, int], str] = MappingProxyType({
    (2, 3): ROWS, (3, 2): COLS, (2, 2): SUMMED,
})  # fmt: skip
"""Dimensions of the operands of a grouped matmul, and the extent that groups share out."""

HALVES = "halves"
"""Two tensors along a new dimension of size 2, at ``dim`` of the result: no operation of nvFuser's,
but what a ``cat`` of two halves is where that dimension is taken as two."""

PRODUCTS = (*MATMULS, GROUPED)
"""All of these."""


class Promotion(Enum):
    """What happens to the types of an operation's operands; the value is a sentence for people."""

    FLOAT = "operands to Float, result Float"
    SAME = "result of the operands' common type"
    COMPARE = "operands to Float, result Bool"
    LOGICAL = "operands to Bool, result Bool"
    TEST = "the operand in its own type, result Bool"


_KEEPS_TYPE = frozenset(
    (
        "relu",
        "abs",
        "silu",
        "where",
        "ceil",
        "floor",
        "round",
        "trunc",
        "frac",
        "clamp",
        "threshold",
        "sign",
    )
)
_LOGICAL = frozenset(
    ("logical_and", "logical_or", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor")
)
_TESTS = frozenset(("isnan", "isinf", "isfinite"))

ALIASES = {
    "truediv": "div",
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_not": "logical_not",
}
"""Operations that are another one on the types that an epilogue has."""

COMPOSITE = {
    "addcmul": (4, "x + y * (z * value)"),
    "bitwise_xor": (2, "x != y on Bool"),
    "clamp": (3, "min(max(x, low), high)"),
    "lerp": (3, "x + w * (y - x), or y - (y - x) * (1 - w) from w = 0.5 on; w a number"),
    "sign": (1, "-1, 0 or 1 by comparisons"),
    "threshold": (3, "where(x <= threshold, value, x)"),
}
"""Operations that are imported as several others: number of operands, and as which."""

STRUCTURE = {
    "broadcast": "of an input or of what is computed from inputs",
    "broadcast_in_dim": "likewise",
    "cast": "to BFloat16, Half, Float and Bool; a result to Float8_e4m3fn and Float8_e5m2",
    "expand": "to the sizes of the matmul",
    "grouped_mm": "the matmul of groups, two operands and the ends [G], in three forms",
    "iota": "along a dimension of the matmul: added, multiplied by whole numbers, compared",
    "linear": "the matmul; with a bias of [N]",
    "matmul": "the matmul",
    "max": "as sum",
    "min": "as sum",
    "permute": "on an operand, dims=[1, 0]",
    "scaled_mm": "a matmul times Float scales, single or [M, 1] and [1, N]; a bias of [N]",
    "set": "the same values",
    "size": "of a tensor, in the shape of an expand",
    "squeeze": "of dimensions of size 1",
    "sum": "a result, over rows or columns of what the epilogue computes, or over both",
}
"""Operations that are no arithmetic, and what is supported of them."""

SCALAR = (
    "cast", "add", "sub", "mul", "div", "truediv", "neg",
    "reciprocal", "lt", "le", "gt", "ge", "where",
)  # fmt: skip
"""Operations on constants, folded at import in double precision."""

_REDUCTION = "a reduction or scan over a dimension"
_MOVES = "moves elements"
_RANDOM = "random numbers, which nvFuser draws"
_MATMUL = "another matrix operation"
_MAKES = "makes a tensor of its own"
_INTEGER = "integers only"
_COMPLEX = "complex numbers"
_RARE = "no user has asked for it; a kernel operation would have to be added"

MISSING = {
    "acos": _RARE, "acosh": _RARE, "argsort": _MOVES, "asin": _RARE, "asinh": _RARE, "atan": _RARE,
    "atan2": _RARE, "atanh": _RARE, "bitwise_left_shift": _INTEGER,
    "bitwise_right_shift": _INTEGER, "cat": _MOVES, "complex": _COMPLEX,
    "cosh": _RARE, "cummax": _REDUCTION, "cummin": _REDUCTION, "cumprod": _REDUCTION,
    "cumsum": _REDUCTION, "cutlass_nvfp4_grouped_mm": _MATMUL, "embedding_fwd": _MOVES,
    "erfcinv": _RARE, "erfinv": _RARE, "fmod": _RARE, "full": _MAKES, "gather": _MOVES,
    "gcd": _INTEGER, "imag": _COMPLEX, "index_select": _MOVES,
    "isneginf": _RARE, "isposinf": _RARE, "isreal": _COMPLEX, "lgamma": _RARE,
    "logical_right_shift": _INTEGER, "mod": _RARE,
    "nextafter": _RARE, "normal": _RANDOM, "nv_block_quantize": _REDUCTION,
    "nv_grouped_block_quantize": _REDUCTION, "pad": _MOVES,
    "preprocess_grouped_matmul_input_sf": _MATMUL, "prod": _REDUCTION, "rand_like": _RANDOM,
    "randn_like": _RANDOM, "real": _COMPLEX, "remainder": _RARE, "reshape": _MOVES,
    "scatter": _MOVES, "sdpfa_bwd": _MATMUL, "sdpfa_fwd": _MATMUL,
    "segment_set": "cuts a fusion in two", "select": _MOVES, "shape": _RARE, "signbit": _RARE,
    "sinh": _RARE, "slice": _MOVES, "stride_order": _MOVES,
    "take_along_axis": _MOVES, "tan": _RARE, "topk": _MOVES, "triu": _MOVES, "uniform": _RANDOM,
    "var": _REDUCTION, "var_mean": _REDUCTION, "welford": _REDUCTION,
}  # fmt: skip
"""Operations of nvFuser that an epilogue may not have, and why."""


def promotion(op: str) -> Promotion:
    """How the types of a pointwise operation's operands are promoted."""
    if op in _LOGICAL:
        return Promotion.LOGICAL
    if op in _KEEPS_TYPE:
        return Promotion.SAME
    known = OPS.get(ALIASES.get(op, op))
    if op in _TESTS:
        return Promotion.TEST
    if known is not None and known.predicate:
        return Promotion.COMPARE
    return Promotion.FLOAT


def arity_of(op: str) -> int | None:
    """Number of operands of a pointwise operation of ``fd.ops``; None if it is none."""
    if op in COMPOSITE:
        return COMPOSITE[op][0]
    known = OPS.get(ALIASES.get(op, op))
    return None if known is None else known.arity


def ops_text() -> str:
    """The whole table as Markdown: design/pointwise-ops.md."""
    lines = [
        "# Operations of an epilogue",
        "",
        "Made by `python tools/write_ops.py` from wsched/importer/ops.py; a test compares them.",
        "",
        "## Pointwise",
        "",
        "| fd.ops | computes | types |",
        "| --- | --- | --- |",
    ]
    docs = {name: f"`{o.doc}`" for name, o in OPS.items()}
    docs |= {name: f"`{OPS[of].doc}`" for name, of in ALIASES.items()}
    docs |= {name: f"`{doc}`" for name, (_, doc) in COMPOSITE.items()}
    lines += [
        f"| {n} | {d.replace('|', chr(92) + '|')} | {promotion(ALIASES.get(n, n)).value} |"
        for n, d in sorted(docs.items())
    ]
    lines += ["", "## Structure", "", "| fd.ops | supported |", "| --- | --- |"]
    lines += [f"| {n} | {d} |" for n, d in sorted(STRUCTURE.items())]
    lines += ["", "## Missing", "", "| fd.ops | why |", "| --- | --- |"]
    lines += [f"| {n} | {why} |" for n, why in sorted(MISSING.items())]
    return "\n".join(lines) + "\n"
