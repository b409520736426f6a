"""A product along two tensors behind each other, as the sum of two that is one kernel.

    linear(cat([x, y], -1), w)  =  linear(x, w[:, :K]) + linear(y, w[:, K:])

The sum is of pairs of operands along K (:mod:`wsched.importer.sums`): one accumulator, rounded once
as the product is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from wsched.fusion import DataType
from wsched.importer import Node, Ref
from wsched.importer.definition import Value

__all__ = ["PAIRS", "of_pairs", "summands_of"]

PAIRS = 2
"""Summands that one kernel takes."""


def of_pairs(
    matmul: Node, firsts: Sequence[str], seconds: Sequence[str], dtype: DataType
) -> Iterator[Node]:
    """A product as a sum, under its name.

    Args:
        matmul: the product.
        firsts: the parts of its first operand along K.
        seconds: those of the second one.
        dtype: of its result.
    """
    (name,), line = matmul.results, matmul.line
    made = summands_of(name)
    for at, (first, second) in enumerate(zip(firsts, seconds, strict=True)):
        bias = matmul.argument("bias", 2)
        pair: tuple[Value, ...] = (Ref(first), Ref(second), *((bias,) if bias and not at else ()))
        yield replace(matmul, results=(made[at],), operands=pair, kwargs=())
        wide = (("dtype", DataType.Float),)
        yield Node("cast", (f"{made[at]}@wide",), (Ref(made[at]),), wide, line)
    both = tuple(Ref(f"{n}@wide") for n in made)
    yield Node("add", (f"{name}@sum",), both, (), line)
    yield Node("cast", (name,), (Ref(f"{name}@sum"),), (("dtype", dtype),), line)


def summands_of(name: str) -> tuple[str, ...]:
    """The products that one of this name is the sum of."""
    return tuple(f"{name}@k{at}" for at in range(PAIRS))
