"""What may stand in loops that step through a ring."""

from __future__ import annotations

from lowering.nest.counter import Counter
from lowering.nest.refusal import refused
from wsched.fusion import IterType, ReductionOp
from wsched.schedule.graph import TransformGraph
from wsched.schedule.plan import Plan
from wsched.schedule.proof.nest import Loop, Node, leaves

__all__ = ["require_parts", "require_perfect"]


def require_parts(plan: Plan, node: Loop, counter: Counter) -> None:
    """Nothing is reduced from tile to tile.

    Raises:
        UnsupportedError: something is.
    """
    counted = {plan.graph.group(s.domain) for s in counter.serial}
    for t in leaves(node):
        if isinstance(plan.fusion.definition(t.name), ReductionOp):
            for d in t.loop:
                if d.iter_type is IterType.Reduction and plan.graph.group(d) in counted:
                    what = f"{t.name} reduced over loop {d.label}, which steps through a ring"
                    raise refused(t, what, "reductions within a tile: rfactor")


def require_perfect(graph: TransformGraph, node: Loop, counter: Counter) -> None:
    """Between loops that are one loop of the kernel nothing is computed.

    Raises:
        UnsupportedError: something is.
    """
    left = {graph.group(s.domain) for s in counter.serial}
    inner: Node = node
    while left and isinstance(inner, Loop):
        left -= {graph.group(inner.domain)}
        if left and len(inner.body) > 1:
            names = ", ".join(s.domain.label for s in counter.serial)
            others = ", ".join(t.name for n in inner.body for t in leaves(n))
            what = f"{others} between the loops {names}"
            raise refused(node.tensor, what, "nothing between loops that end together")
        inner = inner.body[0]
