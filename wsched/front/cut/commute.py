"""A definition with factors of operands behind the product, or in the other operand.

``linear(x * r * g, w)`` with r for each row and g along K is ``linear(x, w * g) * r``. The second
form reads x as it is; r is a vector in the epilogue, on the accumulator in fp32. It is a definition
like any other: that is what is cut, planned and run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lowering.ground.errors import UnsupportedError
from wsched.front.cut.factors import Product, product_of
from wsched.front.cut.graph import Graph
from wsched.front.cut.scaled import narrow, written
from wsched.front.cut.tensors import TensorType
from wsched.fusion import DataType
from wsched.importer import Definition, Ref
from wsched.importer.ops import MATMULS

__all__ = ["Commuted", "Moves", "commuted", "moves_of"]

_HALVES = (DataType.BFloat16, DataType.Half)


@dataclass(frozen=True, slots=True)
class Moves:
    """The factors of one tensor that matmuls read.

    Args:
        operand: its name.
        products: it as a product, for each position of a matmul and side of that.
    """

    operand: str
    products: tuple[tuple[int, int, Product], ...]


@dataclass(frozen=True, slots=True)
class Commuted:
    """A definition whose factors have moved.

    Args:
        definition: with the inputs and outputs of the one that it stands for.
        scaled: for the result of each matmul that factors follow the name of its product with all
            of them, in fp32. Both have to be in one kernel: a product in fp32 is a word of
            wsched's own, which nobody else knows.
        moved: for each matmul's result what was moved, to be told.
    """

    definition: Definition
    scaled: Mapping[str, str]
    moved: Mapping[str, str]


def moves_of(graph: Graph) -> tuple[tuple[Moves, ...], dict[int, str]]:
    """What may be moved of each operand, and why not where it is not the algebra that forbids it.

    Args:
        graph: of a definition.
    """
    found, why = dict[str, list[tuple[int, int, Product]]](), dict[int, str]()
    for i in (i for i in graph.matmuls if graph.nodes[i].op in MATMULS):
        for side in (0, 1):
            product = product_of(graph, i, side)
            if product is None or not _is_worth_it(graph, i, product):
                continue
            try:
                _check(graph, i, side, product)
            except UnsupportedError as e:
                why[i] = f"{graph.nodes[i].refs[side]} is normalised first: {e}"
                continue
            name = graph.nodes[i].refs[side]
            found.setdefault(name, []).append((i, side, product))
    return tuple(Moves(name, tuple(p)) for name, p in found.items()), why


def _is_worth_it(graph: Graph, matmul: int, product: Product) -> bool:
    """Whether it is a part of the work to multiply with a factor that may stand behind.

    A number is none where what it is multiplied with is not in memory.
    """
    kept = [f for f in product.factors if not f.summed]
    if any(isinstance(f.value, Ref) and f.value.name in graph.types for f in kept):
        return True
    dtype = graph.types[graph.nodes[matmul].refs[0]].dtype
    if not kept or product.rest is None or dtype is None:
        return False
    return narrow(graph, product.rest, dtype, matmul) is not None


def _check(graph: Graph, matmul: int, side: int, product: Product) -> None:
    """Refuse what would lose accuracy: Half ends at 65504, and below 6e-5 has fewer digits.

    Raises:
        UnsupportedError: so it would.
    """
    node = graph.nodes[matmul]
    left, right = (graph.types[n] for n in node.refs[:2])
    alike = left.dtype in _HALVES and left.dtype is right.dtype
    if not alike or min(map(_rank, (left, right))) < 2:
        raise UnsupportedError("factors of these operands", "matrices of BFloat16 or Half")
    if left.dtype is not DataType.Half:
        return
    if any(f.summed for f in product.factors):
        raise UnsupportedError(
            "a factor along K in the other operand, in Half", "BFloat16, which has fp32's range"
        )
    if product.rest is None or narrow(graph, product.rest, DataType.Half, matmul) is None:
        raise UnsupportedError(
            "an operand that is Half only with its factors", "BFloat16, which has fp32's range"
        )


def _rank(tensor: TensorType) -> int:
    return len(tensor.dims or ())


def commuted(graph: Graph, moves: Sequence[Moves]) -> Commuted:
    """The definition with all factors of these operands moved.

    Args:
        graph: of the definition.
        moves: of :func:`moves_of`.
    """
    by_matmul: dict[int, dict[int, Product]] = {}
    for i, side, product in (p for m in moves for p in m.products):
        by_matmul.setdefault(i, {})[side] = product
    shared = set[str]()
    made = {i: written(graph, i, by_matmul[i], shared) for i in sorted(by_matmul)}
    nodes = [
        n for i, node in enumerate(graph.nodes) for n in (made[i].nodes if i in made else (node,))
    ]
    return Commuted(
        replace(graph.definition, nodes=tuple(nodes)),
        {m.product: m.scaled for m in made.values()},
        {m.product: m.said for m in made.values()},
    )
