"""The element type of each operation's results, as nvFuser promotes operands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wsched.fusion import DataType
from wsched.importer.definition import Node, Ref, Value
from wsched.importer.operands import product_type
from wsched.importer.ops import MATMULS, Promotion, arity_of, promotion

__all__ = ["POINTWISE", "result_types", "tensor_types"]

Known = Sequence[DataType | None]

_INTEGERS = (DataType.Bool, DataType.Int32, DataType.Int)
"""The narrower first."""

_SHIFTS = frozenset(("bitwise_left_shift", "bitwise_right_shift", "logical_right_shift"))
_ARITHMETIC = _SHIFTS | frozenset(("abs", "add", "fmod", "gcd", "maximum", "minimum", "mod", "mul",
                                   "neg", "remainder", "sub"))  # fmt: skip
"""Of integers these are integers."""

_TESTS = frozenset(("isneginf", "isposinf", "isreal", "signbit"))

POINTWISE = _SHIFTS | _TESTS | frozenset((
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "erfcinv", "erfinv",
    "fmod", "gcd", "lgamma", "mod", "nextafter", "remainder", "sin", "sinh", "tan",
))  # fmt: skip
"""Pointwise operations that no epilogue has. Tests make Bool, others promote as an epilogue's."""

_INDICES = frozenset(("argsort", "iota"))
_RANDOM = frozenset(("normal", "uniform"))
_UNKNOWN = frozenset((
    "complex", "cutlass_nvfp4_grouped_mm", "imag", "nv_block_quantize",
    "nv_grouped_block_quantize", "preprocess_grouped_matmul_input_sf", "real", "scaled_mm",
))  # fmt: skip


def tensor_types(nodes: Iterable[Node]) -> dict[str, DataType | None]:
    """The element type of each tensor that operations define, in their order; None of one that is
    not known.
    """
    found, whole = dict[str, DataType | None](), set[str]()

    def is_real(value: Value) -> bool:
        if isinstance(value, Ref):
            return value.name not in found and value.name not in whole
        return isinstance(value, float)

    for node in nodes:
        read = [found[name] for name in node.refs if name in found]
        said = node.get("dtype")
        if node.op == "define_tensor":
            kind = DataType.Float if said is None else said
            found[node.results[0]] = kind if isinstance(kind, DataType) else None
        elif node.op == "size" or (node.op == "define_scalar" and said is DataType.Int):
            whole.update(node.results)
        elif read or node.op in ("full", "iota", "normal", "uniform"):
            kinds = result_types(node, read, any(map(is_real, node.operands)))
            found |= zip(node.results, kinds, strict=False)
    return found


def result_types(node: Node, operands: Known, real: bool) -> list[DataType | None]:
    """The types of all results of an operation; None of one that is not known.

    Args:
        node: the operation.
        operands: types of its tensors, in order.
        real: whether a floating-point number is among its operands.
    """
    count = len(node.results)
    said = node.get("dtype")
    if isinstance(said, DataType):
        return [said] * count
    if node.op in _UNKNOWN or (None in operands and not node.op.startswith("sdpfa")):
        return [None] * count
    if node.op in _INDICES:
        return [DataType.Int] * count
    if node.op in _RANDOM:
        return [DataType.Float] * count
    if node.op in _TESTS:
        return [DataType.Bool] * count
    if node.op == "embedding_fwd":
        return [operands[1]]
    if node.op == "sdpfa_fwd":  # beside the result: log-sum-exp, seed and offset
        return [operands[0], DataType.Float, None, None][:count]
    if node.op == "sdpfa_bwd":  # gradients of query, key and value
        return [operands[1]] * count
    kinds = [k for k in operands if k is not None]
    if node.op in MATMULS and len(kinds) > 1:
        return [product_type(kinds[0], kinds[1])]
    if node.op in POINTWISE or arity_of(node.op) is not None:
        return [_promoted(node.op, kinds, real)] * count
    found = list[DataType | None]([kinds[0] if kinds else None] * count)
    if node.op == "topk":
        found[1:] = [DataType.Int] * (count - 1)
    if node.op == "welford":
        found[2:] = [DataType.Index] * (count - 2)
    if node.op in ("sum", "prod") and kinds and kinds[0] in _INTEGERS:
        return [DataType.Int]
    return found


def _promoted(op: str, kinds: list[DataType], real: bool) -> DataType | None:
    """The result of a pointwise operation on tensors of these types."""
    rule = Promotion.FLOAT if op in POINTWISE else promotion(op)
    integers = all(k in _INTEGERS for k in kinds)
    if rule in (Promotion.COMPARE, Promotion.TEST):
        return DataType.Bool
    if rule is Promotion.LOGICAL:
        return _widest(kinds) if integers else DataType.Bool
    if rule is Promotion.SAME:
        rest = kinds[op == "where" :] or kinds[:0]
        if not rest:
            return DataType.Double if real else DataType.Int
        if len(set(rest)) == 1 and not (real and integers and op in ("clamp", "where")):
            return rest[0]
        return _common(rest, real)
    if integers and not real and op in _ARITHMETIC:
        return _widest(kinds)
    return _common(kinds, real)


def _common(kinds: list[DataType], real: bool) -> DataType | None:
    """Float, unless something wider is among them or all are integers."""
    if any(k in (DataType.ComplexFloat, DataType.ComplexDouble) for k in kinds):
        return None
    return DataType.Double if DataType.Double in kinds else DataType.Float


def _widest(kinds: list[DataType]) -> DataType | None:
    return max(kinds, key=_INTEGERS.index) if kinds else None
