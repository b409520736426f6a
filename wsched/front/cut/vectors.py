"""A vector in front of batches, or of another vector, as a matrix of one row; a vector as weight.

A vector by a matrix is one kernel as it is (``flatten.py``). Of these the row is a dimension
between others, which the definition puts away again: both are views.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from wsched.importer import Definition, Node, Ref
from wsched.importer.ranks import Ranks

__all__ = ["with_matrices", "written_as"]

_ROWS = "@rows"
"""Ends the name of the product of matrices that a vector's is a row of."""


def with_matrices(definition: Definition) -> Definition:
    """The definition with such products written as those of matrices; itself without any."""
    ranks, nodes = Ranks.all_of(definition), list[Node]()
    for node in map(partial(_of_a_vector, ranks), definition.nodes):
        found = [ranks.get(v) for v in node.factors] if node.op == "matmul" else []
        if len(found) == 2 and found[0] == 1 and found[1] not in (None, 2):
            nodes += _of_a_row(node, found[1] or 1)
        else:
            nodes.append(node)
    made = tuple(nodes)
    return definition if made == definition.nodes else replace(definition, nodes=made)


def written_as(name: str) -> str:
    """What a definition calls a product that has been written anew."""
    return name.removesuffix(_ROWS)


def _of_a_vector(ranks: Ranks, node: Node) -> Node:
    """A ``linear`` whose weight is a vector, which has no dimension of its own in the result, as
    the matmul that it is; any other operation itself.
    """
    if node.op != "linear" or len(node.refs) != 2 or ranks.get(node.factors[1]) != 1:
        return node
    return Node("matmul", node.results, node.factors, (), node.line)


def _of_a_row(matmul: Node, rank: int) -> list[Node]:
    """The product of a vector and a tensor of that rank: the only row of that of a matrix."""
    (name,), line, (a, b) = matmul.results, matmul.line, matmul.factors
    row, rows = f"{a}@{name}", f"{name}{_ROWS}"
    new, gone = (("is_broadcast_dim", (True, False)),), (("dims", (max(rank - 2, 0),)),)
    return [
        Node("broadcast", (row,), (a,), new, line),
        replace(matmul, results=(rows,), operands=(Ref(row), b)),
        Node("squeeze", (name,), (Ref(rows),), gone, line),
    ]
