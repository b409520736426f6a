"""Add products onto sums as they are multiplied: an instruction for an element in place of two.

Requires: reductions of fragments, at whatever level. Guarantees: a sum of what nothing else reads
and is the product of two fragments has one of them as its ``factor``, and the product is gone. It
is added without having been rounded, as compilers contract it that are free to (``-fmad`` of nvcc,
with which nvFuser's kernels are compiled).

Before ``reduce_across_warps``, which makes other reductions of those of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Body, Frag, FragPointwise, FragReduce, FragReduceRows, Stmt
from lowering.kernel.visit import map_bodies, reads_in, walk
from passes.options import LoweringOptions

__all__ = ["sum_products"]

_SUMS = (FragReduce, FragReduceRows)


def sum_products(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Give sums their factors.

    before::

        square: frag<f32, 64x64> = frag.pointwise mul, x, x
        total: frag<f32, 64x1> = frag.reduce sum, so_far, square

    after::

        total: frag<f32, 64x1> = frag.reduce sum, so_far, x, factor=x
    """
    if not any(isinstance(s, _SUMS) and s.op == "sum" for s in walk(kernel.body)):
        return kernel
    return replace(kernel, body=_body(kernel.body, reads_in(kernel.body)))


def _body(body: Body, reads: Mapping[str, int]) -> Body:
    products = {
        s.out.name: s
        for s in body
        if isinstance(s, FragPointwise) and s.op == "mul" and reads[s.out.name] == 1
    }
    out, gone = list[Stmt](), set[str]()
    for stmt in body:
        if isinstance(stmt, _SUMS) and (made := _made(stmt, products)) is not None:
            gone.add(stmt.value.name)
            out.append(made)
        else:
            out.append(map_bodies(stmt, lambda inner: _body(inner, reads)))
    return tuple(s for s in out if not (isinstance(s, FragPointwise) and s.out.name in gone))


def _made(
    stmt: FragReduce | FragReduceRows, products: Mapping[str, FragPointwise]
) -> FragReduce | FragReduceRows | None:
    """A sum of a product with its two factors, one of which is as large as the product."""
    product = products.get(stmt.value.name)
    if product is None or stmt.op != "sum" or stmt.factor is not None:
        return None
    first, second = product.args
    if not isinstance(first, Frag) or not isinstance(second, Frag):
        return None
    if first.type != product.out.type:
        first, second = second, first
    if first.type != product.out.type or second.type.rows == second.type.cols == 1:
        return None
    return replace(stmt, value=first, factor=second)
