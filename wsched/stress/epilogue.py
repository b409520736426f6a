"""Random epilogues: what is written in a definition, and what torch computes of it in fp32.

They are drawn without a size, so that a kernel runs on many. What they begin with are integers that
every type holds, and no operation makes an error much larger: comparisons, where one bit would
decide, are between integers. So results agree within :func:`tolerance` whoever computes them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = ["LARGEST", "NUMBERS", "Epilogue", "Given", "Operation", "drawn_epilogue", "tolerance"]

LARGEST = 2
"""The largest magnitude of an element of an epilogue's input."""

NUMBERS = (0.5, -1.25, 1.5)
"""What values are multiplied by and added to."""

_UNARY = ("relu", "neg", "abs", "tanh", "sigmoid", "silu")
_BINARY = ("add", "sub", "minimum", "maximum")
_COMPARED = ("lt", "ge")
_MOST = 5
"""Operations of an epilogue, beside those that read what nothing has read."""

_ROUNDING = {
    "BFloat16": 2.0**-7, "Half": 2.0**-10, "Float": 2.0**-18, "Int32": 0.0,
    "Float8_e4m3fn": 2.0**-4, "Float8_e5m2": 2.0**-3,
}  # fmt: skip
_ABSOLUTE = 0.02


@dataclass(frozen=True, slots=True)
class Given:
    """An input of the epilogue.

    Args:
        name: in the definition.
        kind: ``matrix`` of the result's shape, ``row`` of N, ``column`` of M x 1, or ``number``.
        dtype: nvFuser's name of its type.
    """

    name: str
    kind: str
    dtype: str

    def shape(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Its shape beside a result of these sizes."""
        *_, m, n = sizes
        return {"matrix": sizes, "row": (n,), "column": (m, 1), "number": ()}[self.kind]


@dataclass(frozen=True, slots=True)
class Operation:
    """``name = fd.ops.op(args)``, in fp32; arguments are names, or numbers."""

    name: str
    op: str
    args: tuple[str | float, ...]

    def __str__(self) -> str:
        return f"{self.name} = fd.ops.{self.op}({', '.join(map(str, self.args))})"


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What follows a product ``y``, of which ``f`` is the value in fp32.

    Args:
        given: inputs, read as fp32 under their names with an ``f`` in front.
        operations: in order.
        results: names of values and the types that they are stored in.
    """

    given: tuple[Given, ...]
    operations: tuple[Operation, ...]
    results: tuple[tuple[str, str], ...]

    @property
    def lines(self) -> list[str]:
        """The lines of a definition behind the product."""
        wide = [("f", "y"), *((f"f{g.name}", g.name) for g in self.given)]
        lines = [f"{f} = fd.ops.cast({name}, dtype=DataType.Float)" for f, name in wide]
        lines += map(str, self.operations)
        lines += [
            f"d{at} = fd.ops.cast({name}, dtype=DataType.{dtype})"
            for at, (name, dtype) in enumerate(self.results)
        ]
        return [*lines, *(f"fd.add_output(d{at})" for at in range(len(self.results)))]

    def values(self, y: torch.Tensor, given: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        """The results in fp32, not rounded to their types.

        Args:
            y: the product, in fp32.
            given: the inputs, by name.
        """
        found: dict[str, Any] = {"f": y}
        found |= {f"f{name}": value.float() for name, value in given.items()}
        for o in self.operations:
            args = [found[a] if isinstance(a, str) else a for a in o.args]
            found[o.name] = _function(o.op)(*args)
        return [found[name].broadcast_to(y.shape) for name, _ in self.results]


def _function(op: str) -> Callable[..., Any]:
    """What torch calls an operation of nvFuser's."""
    import torch

    if op == "silu":
        silu: Callable[..., Any] = torch.nn.functional.silu
        return silu
    found: Callable[..., Any] = getattr(torch, op)
    return found


def tolerance(value: torch.Tensor, dtype: str) -> torch.Tensor:
    """How far a right result of a type may be from its value in fp32, by element."""
    return value.abs() * _ROUNDING[dtype] + _ABSOLUTE


def drawn_epilogue(rng: random.Random, operand: str, batched: bool) -> Epilogue:
    """An epilogue; one in four is none.

    Args:
        rng: draws.
        operand: nvFuser's type of what is multiplied, which the product has.
        batched: whether the result has three dimensions.
    """
    results = rng.choice((operand, operand, "Float", "Half" if operand == "BFloat16" else operand))
    if rng.random() < 0.25:
        return Epilogue((), (), (("f", results),))
    kinds = ("matrix", "matrix", "row", "number") + (() if batched else ("column",))
    types = (operand, "Float")
    given = tuple(
        Given(f"i{at}", kind, "Float" if kind == "number" else rng.choice(types))
        for at, kind in enumerate(rng.sample(kinds, rng.randint(0, 3)))
    )
    exact = ["f", *(f"f{g.name}" for g in given)]
    operations: list[Operation] = []
    values = ["f"]
    for at in range(rng.randint(1, _MOST)):
        operations += _drawn(rng, f"v{at}", exact, values)
        values.append(operations[-1].name)
    read = {a for o in operations for a in o.args}
    for name in (e for e in exact if e not in read):
        operations.append(Operation(f"r{name}", "add", (values[-1], name)))
        values.append(operations[-1].name)
    stored = [(values[-1], results)]
    if rng.random() < 0.25 and len(values) > 2:
        stored.append((rng.choice(values[1:-1]), operand))
    return Epilogue(given, _needed(operations, [n for n, _ in stored]), tuple(stored))


def _drawn(
    rng: random.Random, name: str, exact: list[str], values: list[str]
) -> tuple[Operation, ...]:
    """An operation on the newest value, and what it needs."""
    a, b = values[-1], rng.choice((*exact, *values))
    kind = rng.choice(("unary", "binary", "binary", "number", "times", "where"))
    match kind:
        case "unary":
            return (Operation(name, rng.choice(_UNARY), (a,)),)
        case "binary":
            return (Operation(name, rng.choice(_BINARY), (a, b)),)
        case "number":
            return (Operation(name, rng.choice(("add", "mul")), (a, rng.choice(NUMBERS))),)
        case "times" if len(exact) > 1:
            return (Operation(name, "mul", (a, rng.choice(exact[1:]))),)
    p, q = rng.choice(exact), rng.choice(exact)
    decides = Operation(f"{name}c", rng.choice(_COMPARED), (p, q))
    return decides, Operation(name, "where", (decides.name, a, b))


def _needed(operations: list[Operation], names: list[str]) -> tuple[Operation, ...]:
    """Those that these values are made of."""
    wanted: set[str | float] = set(names)
    kept = []
    for o in reversed(operations):
        if o.name in wanted:
            kept.append(o)
            wanted.update(o.args)
    return tuple(reversed(kept))
