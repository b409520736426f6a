"""Splits that do not divide: what lies behind the last index, and who may run there.

A split whose factor does not divide rounds up, so its parts have combinations that stand for no
index of its input. An iteration *exists* if the input of every such split is in range, taken with
the loops of its box at 0: the box touches the tensor.
"""

from __future__ import annotations

from lowering.ground.expr import Const
from wsched.fusion import Split
from wsched.schedule.proof.graph import Group, TransformGraph

__all__ = ["divides", "ends_with_tensor", "is_outer_of"]


def divides(t: Split) -> bool:
    """Whether a split is known to leave no tail."""
    extent, factor = t.input.extent, t.factor
    if not isinstance(factor, Const):
        return False
    return factor.value == 1 or (isinstance(extent, Const) and extent.value % factor.value == 0)


def ends_with_tensor(graph: TransformGraph, g: Group) -> bool:
    """Whether an index behind the last of ``g`` lies behind the last of one dimension of a tensor.

    There a copy by TMA reads zeros and writes nothing, and a thread leaves out its access; so a
    side that runs on does no harm, where behind the end of an inner part the next item begins.
    """
    step = graph.producer(g)
    if step is None:
        return True
    return (
        isinstance(step.transform, Split)
        and g == step.outputs[0]
        and ends_with_tensor(graph, step.inputs[0])
    )


def is_outer_of(graph: TransformGraph, g: Group, whole: Group) -> bool:
    """Whether ``whole`` in range says that ``g`` is: ``g`` is its outer part, or that one's."""
    while g != whole:
        step = graph.producer(g)
        if step is None or not isinstance(step.transform, Split) or g != step.outputs[0]:
            return False
        g = step.inputs[0]
    return True
