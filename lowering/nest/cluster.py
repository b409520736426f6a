"""Which CTAs form a cluster: read off the domain that runs on CTAs."""

from __future__ import annotations

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Const, Expr
from wsched.fusion import IterDomain, Merge, ParallelType, TensorView

__all__ = ["cluster_dims", "cluster_size", "constant"]


def cluster_dims(t: TensorView) -> list[IterDomain]:
    """The cluster's dimensions, slowest first: constant inner parts merged into the CTA index.

    CTAs whose indices differ only in them are neighbours, so they can be launched as a cluster;
    the rank in the cluster is the index in their product.
    """
    cta = t.axis_on(ParallelType.BIDx)
    found: list[IterDomain] = []
    at = None if cta is None else cta.id
    while merge := next(
        (x for x in t.transforms if isinstance(x, Merge) and x.output.id == at), None
    ):
        if merge.traversal or not isinstance(merge.inner.extent, Const):
            break
        found.insert(0, merge.inner)
        at = merge.outer.id
    return found


def cluster_size(dims: list[IterDomain]) -> int:
    """CTAs of a cluster."""
    size = 1
    for d in dims:
        size *= constant(d.extent, d.label)
    return size


def constant(e: Expr, what: str) -> int:
    """The value of an extent that has to be known when the kernel is made.

    Raises:
        UnsupportedError: it is a run-time value.
    """
    if not isinstance(e, Const):
        raise UnsupportedError(f"{what} of run-time extent {e}", "constant tile sizes")
    return e.value
