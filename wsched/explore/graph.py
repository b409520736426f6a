"""The fusion as a drawing: tensors at places, edges, and which of them are cut.

Parts stand side by side, what is made below what it is made from. In a part each row has room for
as many tensors as its widest one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from wsched.explore.data import Edge, Graph, Node, Part
from wsched.fusion import Fusion, MemoryType, TensorView, inputs_of
from wsched.schedule.parts import titles
from wsched.schedule.plan import Plan

__all__ = ["graph_of"]

_MEMORY = {
    MemoryType.Global: "global", MemoryType.Shared: "shared", MemoryType.Local: "registers",
    MemoryType.Tensor: "tensor memory",
}  # fmt: skip


def graph_of(plan: Plan) -> Graph:
    """The drawing of a plan."""
    fusion = plan.fusion
    part_of = {name: at for at, part in enumerate(plan.parts) for name in part.tensors}
    ring_of = {n: ring.ring for part in plan.parts for ring in part.rings for n in ring.tensors}
    edges = tuple(
        Edge(name, e.output, str(e).split("(", 1)[0], ring_of.get(name, ""))
        for e in fusion.exprs
        for name in dict.fromkeys(inputs_of(e))
    )
    rows = _rows(fusion, ring_of)
    order = [name for name in rows if name in part_of]
    columns = _columns(order, rows, part_of)
    nodes = (_node(fusion, fusion.tensor(n), part_of[n], columns[n], rows[n]) for n in order)
    named = zip(titles(fusion, plan.parts), plan.parts, strict=True)
    parts = tuple(Part(title, part.loads) for title, part in named)
    relation = tuple("".join(map(str, plan.relations)).splitlines())
    return Graph(parts, tuple(nodes), edges, relation)


def _node(fusion: Fusion, t: TensorView, part: int, column: int, row: int) -> Node:
    made = fusion.definition(t.name)
    loops = tuple(
        d.label if d.parallel.name == "Serial" else f"{d.label} {d.parallel}" for d in t.loop
    )
    text = "input" if made is None else str(made)
    return Node(t.name, t.head, text, loops, part, _MEMORY[t.memory], column, row)


def _rows(fusion: Fusion, cut: Collection[str]) -> dict[str, int]:
    """How many expressions lie above each tensor at most, a row more behind one at which the
    fusion is cut; tensors in topological order.
    """
    found = {b.tensor: 0 for b in fusion.inputs}
    for e in fusion.exprs:
        above = [found[name] + (name in cut) for name in inputs_of(e)]
        found[e.output] = 1 + max(above, default=-1)
    return found


def _columns(order: list[str], rows: dict[str, int], part_of: dict[str, int]) -> dict[str, int]:
    """Places from the left: of each part as many as its widest row has tensors."""
    filled: Counter[tuple[int, int]] = Counter()
    within: dict[str, int] = {}
    for name in order:
        place = part_of[name], rows[name]
        within[name] = filled[place]
        filled[place] += 1
    starts, at = {}, 0
    for part in sorted(set(part_of.values())):
        starts[part] = at
        at += max((n for (p, _), n in filled.items() if p == part), default=0)
    return {name: starts[part_of[name]] + within[name] for name in order}
