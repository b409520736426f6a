"""Which CTAs form a cluster, in the domains of one tensor."""

from __future__ import annotations

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Const, Expr
from wsched.fusion import IterDomain, TensorView
from wsched.schedule.plan import Plan

__all__ = ["cluster_dims", "constant"]


def cluster_dims(plan: Plan, t: TensorView) -> list[IterDomain]:
    """The cluster's dimensions, slowest first, as a tensor has them.

    CTAs whose indices differ only in them are neighbours, so they can be launched as a cluster;
    the rank in the cluster is the index in their product.
    """
    made = [d for s in t.transforms for d in s.outputs]
    return [next(d for d in made if plan.graph.group(d) == g) for g in plan.cluster]


def constant(e: Expr, what: str) -> int:
    """The value of an extent that has to be known when the kernel is made.

    Raises:
        UnsupportedError: it is a run-time value.
    """
    if not isinstance(e, Const):
        raise UnsupportedError(f"{what} of run-time extent {e}", "constant tile sizes")
    return e.value
