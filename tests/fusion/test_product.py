"""Roles of dimensions: by who has them, whatever they are called and wherever the operands lie."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import UnsupportedError
from tests.importer.test_batch import BATCH, MATRIX, build
from tests.schedule.gated import gated
from wsched.fusion import (
    Fusion,
    IterType,
    MmaOp,
    Role,
    operands_of,
    products,
    the_matmul,
    the_products,
)
from wsched.fusion.names import in_order

MATMUL = "y = fd.ops.matmul(a, b)"
MOVED = "t = fd.ops.permute(y, dims=[1, 0])"


def roles(fusion: Fusion) -> dict[Role, tuple[str, ...]]:
    product = the_matmul(fusion)
    return {role: product.names(role) for role in Role}


@pytest.mark.parametrize(
    ("a", "b", "batch", "m", "n"),
    [
        (MATRIX, MATRIX, (), ("M",), ("N",)),
        (BATCH, BATCH, ("B",), ("M",), ("N",)),
        (BATCH, MATRIX, (), ("B", "M"), ("N",)),
        (MATRIX, BATCH, (), ("M",), ("B", "N")),
    ],
)
def test_roles(
    a: str, b: str, batch: tuple[str, ...], m: tuple[str, ...], n: tuple[str, ...]
) -> None:
    """What only one operand has is its rows or columns, a batch that the other lacks as well."""
    f = build(f"a = {a}", f"b = {b}", MATMUL)
    assert roles(f) == {Role.Batch: batch, Role.M: m, Role.N: n, Role.K: ("K",)}
    product = the_matmul(f)
    assert (product.rows.label, product.cols.label) == ("M", "N")
    assert [d.label for d in product.outer] == ["B"] * (BATCH in (a, b))
    assert (product.a.name, product.b.name) == ("T0", "T1")
    assert (product.m_major, product.n_major) == (False, True)


def test_operands_that_change_places_change_roles() -> None:
    """Names stay: N is the extent of the rows of a product whose result lies by columns."""
    f = build(f"a = {MATRIX}", f"b = {MATRIX}", MATMUL, MOVED)
    assert roles(f) == {Role.Batch: (), Role.M: ("N",), Role.N: ("M",), Role.K: ("K",)}
    product = the_matmul(f)
    assert (product.a.name, product.m_major, product.n_major) == ("T1", True, False)
    assert f.operands == ("T0", "T1")


def test_one_matmul() -> None:
    f = build(f"a = {MATRIX}", f"b = {MATRIX}", MATMUL)
    none = replace(f, exprs=tuple(e for e in f.exprs if not isinstance(e, MmaOp)))
    assert (products(none), none.operands) == ((), ())
    with pytest.raises(UnsupportedError) as e:
        the_matmul(none)
    assert str(e.value) == (
        "a fusion without a matrix product is not supported; supported: one of them"
    )
    (mma,) = f.mmas
    second = replace(f.tensor(mma.output), name="T6")
    two = replace(f, tensors=(*f.tensors, second), exprs=(*f.exprs, MmaOp("T6", mma.a, mma.b)))
    assert [p.mma.output for p in products(two)] == [mma.output, "T6"]
    with pytest.raises(UnsupportedError) as e:
        the_matmul(two)
    assert str(e.value) == (
        f"a fusion with 2 matrix products ({mma.output}, T6) is not supported; supported: one of "
        "them. Schedule it call by call, by the names of its tensors"
    )
    with pytest.raises(UnsupportedError) as e:
        the_products(two)
    assert str(e.value) == (
        f"matrix products ({mma.output}, T6) that share neither operand or both is not supported; "
        "supported: several of one A and different Bs, or of one B"
    )


def test_several_products_are_alike() -> None:
    f = gated()
    found = the_products(f)
    assert operands_of(found) == (("T2",), ("T3", "T7"))
    weight = f.tensor("T6")
    columns = replace(weight, allocation=weight.logical[::-1])
    with pytest.raises(UnsupportedError) as e:
        the_products(f.updated((columns,)))
    assert str(e.value) == (
        "matrix products (T4, T8) of different extents, types or layouts is not supported; "
        "supported: products alike, where there are several"
    )


@pytest.mark.parametrize(
    ("at", "kind", "whose"),
    [(0, IterType.Reduction, "one operand has"), (1, IterType.Iteration, "neither operand has")],
)
def test_dimensions_of_no_product(at: int, kind: IterType, whose: str) -> None:
    """A sum over the rows of A alone; a dimension along which the result is repeated."""
    f = build(f"a = {MATRIX}", f"b = {MATRIX}", MATMUL)
    (mma,) = f.mmas
    made, b = f.tensor(mma.output), f.tensor(mma.b)
    dims = [replace(d, iter_type=kind) if n == at else d for n, d in enumerate(made.logical)]
    repeated = tuple(
        replace(d, iter_type=IterType.Broadcast) if n == at else d for n, d in enumerate(b.logical)
    )
    f = f.updated((replace(made, logical=tuple(dims)), replace(b, logical=repeated)))
    with pytest.raises(UnsupportedError) as e:
        products(f)
    assert str(e.value) == (
        f"{'MN'[at]} of {made.name} = {mma}, which {whose} is not supported; supported: sums over "
        "dimensions of both operands, results of those of either"
    )


def test_order_of_names() -> None:
    assert in_order(["N", "x", "K", "a", "B", "N"]) == ("B", "N", "K", "a", "x")
