"""Matrix products of a fusion, and what each of their dimensions is to them.

A dimension has its role by who has it: A, B, or both, and whether the product is summed over it.
So operands that change places exchange M and N, and nothing else has to know.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lowering.ground.errors import UnsupportedError
from lowering.ground.frozen import quick
from wsched.fusion.domain import IterDomain
from wsched.fusion.expr import CastOp, MmaOp, PointwiseOp
from wsched.fusion.fusion import Fusion
from wsched.fusion.tensor import TensorView
from wsched.fusion.types import DataType, IterType

__all__ = [
    "Product", "Role", "computed_inputs", "operands_of", "product_of", "products", "prologue",
    "the_matmul", "the_products",
]  # fmt: skip


class Role(Enum):
    """What a dimension is to ``D[batch, m, n] = sum over k of A[batch, m, k] * B[batch, n, k]``."""

    Batch = "batch"
    M = "M"
    N = "N"
    K = "K"


_ROLES = {
    (True, True, False): Role.Batch,
    (True, False, False): Role.M,
    (False, True, False): Role.N,
    (True, True, True): Role.K,
}
"""By whether A has a dimension, B has it, and it is summed over."""


@quick
@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product.

    Args:
        mma: the expression.
        a: the input of the fusion that A is a view or copy of.
        b: that of B.
        operand: type of A as it is multiplied; of B, which is as wide.
        dims: dimensions of what it writes, outermost first, those that it sums over included; of
            what is made in parts those of the whole.
        roles: of each of them.
    """

    mma: MmaOp
    a: TensorView
    b: TensorView
    operand: DataType
    dims: tuple[IterDomain, ...]
    roles: tuple[Role, ...]

    def of(self, role: Role) -> tuple[IterDomain, ...]:
        """The dimensions of a role, outermost first."""
        return tuple(d for d, r in zip(self.dims, self.roles, strict=True) if r is role)

    def names(self, role: Role) -> tuple[str, ...]:
        """Names of the extents of a role, outermost first."""
        return tuple(str(d.extent) for d in self.of(role))

    @property
    def rows(self) -> IterDomain:
        """The innermost dimension of A alone: what a tile has rows of."""
        return self.of(Role.M)[-1]

    @property
    def cols(self) -> IterDomain:
        """The innermost dimension of B alone: what a tile has columns of."""
        return self.of(Role.N)[-1]

    @property
    def outer(self) -> tuple[IterDomain, ...]:
        """The dimensions that say which matrix: all that are neither rows, columns nor summed."""
        inside = {self.rows.id, self.cols.id, *(d.id for d in self.of(Role.K))}
        return tuple(d for d in self.dims if d.id not in inside)

    @property
    def m_major(self) -> bool:
        """Whether A lies in memory with another dimension than K contiguous."""
        return self._apart(self.a)

    @property
    def n_major(self) -> bool:
        """Whether B does."""
        return self._apart(self.b)

    def _apart(self, operand: TensorView) -> bool:
        return str(operand.in_memory[-1].extent) not in self.names(Role.K)


def product_of(fusion: Fusion, mma: MmaOp) -> Product:
    """The product of an expression.

    Raises:
        UnsupportedError: a dimension that is no part of a matrix product.
    """
    a, b, made = (fusion.tensor(name) for name in (mma.a, mma.b, mma.output))
    roles = []
    for left, right, d in zip(a.stored, b.stored, made.read, strict=True):
        has = (left.iter_type is not IterType.Broadcast, right.iter_type is not IterType.Broadcast)
        role = _ROLES.get((*has, d.iter_type is IterType.Reduction))
        if role is None:
            whose = "neither operand has" if not any(has) else "one operand has"
            raise UnsupportedError(
                f"{d.label} of {made.name} = {mma}, which {whose}",
                "sums over dimensions of both operands, results of those of either",
            )
        roles.append(role)
    sources = fusion.source(mma.a), fusion.source(mma.b)
    return Product(mma, *sources, a.dtype, made.read, tuple(roles))


def products(fusion: Fusion) -> tuple[Product, ...]:
    """All matrix products, in topological order; raises as :func:`product_of`."""
    return tuple(product_of(fusion, e) for e in fusion.mmas)


def the_matmul(fusion: Fusion) -> Product:
    """The one matrix product of a fusion, for what is made for a single matmul.

    Raises:
        UnsupportedError: there is none, or there are several.
    """
    found = _some(fusion)
    if len(found) != 1:
        raise UnsupportedError(
            f"a fusion with {len(found)} matrix products ({_made(found)})",
            "one of them",
            "Schedule it call by call, by the names of its tensors",
        )
    return found[0]


def the_products(fusion: Fusion) -> tuple[Product, ...]:
    """The matrix products of a fusion, for what is made for one, or for several that share A or B.

    They are alike: the same extents, types and layouts, so that one tile is that of all. Found when
    they are first asked for, and kept with the fusion.

    Raises:
        UnsupportedError: there is none; several share neither operand or both, or are not alike.
    """
    kept: tuple[Product, ...] | None = fusion._products
    if kept is None:
        kept = _alike_products(fusion)
        object.__setattr__(fusion, "_products", kept)
    return kept


def _alike_products(fusion: Fusion) -> tuple[Product, ...]:
    found = _some(fusion)
    if sorted(map(len, operands_of(found))) != [1, len(found)]:
        what = f"matrix products ({_made(found)}) that share neither operand or both"
        raise UnsupportedError(what, "several of one A and different Bs, or of one B")
    if len({_alike(p) for p in found}) > 1:
        what = f"matrix products ({_made(found)}) of different extents, types or layouts"
        raise UnsupportedError(what, "products alike, where there are several")
    return found


def operands_of(found: tuple[Product, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the As and of the Bs as they enter the products, each once."""
    left, right = (dict.fromkeys(getattr(p.mma, side) for p in found) for side in "ab")
    return tuple(left), tuple(right)


def prologue(fusion: Fusion, operand: str) -> tuple[str, ...]:
    """The tensors that are computed on the way to an operand, in order; copies are none."""
    computed = (CastOp, PointwiseOp)
    made = fusion.made_from([operand])
    return tuple(name for name in made if isinstance(fusion.definition(name), computed))


def computed_inputs(fusion: Fusion) -> frozenset[str]:
    """The inputs of which operands are computed, that are not multiplied as they are."""
    read = (name for e in fusion.mmas for name in (e.a, e.b))
    return frozenset(fusion.source(name).name for name in read if prologue(fusion, name))


def _some(fusion: Fusion) -> tuple[Product, ...]:
    found = products(fusion)
    if not found:
        raise UnsupportedError("a fusion without a matrix product", "one of them")
    return found


def _made(found: tuple[Product, ...]) -> str:
    return ", ".join(p.mma.output for p in found)


def _alike(p: Product) -> tuple[object, ...]:
    """What products that share a tile have in common."""
    extents = tuple(str(d.extent) for d in p.dims)
    return extents, p.roles, p.a.dtype, p.b.dtype, p.m_major, p.n_major
