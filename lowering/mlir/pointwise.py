"""Pointwise operations on fp32: of ``arith``, functions of libdevice, inline PTX.

As in CUDA, where a product is added to, both are one operation that rounds once (``contract``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lowering.mlir.emitter import Emitter
from lowering.mlir.ssa import F32, I1, Value
from lowering.mlir.trigonometry import sine

__all__ = ["OPERATIONS", "applied"]

Apply = Callable[[Emitter, Sequence[Value]], Value]

_LOG2_E = 1.4426950408889634
_PRODUCTS = {2.0: 1, 3.0: 2}
"""Powers with such a constant exponent are products, as in torch."""


def _arith(name: str, flags: str = "") -> Apply:
    """An operation of ``arith``."""

    def apply(e: Emitter, args: Sequence[Value]) -> Value:
        return e.out.op(f"arith.{name} {', '.join(map(str, args))}{flags} : f32", F32)

    return apply


_MUL = _arith("mulf", " fastmath<contract>")


def _device(name: str) -> Apply:
    """A function of libdevice, which is CUDA's own of single precision (NVVM IR, libdevice)."""

    def apply(e: Emitter, args: Sequence[Value]) -> Value:
        types = ", ".join("f32" for _ in args)
        e.functions[name] = f"llvm.func @__nv_{name}({types}) -> f32"
        return e.out.op(
            f"llvm.call @__nv_{name}({', '.join(map(str, args))}) : ({types}) -> f32", F32
        )

    return apply


def _ordered(predicate: str) -> Apply:
    """A comparison."""

    def apply(e: Emitter, args: Sequence[Value]) -> Value:
        return e.out.op(f"arith.cmpf {predicate}, {args[0]}, {args[1]} : f32", I1)

    return apply


def _size(predicate: str) -> Apply:
    """How the size of a number compares to infinity."""

    def apply(e: Emitter, args: Sequence[Value]) -> Value:
        return _ordered(predicate)(e, [_device("fabsf")(e, args), e.out.number(float("inf"))])

    return apply


def _logic(name: str) -> Apply:
    """An operation on conditions."""

    def apply(e: Emitter, args: Sequence[Value]) -> Value:
        return e.out.op(f"arith.{name} {args[0]}, {args[1]} : i1", I1)

    return apply


def _approximate(e: Emitter, instruction: str, x: Value) -> Value:
    (word,) = e.asm(f"{instruction} $0, $1;", [x], [F32], memory=False, volatile=False)
    return word.value


def _sigmoid(e: Emitter, args: Sequence[Value]) -> Value:
    """As ``ptx::sigmoid`` of CUDA: relative error below 4e-7 + 1e-7 |x|."""
    scaled = _MUL(e, [args[0], e.out.number(-_LOG2_E)])
    power = _approximate(e, "ex2.approx.ftz.f32", scaled)
    total = _arith("addf", " fastmath<contract>")(e, [e.out.number(1.0), power])
    return _approximate(e, "rcp.approx.ftz.f32", total)


def _after(first: Apply, then: Callable[[Emitter, Value, Value], Value]) -> Apply:
    """An operation on the argument and what another one made of it."""
    return lambda e, args: then(e, args[0], first(e, args))


_SUB = _arith("subf", " fastmath<contract>")

OPERATIONS: Mapping[str, Apply] = {
    "add": _arith("addf", " fastmath<contract>"), "sub": _SUB, "mul": _MUL,
    "div": _arith("divf"), "neg": _arith("negf"), "abs": _device("fabsf"),
    "relu": lambda e, args: _arith("maximumf")(e, [args[0], e.out.number(0.0)]),
    "minimum": _arith("minimumf"), "maximum": _arith("maximumf"),
    "reciprocal": lambda e, args: _arith("divf")(e, [e.out.number(1.0), args[0]]),
    **{name: _device(f"{name}f") for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "tanh", "erf",
        "erfc", "ceil", "floor", "trunc", "pow",
    )},
    "round": _device("rintf"),
    "sin": lambda e, args: sine(e, args, 0), "cos": lambda e, args: sine(e, args, 1),
    "frac": _after(_device("truncf"), lambda e, x, whole: _SUB(e, [x, whole])),
    "sigmoid": _sigmoid,
    "silu": _after(_sigmoid, lambda e, x, share: _MUL(e, [x, share])),
    "where": lambda e, args: e.out.op(
        f"arith.select {args[0]}, {args[1]}, {args[2]} : f32", F32
    ),
    "lt": _ordered("olt"), "le": _ordered("ole"), "gt": _ordered("ogt"), "ge": _ordered("oge"),
    "eq": _ordered("oeq"), "ne": _ordered("une"),
    "isnan": lambda e, args: _ordered("uno")(e, [args[0], args[0]]),
    "isinf": _size("oeq"), "isfinite": _size("olt"),
    "logical_and": _logic("andi"), "logical_or": _logic("ori"),
    "bitwise_and": _logic("andi"), "bitwise_or": _logic("ori"),
    "logical_not": lambda e, args: _logic("xori")(e, [args[0], e.out.truth(True)]),
}  # fmt: skip
"""Each operation of ``lowering.kernel.pointwise.OPS``."""


def applied(e: Emitter, op: str, args: Sequence[Value | float]) -> Value:
    """The operation on values and numbers."""
    exponent = args[-1]
    values = [e.out.number(a) if isinstance(a, float | int) else a for a in args]
    if op == "pow" and isinstance(exponent, float) and exponent in _PRODUCTS:
        found = values[0]
        for _ in range(_PRODUCTS[exponent]):
            found = _MUL(e, [found, values[0]])
        return found
    return OPERATIONS[op](e, values)
