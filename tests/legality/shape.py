"""The form of a schedule: what is left of it without numbers and names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lowering.ground.expr import Const
from wsched.fusion import Fusion, IterDomain, Merge, Split, TensorView, Transform, WarpSpecialized
from wsched.schedule.graph import TransformGraph
from wsched.schedule.parts import find_parts
from wsched.schedule.primitives.circular_buffer import stepping_loops
from wsched.schedule.proof.nest import BOX, Loop, Node, nest

__all__ = ["shape"]

_ONE = Const(1)


def shape(fusion: Fusion) -> tuple[str, ...]:
    """A line for each loop and expression of each part, in the order of the nests.

    A loop is told by how it is made of the dimensions and by who runs it, an expression by its kind
    and its box: schedules of one form differ in sizes of tiles, stages, factors and labels alone.
    Loops of one iteration count nothing.
    """
    graph = TransformGraph(fusion)
    return tuple(
        re.sub(r"\d+", "#", line)
        for part in find_parts(fusion)
        for line in ("part", *_lines(fusion, nest(fusion, graph, part.tensors)))
    )


def _lines(fusion: Fusion, nodes: tuple[Node, ...], depth: int = 0) -> Iterator[str]:
    for node in nodes:
        t, indent = node.tensor, "  " * depth
        if isinstance(node, Loop):
            d = node.domain
            counts = d.extent != _ONE
            if counts:
                yield f"{indent}{_made(t, d)} [{d.parallel}]"
            yield from _lines(fusion, node.body, depth + counts)
        else:
            box = ", ".join(f"{_made(t, d)} [{d.parallel}]" for d in t.loop if d.parallel in BOX)
            yield f"{indent}{fusion.definition(t.name)} of {t.dtype}{_stages(t)}: {box}"


def _stages(t: TensorView) -> str:
    """Who fills stages of a tensor, and which loop steps through them."""
    if t.circular_buffer is None:
        return ""
    how, steps = t.circular_buffer.type, stepping_loops(t)[-1:]
    who = how.on if isinstance(how, WarpSpecialized) else "who reads them"
    return f" in stages by {who} along {', '.join(_made(t, d) for d in steps)}"


def _made(t: TensorView, d: IterDomain) -> str:
    """How a loop is made of the dimensions of its tensor."""
    by: dict[int, Transform] = {out.id: s for s in t.transforms for out in s.outputs}

    def made(d: IterDomain) -> str:
        match by.get(d.id):
            case Split() as s:
                if s.outer.extent == _ONE:
                    return made(s.input)
                which = "outer" if d.id == s.outputs[0].id else "inner"
                end = "outer" if not s.inner_split else "inner"
                how = f"{s.factor}{' dealt out' if s.dynamic else ''} {end}"
                return f"{which}({made(s.inputs[0])} by {how})"
            case Merge() as m:
                order = ", in panels" if m.traversal else ""
                return f"merged({', '.join(map(made, m.inputs))}{order})"
        return d.label

    return made(d)
