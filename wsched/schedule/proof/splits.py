"""Splits that do not divide: what lies behind the last index, and who may run there.

A split whose factor does not divide rounds up, so its parts have combinations that stand for no
index of its input. An iteration *exists* if the input of every such split is in range, taken with
the loops of its box at 0: the box touches the tensor.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowering.ground.expr import ONE
from wsched.fusion import Fusion, Split, TensorView
from wsched.schedule.graph import Group, TransformGraph

__all__ = ["dimensions", "ends_with_tensor", "inner_part", "is_outer_of", "wrote"]


def dimensions(graph: TransformGraph, g: Group) -> frozenset[Group]:
    """The dimensions of tensors that a group is made from."""
    step = graph.producer(g)
    if step is None:
        return frozenset((g,))
    return frozenset().union(*(dimensions(graph, x) for x in step.inputs))


def _whole(graph: TransformGraph, g: Group) -> Group | None:
    """The group behind whose end an index behind that of ``g`` lies: ``g`` is its outer part, or
    all of it with what a split added.
    """
    step = graph.producer(g)
    if step is not None and isinstance(step.transform, Split) and g == step.outputs[0]:
        return step.inputs[0]
    return graph.padded(g)


def ends_with_tensor(graph: TransformGraph, g: Group) -> bool:
    """Whether an index behind the last of ``g`` lies behind the last of one dimension of a tensor.

    There a copy by TMA reads zeros and writes nothing, and a thread leaves out its access; so a
    side that runs on does no harm, where behind the end of an inner part the next item begins.
    """
    while graph.producer(g) is not None:
        whole = _whole(graph, g)
        if whole is None:
            return False
        g = whole
    return True


def is_outer_of(graph: TransformGraph, g: Group, whole: Group) -> bool:
    """Whether ``whole`` in range says that ``g`` is: ``g`` is its outer part, or that one's."""
    while g != whole:
        found = _whole(graph, g)
        if found is None:
            return False
        g = found
    return True


def inner_part(graph: TransformGraph, groups: Sequence[Group], at: int) -> int | None:
    """Where the inner part stands of the split that ``groups[at]`` is the outer part of, if next to
    it: loops of one iteration, which count nothing, may stand between them.

    Args:
        graph: the transform graph.
        groups: loops, slowest first.
        at: the place of one of them.

    Returns:
        None where the two are apart, or are no parts of one split; also of one that deals out at
        run time, whose parts are no digits of what it deals out.
    """
    step = graph.producer(groups[at])
    if step is None or step.dynamic or not isinstance(step.transform, Split):
        return None
    outer, inner = step.outputs
    for place in range(at + 1, len(groups) if groups[at] == outer else 0):
        if groups[place] == inner:
            return place
        if groups[place].extent != ONE:
            break
    return None


def wrote(fusion: Fusion, t: TensorView, split: Split) -> str:
    """The call that made a split, or the split where it was not called by these labels."""
    labels = (split.outer.label, split.inner.label)
    made = (
        str(r)
        for r in reversed(fusion.history)
        if (r.op, r.args[0]) == ("split", t.name) and dict(r.kwargs).get("labels") == labels
    )
    return next(made, str(split))
